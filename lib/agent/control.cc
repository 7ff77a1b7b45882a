// hot: the control core's turn, and what the service thread and the workers tell it
#include "agent/control.h"

#include <algorithm>
#include <bit>

namespace sluice {
namespace {
constexpr uint32_t kRoom = 256;  // messages to one neighbour that a turn may need, at most
constexpr uint32_t kNotifyBurst = 8;
constexpr uint32_t kNotifyPlaces = 4096;
}  // namespace

Control::Control(const ControlParams& params) : p_(params), pending_(kNotifyPlaces), gate_(params.idle_poll_costly) {
  const auto workers = static_cast<uint32_t>(p_.to_worker.size());
  peers_.assign(p_.max_peers, nullptr);
  map_.assign(std::bit_ceil(uint64_t{p_.max_peers} * workers * 2), MapEntry{SessionId{}, nullptr});
  work_.reserve(size_t{p_.max_peers} * workers);
  next_work_.reserve(size_t{p_.max_peers} * workers);
  ports_.reserve(1024);
  unsent_.reserve(p_.tx_pool->live_slots());
  refused_.reserve(p_.tx_pool->live_slots());
  owners_.resize(p_.tx_pool->live_slots());
  refill_.reserve(2 * size_t{p_.queue->depth().rx});  // a queue's worth from the pool, and one that comes back
  waiters_.reserve(1024);
  for (uint32_t w = 0; w < workers; ++w) {
    pools_.push_back(std::make_unique<Pool>(p_.max_peers));
    Pool& pool = *pools_.back();
    pool.worker = w;
    pool.capacity = p_.rx_slots;
    pool.share.set_capacity(pool.capacity);
    pool.extents = p_.rx_slots / p_.extent_slots;
  }
  stats_.extents_min = UINT64_MAX;
  count_extents();
  tx_limit_ = std::min(p_.queue->depth().tx, p_.tx_pool->live_slots());
  post_receives();
}

Control::~Control() {
  for (Peer* peer : peers_) delete peer;
}

uint32_t Control::turn(uint64_t now) noexcept {
  now_ = now;
  for (Mailbox<ToWorker>* box : p_.to_worker)
    if (box->room() < kRoom) [[unlikely]]
      return 0;  // a worker is behind; nothing may be lost
  if (p_.to_service->room() < kRoom) [[unlikely]]
    return 0;
  uint32_t work = 0;
  if (!p_.from_service->empty()) [[unlikely]]
    work += drain_service();
  work += drain_workers();
  work += poll_frames();
  if (!ports_.empty()) work += take_notifies();
  for (const auto& pool : pools_)
    if (pool->dirty) share(*pool);
  if (!unsent_.empty()) [[unlikely]]
    retry_unsent();
  if (!work_.empty()) work += pump_all();
  p_.queue->flush();
  if (now >= next_manage_) [[unlikely]]
    manage(now);
  return work;
}

uint32_t Control::drain_service() noexcept {
  std::array<FromService, 4> in;
  const uint32_t n = p_.from_service->take(in);
  for (uint32_t i = 0; i < n; ++i) on_service(in[i]);
  return n;
}

uint32_t Control::drain_workers() noexcept {
  uint32_t work = 0;
  std::array<ToControl, kMaxBurst> in;
  for (Mailbox<ToControl>* box : p_.from_worker) {
    if (box->empty()) continue;
    const uint32_t n = box->take(in);
    for (uint32_t i = 0; i < n; ++i) on_worker(in[i]);
    work += n;
  }
  return work;
}

// From the ports' rings into the peers' sessions; what has no place yet stays in its ring.
uint32_t Control::take_notifies() noexcept {
  uint32_t work = 0;
  std::array<NotifyOut, kNotifyBurst> in;
  for (PortRings* port : ports_) {
    if (port->notifies().empty()) continue;
    const uint32_t n = port->notifies().take({in.data(), std::min(kNotifyBurst, pending_.free())});
    work += n;
    for (uint32_t i = 0; i < n; ++i) {
      const PendingNotify pending{in[i], port};
      const uint32_t id = raw(in[i].peer);
      Peer* peer = id < peers_.size() ? peers_[id] : nullptr;
      if (peer == nullptr || peer->failed || peer->generation != in[i].peer_generation) {
        notify_done(pending, TaskEnd::kFailed, Code::kPeerDead);
      } else {
        pending_.push(peer->sessions[0]->notifies, pending);
        list(*peer->sessions[0]);
      }
    }
  }
  return work;
}

void Control::on_service(const FromService& m) noexcept {
  using Kind = FromService::Kind;
  switch (m.kind) {
    case Kind::kPeerUp: on_peer_up(m.peer_object); break;
    case Kind::kPeerLost: on_peer_lost(m.peer, m.code, m.a); break;
    case Kind::kPeerLease:
      if (Peer* peer = peers_[raw(m.peer)]; peer != nullptr) {
        ToWorker lease{};
        lease.kind = ToWorker::Kind::kLease;
        lease.values.a = m.a;
        for (const auto& s : peer->sessions) tell_worker(*s, lease);
      }
      break;
    case Kind::kExtent: {
      ToWorker add{};
      add.kind = ToWorker::Kind::kAddExtent;
      add.extent = m.extent;
      (void)p_.to_worker[raw(m.worker)]->put(add);
      break;
    }
    case Kind::kNoExtent:
      pools_[raw(m.worker)]->growing = false;
      pools_[raw(m.worker)]->next_try = now_ + p_.shrink_idle;
      break;
    case Kind::kCtrlExtent: {
      ExtentId id;
      (void)p_.rx_pool->add_extent(std::unique_ptr<Extent>(m.extent), &id);
      post_receives();
      break;
    }
    case Kind::kSetBuffer:
    case Kind::kClearBuffer: return change_buffer(m);
    case Kind::kAddPort:
    case Kind::kRemovePort: change_port(m); break;
    case Kind::kRailUp:
    case Kind::kPath: return change_rail(m);
    case Kind::kDrain:
      draining_ = true;
      drain_until_ = now_ + m.a;
      for (Peer* peer : peers_) {
        if (peer == nullptr) continue;
        for (const auto& s : peer->sessions) {
          s->close_due = !s->closed;
          list(*s);
        }
      }
      break;
  }
}

void Control::change_buffer(const FromService& m) noexcept {
  const bool set = m.kind == FromService::Kind::kSetBuffer;
  ToWorker out{};
  out.kind = set ? ToWorker::Kind::kSetBuffer : ToWorker::Kind::kClearBuffer;
  out.buffer = {m.a, set ? m.base : nullptr, set ? m.b : 0, set ? 0 : m.b};
  if (!set) waiters_.push_back({m.b, static_cast<uint32_t>(p_.to_worker.size())});
  to_all_workers(out);
}

// A queue of ours, or of a peer's, was opened anew.
void Control::change_rail(const FromService& m) noexcept {
  ToWorker out{};
  out.count = static_cast<uint16_t>(m.a);
  if (m.kind == FromService::Kind::kRailUp) {
    out.kind = ToWorker::Kind::kRailUp;
    out.queue = m.queue;
    (void)p_.to_worker[raw(m.worker)]->put(out);
    return;
  }
  out.kind = ToWorker::Kind::kPath;
  out.address = m.address;
  const Session* s = session_of(m.worker, LaneId{raw(m.peer)}, static_cast<uint16_t>(m.b));
  if (s != nullptr)
    tell_worker(*s, out);
  else
    delete m.address;
}

void Control::change_port(const FromService& m) noexcept {
  ToWorker out{};
  out.port = m.port;
  if (m.kind == FromService::Kind::kAddPort) {
    ports_.push_back(m.port);
    out.kind = ToWorker::Kind::kAddPort;
  } else {
    std::erase(ports_, m.port);
    for (Peer* peer : peers_)  // its notifies go on; their results have nobody to go to
      for (size_t i = 0; peer != nullptr && i < peer->sessions.size(); ++i) forget_port(*peer->sessions[i], m.port);
    out.kind = ToWorker::Kind::kRemovePort;
    waiters_.push_back({reinterpret_cast<uint64_t>(m.port), static_cast<uint32_t>(p_.to_worker.size())});
  }
  to_all_workers(out);
}

void Control::forget_port(Session& s, const PortRings* port) noexcept {
  for (Session::Kept& kept : s.kept)
    if (kept.notify.port == port) kept.notify.port = nullptr;
  const uint32_t count = s.notifies.count;
  for (uint32_t i = 0; i < count; ++i) {  // unsent ones lie in the port's memory: they end with it
    const PendingNotify n = pending_.pop(s.notifies);
    if (n.port != port) pending_.push(s.notifies, n);
  }
}

void Control::on_worker(const ToControl& m) noexcept {
  using Kind = ToControl::Kind;
  switch (m.kind) {
    case Kind::kLaneClosed: on_lane_closed(m); return;
    case Kind::kLaneFenced: on_lane_fenced(m); return;
    case Kind::kCapacity: {
      Pool& pool = *pools_[raw(m.worker)];
      pool.capacity = static_cast<uint32_t>(m.values.a);
      pool.growing = false;
      pool.reserved = std::min(pool.reserved, pool.capacity);
      limit_share(pool);
      pool.dirty = true;
      pool.extents = pool.capacity / p_.extent_slots;
      count_extents();
      return;
    }
    case Kind::kExtentHome: {
      ToService out{};
      out.kind = ToService::Kind::kFreeExtent;
      out.worker = m.worker;
      out.extent = m.extent;
      tell_service(out);
      pools_[raw(m.worker)]->shrinking = false;
      return;
    }
    case Kind::kBufferCleared: answered(m.values.a, ToService::Kind::kBufferCleared, nullptr); return;
    case Kind::kPortRemoved:
      answered(reinterpret_cast<uint64_t>(m.port), ToService::Kind::kPortRemoved, m.port);
      return;
    case Kind::kRailDown: {
      ToService out{};
      out.kind = ToService::Kind::kRailDown;
      out.worker = m.worker;
      out.a = m.count;
      tell_service(out);
      return;
    }
    default: break;
  }
  Session* s = session_of(m.worker, m.lane, m.generation);
  if (s != nullptr && !s->closed) on_lane(*s, m);
}

// What a worker tells of a lane whose session lives.
void Control::on_lane(Session& s, const ToControl& m) noexcept {
  using Kind = ToControl::Kind;
  switch (m.kind) {
    case Kind::kReport: on_report(s, m.report); break;
    case Kind::kAcks:
      for (uint32_t i = 0; i < m.count; ++i) {
        if (s.acks.count == 0) s.acks_since = now_;
        if (s.acks.full()) return fault(s, Code::kBadFrame);
        s.acks.push(m.acks[i]);
      }
      list(s);
      break;
    case Kind::kNak:
      if (s.naks.full() || !s.params.naks) return fault(s, Code::kBadFrame);
      s.naks.push({m.acks[0].task, static_cast<uint32_t>(m.acks[0].acked_bytes)});
      list(s);
      break;
    case Kind::kWaiting:
      s.wanted = {true, m.values.a, m.values.b};
      s.request_due = true;
      list(s);
      break;
    case Kind::kPostsHome:
      if (s.tx.apply(TxEvent::kPostsHome) != TxAction::kSendDrainAck) break;
      s.posted_totals = Charge{m.values.totals};
      s.drain_due = true;
      list(s);
      break;
    default: fault(s, m.code == Code::kOk ? Code::kTimeout : m.code); break;
  }
}

// Every worker has to answer before the service thread is told.
void Control::answered(uint64_t key, ToService::Kind kind, PortRings* port) noexcept {
  for (Waiter& waiter : waiters_) {
    if (waiter.key != key) continue;
    if (--waiter.left != 0) return;
    waiter = waiters_.back();
    waiters_.pop_back();
    ToService out{};
    out.kind = kind;
    out.b = key;
    out.port = port;
    tell_service(out);
    return;
  }
}

// Messages of a lane: they were accepted (X), their receives are posted again (F), and they carried an acknowledgement.
void Control::on_report(Session& s, const ToControl::Report& r) noexcept {
  if (s.rx.apply(RxEvent::kMessages) != RxAction::kAccept && r.accepted_slots != 0) return fault(s, Code::kBadFrame);
  const uint64_t slot = s.params.slot_bytes;
  const Charge accepted{{r.accepted_bytes, r.accepted_requests, r.accepted_slots * slot, r.accepted_slots}};
  const uint64_t carried = std::min<uint64_t>(s.carried_requests, r.released_requests);
  const Charge released{{r.released_bytes, r.released_requests - carried, r.released_slots * slot, r.released_slots}};
  s.carried_requests -= carried;
  if (s.granter.accept(accepted) != Code::kOk || s.granter.release(released) != Code::kOk)
    return fault(s, Code::kBadFrame);
  if (r.has_ack && s.channel.on_ack_low16(r.ctrl_ack) != Code::kOk) return fault(s, Code::kBadFrame);
  take_acked(s);
  s.last_message = now_;
  Pool& pool = *pools_[raw(s.params.worker)];
  pool.accepted += r.accepted_slots;
  if (r.ack_now || r.low_credit) s.acks_asked = true;
  // Grants are coalesced: the next one goes out when the peer has used up half of what it holds, or says it is short.
  const uint64_t held = s.granter.outstanding(Resource::kBounceSlots);
  const uint64_t unused = s.granter.unused(Resource::kBounceSlots);
  if (r.released_requests != 0) raise_requests(s);
  if (r.low_credit || unused * 2 <= s.window_slots) {
    s.want_credit = true;
    pool.dirty = true;
  }
  pool.share.update(raw(s.params.peer), static_cast<uint32_t>(held), s.want_credit);
  if (s.rx.state() == RxState::kEmptying) check_home(s);
  list(s);
}

}  // namespace sluice
