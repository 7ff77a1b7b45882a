#include "engine/service.h"

#include <algorithm>

#include "base/log.h"

namespace sluice {
namespace {
constexpr int kActiveWaitMs = 1;  // while something is under way
constexpr int kIdleWaitMs = 10;
constexpr uint32_t kSessionsPerExtent = 8;  // or more, so that all fit the control pool's extents
constexpr uint32_t kCtrlExtents = BouncePool::kMaxExtents * 3 / 4;
constexpr uint32_t kSuspectBeats = 4;
}  // namespace

Service::Service(const NodeSettings& settings, const Outside& outside, DataPlane* plane, MemoryTable* memory,
                 SegmentTable* segments, std::mutex* lock)
    : settings_(settings),
      outside_(outside),
      plane_(plane),
      memory_(memory),
      segments_(segments),
      lock_(lock),
      incarnation_(Incarnation{outside_.random()}),
      directory_(std::make_unique<P2pDirectory>()) {
  peers_.resize(settings_.max_peers);
}

Service::~Service() {
  for (const FromService& m : unsent_) {
    if (m.kind == FromService::Kind::kPeerUp) delete m.peer_object;
    if (m.kind == FromService::Kind::kPath) delete m.address;
    if (m.kind == FromService::Kind::kExtent || m.kind == FromService::Kind::kCtrlExtent)
      plane_->free_extent(std::unique_ptr<Extent>(m.extent));
  }
}

Status Service::open() {
  OobConfig config;
  config.hello.name = settings_.name;
  config.hello.incarnation = incarnation_;
  config.hello.transport = settings_.transport;
  config.hello.provider = plane_->device().info().provider;
  config.hello.features = {"data_nak"};
  config.hello.max_message_bytes = plane_->slot_bytes();
  config.hello.lease_ms = static_cast<uint32_t>(settings_.lease_ms);
  config.secret = settings_.secret;
  config.heartbeat_ms = static_cast<uint32_t>(settings_.heartbeat_ms);
  config.suspect_ms = config.heartbeat_ms * kSuspectBeats;
  config.lease_margin_ms = config.heartbeat_ms;
  config.connect_ms = static_cast<uint32_t>(settings_.connect_timeout_ms);
  config.max_peers = static_cast<uint32_t>(settings_.max_peers);
  config.now_ns = outside_.now_ns;
  oob_ = outside_.oob(std::move(config), static_cast<OobEvents*>(this));
  if (Status s = oob_->open(); !s.ok()) return s;
  Address address;
  if (Status s = parse_address(settings_.listen, AddressUse::kListen, 0, &address); !s.ok()) return s;
  return oob_->listen(address);
}

void Service::turn() {
  (void)oob_->turn(active_ ? kActiveWaitMs : kIdleWaitMs);
  plane_->tend();
  const std::lock_guard lock(*lock_);
  std::array<ToService, 32> in;
  for (uint32_t n = 0; (n = plane_->from_control().take(in)) != 0;)
    for (uint32_t i = 0; i < n; ++i) on_control(in[i]);
  while (!unsent_.empty() && plane_->to_control().put(unsent_.front())) unsent_.pop_front();
  for (size_t i = 0; i < requests_.size();) {
    const std::shared_ptr<OpenRequest> request = requests_[i];
    if (!request->done) advance(*request);
    if (request->done)
      std::erase(requests_, request);
    else
      ++i;
  }
  if (!leaving_.empty()) ask_to_leave();
  if (!ends_.empty()) answer_ends();
  active_ =
      !ends_.empty() || !leaving_.empty() || !requests_.empty() || !unsent_.empty() || !tokens_.empty() || close_all_;
  for (const PeerEntry& entry : peers_)
    active_ = active_ || (entry.state != PeerState::kFree && entry.state != PeerState::kReady);
  if (close_all_) close_all();
}

// Each peer is fenced first, then told; then what is still to be written goes out.
void Service::close_all() {
  bool closed = !oob_->has_output();
  for (PeerEntry& entry : peers_) {
    if (entry.state == PeerState::kFree || entry.lost) continue;
    fault(entry, Code::kClosed);
    closed = closed && entry.state == PeerState::kFree;
  }
  closed_all_ = closed;
  if (closed) changed_.notify_all();
}

// Order matters, so what the mailbox has no room for waits here, with all that follows it.
void Service::to_control(const FromService& m) {
  if (!unsent_.empty() || !plane_->to_control().put(m)) unsent_.push_back(m);
}

void Service::on_control(const ToService& m) {
  using Kind = ToService::Kind;
  const auto known = [&]() -> PeerEntry* {
    PeerEntry& entry = peers_[raw(m.peer)];
    return entry.state != PeerState::kFree && entry.generation == m.a ? &entry : nullptr;
  };
  switch (m.kind) {
    case Kind::kPeerReady:
      if (PeerEntry* entry = known(); entry != nullptr && entry->state == PeerState::kUp) {
        entry->state = PeerState::kReady;
        peers_up_.fetch_add(1, std::memory_order_relaxed);
      }
      break;
    case Kind::kPeerFault:
      if (PeerEntry* entry = known(); entry != nullptr) {
        log_warn("peer", "'" + entry->name + "' broke the protocol or is stuck (" + std::string(code_name(m.code)) +
                             "): its connection is closed");
        fault(*entry, m.code);
      }
      break;
    case Kind::kPeerClosedBy:
      if (PeerEntry* entry = known(); entry != nullptr) fault(*entry, Code::kClosed);
      break;
    case Kind::kPeerFenced:
      if (PeerEntry* entry = known(); entry != nullptr && entry->state == PeerState::kFaulting && !entry->lost) {
        const uint64_t final_ns = oob_close(*entry, "session ended");
        lose(*entry, Code::kClosed, final_ns == 0 ? 0 : final_tick(final_ns));
      }
      break;
    case Kind::kPeerGone:
      delete m.peer_object;
      sessions_ -= plane_->workers();
      free_entry(peers_[raw(m.peer)]);
      break;
    case Kind::kWantExtent: grow(m.worker); break;
    case Kind::kFreeExtent: plane_->free_extent(std::unique_ptr<Extent>(m.extent)); break;
    case Kind::kBufferCleared:
    case Kind::kPortRemoved:
      if (const auto it = tokens_.find(m.b); it != tokens_.end()) it->second = true;
      break;
    case Kind::kDrained: drained_ = true; break;
    case Kind::kRailDown: reopen(m.worker, static_cast<uint16_t>(m.a)); break;
  }
  changed_.notify_all();
}

// Milliseconds of mapping, touching and registering, away from every lcore.
void Service::grow(WorkerId worker) {
  FromService m{};
  m.worker = worker;
  std::unique_ptr<Extent> extent;
  const Status made = plane_->make_extent(static_cast<uint32_t>(settings_.extent_slots), plane_->slot_bytes(), &extent);
  m.kind = made.ok() ? FromService::Kind::kExtent : FromService::Kind::kNoExtent;
  if (made.ok())
    m.extent = extent.release();
  else
    log_warn("memory", "bounce memory cannot grow: " + made.describe());
  to_control(m);
}

// Control receives for every session's window stand before the session does.
void Service::ensure_ctrl_slots(uint32_t sessions) {
  const auto all = static_cast<uint32_t>(peers_.size()) * plane_->workers();
  const uint32_t more = std::max(kSessionsPerExtent, (all + kCtrlExtents - 1) / kCtrlExtents);
  while (sessions > ctrl_sessions_) {
    std::unique_ptr<Extent> extent;
    const Status made =
        plane_->make_extent(more * kCtrlSlotsPerSession, static_cast<uint32_t>(settings_.ctrl_slot_bytes), &extent);
    if (!made.ok()) {
      log_error("memory", "control slots for another peer: " + made.describe());
      return;
    }
    ctrl_sessions_ += more;
    FromService m{};
    m.kind = FromService::Kind::kCtrlExtent;
    m.extent = extent.release();
    to_control(m);
  }
}

void Service::add_port(PortRings* port) {
  FromService m{};
  m.kind = FromService::Kind::kAddPort;
  m.port = port;
  to_control(m);
}

uint64_t Service::begin_remove_port(PortRings* port) {
  FromService m{};
  m.kind = FromService::Kind::kRemovePort;
  m.port = port;
  const auto token = reinterpret_cast<uint64_t>(port);
  tokens_[token] = false;
  to_control(m);
  oob_->wake();
  return token;
}

void Service::set_buffer(const MemoryTable::Exported& buffer) {
  FromService m{};
  m.kind = FromService::Kind::kSetBuffer;
  m.a = buffer.id;
  m.b = buffer.bytes;
  m.base = buffer.base;
  to_control(m);
}

uint64_t Service::begin_clear_buffer(uint32_t id) {
  FromService m{};
  m.kind = FromService::Kind::kClearBuffer;
  m.a = id;
  m.b = next_id_++;
  tokens_[m.b] = false;
  to_control(m);
  oob_->wake();
  return m.b;
}

bool Service::answered(uint64_t token) {
  const auto it = tokens_.find(token);
  if (it == tokens_.end() || !it->second) return false;
  tokens_.erase(it);
  return true;
}

Status Service::begin_open(std::string_view node, std::string_view name, std::shared_ptr<OpenRequest>* out) {
  auto request = std::make_shared<OpenRequest>();
  request->shown = node;
  request->name = name;
  if (Status s = directory_->lookup(node, &request->address); !s.ok()) return s;
  if (Status s = resolve(request->address, AddressUse::kConnect, &request->targets); !s.ok()) return s;
  const std::lock_guard lock(*lock_);
  request->id = next_id_++;
  requests_.push_back(request);
  oob_->wake();
  *out = std::move(request);
  return Code::kOk;
}

void Service::fail_all_requests(const Status& why) {
  for (const auto& request : requests_) finish(*request, why);
}

void Service::begin_drain(uint32_t deadline_ms) {
  FromService drain{};
  drain.kind = FromService::Kind::kDrain;
  drain.a = uint64_t{deadline_ms} * 1000 * plane_->ticks_per_us() / 2;
  to_control(drain);
}

}  // namespace sluice
