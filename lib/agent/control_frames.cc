// hot: control frames that come in
#include <algorithm>

#include "agent/control.h"
#include "proto/msg_header.h"

namespace sluice {
namespace {
/// DATA_NAK codes from here on refuse a notify: task is then the seq of its frame.
constexpr uint32_t kNotifyRefused = 0x100;
/// Messages carry 16 bits of what was received: after so many frames at most, the worker is told how far it is.
constexpr uint64_t kAckRefresh = 0x1000;
/// Messages to a worker that the rest of a turn may need.
constexpr uint32_t kOtherMessages = 64;
}  // namespace

uint32_t Control::poll_frames() noexcept {
  if (!gate_.due()) return 0;
  const uint32_t burst = frames_to_take();
  if (burst == 0) [[unlikely]]
    return 0;  // a worker is behind
  std::array<Completion, kMaxBurst> done;
  const uint32_t n = p_.queue->poll({done.data(), burst});
  gate_.polled(n);
  if (n == 0) return 0;
  for (uint32_t i = 0; i < n; ++i) {
    const auto handle = static_cast<SlotHandle>(done[i].cookie);
    if (done[i].kind == CompletionKind::kOp) {  // a failed one is repeated by its channel's timer
      on_sent(handle);
      continue;
    }
    Slot slot;
    if (!p_.rx_pool->find(handle, &slot)) continue;
    if (done[i].code == Code::kOk) on_frame({slot.addr, done[i].bytes});
    refill_.push_back(slot);
  }
  post_receives();
  return n;
}

// A DATA_ACK becomes a message to its worker for every few entries, and none may be lost.
uint32_t Control::frames_to_take() const noexcept {
  const uint32_t each = ack_entries_in(p_.frame_bytes) / kAcksPerMessage + 2;
  uint32_t burst = kMaxBurst;
  for (const Mailbox<ToWorker>* box : p_.to_worker) {
    const uint32_t room = box->room();
    burst = std::min(burst, room < kOtherMessages ? 0 : (room - kOtherMessages) / each);
  }
  return burst;
}

// Receives stay posted for every session's window; new slots are posted as extents come.
void Control::post_receives() noexcept {
  Slot slot;
  while (refill_.size() < p_.queue->depth().rx && p_.rx_pool->get({&slot, 1}) == 1) refill_.push_back(slot);
  size_t done = 0;
  std::array<RecvBuf, kMaxBurst> bufs;
  while (done < refill_.size()) {
    const size_t n = std::min<size_t>(kMaxBurst, refill_.size() - done);
    for (size_t i = 0; i < n; ++i) {
      const Slot& s = refill_[done + i];
      bufs[i] = RecvBuf{s.addr, s.local_desc, raw(s.handle), p_.frame_bytes};
    }
    const uint32_t taken = p_.queue->refill({bufs.data(), n});
    done += taken;
    if (taken != n) break;
  }
  refill_.erase(refill_.begin(), refill_.begin() + static_cast<ptrdiff_t>(done));
}

void Control::on_frame(std::span<const std::byte> bytes) noexcept {
  Frame f;
  if (parse_frame(bytes, kLastType, &f) != Code::kOk) {
    ControlStats::add(stats_.frames_refused, 1);
    return;
  }
  Session* s = find(f.header.session);
  if (s == nullptr) {
    ControlStats::add(stats_.frames_stale, 1);
    return;
  }
  // A notify that nobody could take is not received at all, unless it can be refused: the peer repeats it.
  if (f.header.type == FrameType::kNotify && !p_.notifies->has_room() &&
      (!s->params.naks || !s->channel.may_send(FrameType::kDataNak)))
    return;
  const bool needs_ack = (f.header.flags & kFlagNeedsAck) != 0;
  CtrlChannel::Verdict verdict{};
  if ((f.header.seq == 0) != (f.header.type == FrameType::kCtrlAck) ||
      s->channel.on_frame(f.header.seq, f.header.ack_seq, needs_ack, now_, &verdict) != Code::kOk) {
    ControlStats::add(stats_.frames_refused, 1);
    return fault(*s, Code::kBadFrame);
  }
  ControlStats::add(stats_.frames_received, 1);
  s->heard = true;
  if (verdict == CtrlChannel::Verdict::kDeliver) {
    deliver(*s, f);  // a NAK marks its notify before that is settled
    if (f.header.seq % kAckRefresh == kAckRefresh - 1 && !s->closed) {
      ToWorker fresh{};
      fresh.kind = ToWorker::Kind::kLease;  // of a lease that is no longer than the one it has
      tell_worker(*s, fresh);
    }
  }
  if (!s->closed) take_acked(*s);
  list(*s);
}

void Control::deliver(Session& s, const Frame& f) noexcept {
  switch (f.header.type) {
    case FrameType::kCreditGrant: return on_grant(s, f);
    case FrameType::kDataAck: return on_data_ack(s, f);
    case FrameType::kDataNak: return on_nak(s, f);
    case FrameType::kSessionOpen: return on_session_open(s, f);
    case FrameType::kDrainAck: return on_drain_ack(s, f);
    case FrameType::kNotify: return on_notify(s, f);
    case FrameType::kCreditRequest:
      if (f.header.epoch != s.rx_epoch) break;
      if (s.rx.apply(RxEvent::kRequest) != RxAction::kGrant) return;
      s.want_credit = s.grant_due = true;  // always answered, risen or not (law 7)
      pools_[raw(s.params.worker)]->hungry = true;
      pools_[raw(s.params.worker)]->dirty = true;
      pools_[raw(s.params.worker)]->share.update(
          raw(s.params.peer), static_cast<uint32_t>(s.granter.outstanding(Resource::kBounceSlots)), true);
      if (p_.wakes_workers) {
        ToWorker awake{};
        awake.kind = ToWorker::Kind::kAwake;
        tell_worker(s, awake);
      }
      return;
    case FrameType::kFence: {
      if (f.header.epoch != s.tx_epoch) break;
      if (s.tx.apply(TxEvent::kFence) != TxAction::kStopPosting) return;
      ToWorker stop{};
      stop.kind = ToWorker::Kind::kStopPosting;
      return tell_worker(s, stop);
    }
    case FrameType::kSessionClose: {
      (void)s.tx.apply(TxEvent::kPeerClose);
      (void)s.rx.apply(RxEvent::kPeerClose);
      ToService out{};
      out.kind = ToService::Kind::kPeerClosedBy;
      out.peer = s.params.peer;
      out.a = s.params.generation;
      return tell_service(out);
    }
    case FrameType::kCreditProgress:
    case FrameType::kCtrlAck: return;
  }
  ControlStats::add(stats_.frames_stale, 1);  // of another epoch: changes nothing (law 11)
}

void Control::on_grant(Session& s, const Frame& f) noexcept {
  CreditGrant grant;
  if (parse_grant(f.payload, &grant) != Code::kOk) return fault(s, Code::kBadFrame);
  const bool next = raw(f.header.epoch) == raw(s.tx_epoch) + 1;
  if (!next && f.header.epoch != s.tx_epoch && !mutant(Mutant::kNoEpochCheck))
    return ControlStats::add(stats_.frames_stale, 1);
  const TxAction action = s.tx.apply(next ? TxEvent::kGrantNextEpoch : TxEvent::kGrant);
  ToWorker m{};
  if (action == TxAction::kNextEpoch) {
    s.tx_epoch = f.header.epoch;
    m.kind = ToWorker::Kind::kOpenTx;
    m.values = {raw(s.tx_epoch), 0, s.committed.v};
    tell_worker(s, m);
  } else if (action != TxAction::kApplyGrant) {
    return;
  }
  m.kind = ToWorker::Kind::kGrant;
  m.values = {raw(s.tx_epoch), f.header.seq, {}};
  for (uint32_t i = 0; i < grant.count; ++i) {
    m.values.totals[static_cast<size_t>(grant.entries[i].resource) - 1] = grant.entries[i].total;
    m.count = static_cast<uint16_t>(m.count | 1u << static_cast<uint16_t>(grant.entries[i].resource));
  }
  tell_worker(s, m);
  if (s.granted_once) return;
  s.granted_once = true;
  Peer* peer = peers_[raw(s.params.peer)];
  if (++peer->ready != peer->sessions.size()) return;
  ToService ready{};
  ready.kind = ToService::Kind::kPeerReady;
  ready.peer = peer->id;
  ready.a = peer->generation;
  tell_service(ready);
}

void Control::on_data_ack(Session& s, const Frame& f) noexcept {
  uint32_t count = 0;
  if (parse_ack(f.payload, &count) != Code::kOk) return fault(s, Code::kBadFrame);
  if (f.header.epoch != s.tx_epoch) return ControlStats::add(stats_.frames_stale, 1);
  if (s.tx.apply(TxEvent::kDataAck) != TxAction::kApplyAck) return;
  ToWorker m{};
  m.kind = ToWorker::Kind::kAcks;
  for (uint32_t i = 0; i < count; i += kAcksPerMessage) {
    m.count = static_cast<uint16_t>(std::min(kAcksPerMessage, count - i));
    for (uint32_t k = 0; k < m.count; ++k) m.acks[k] = ack_entry(f.payload, i + k);
    tell_worker(s, m);
  }
}

void Control::on_nak(Session& s, const Frame& f) noexcept {
  DataNak nak;
  if (parse_nak(f.payload, &nak) != Code::kOk) return fault(s, Code::kBadFrame);
  if (nak.code >= kNotifyRefused) {
    for (Session::Kept& kept : s.kept)  // places are given in turn, but not by number
      if (kept.type == FrameType::kNotify && kept.seq == nak.task) kept.refused = true;
    return;
  }
  ToWorker m{};
  m.kind = ToWorker::Kind::kNak;
  m.count = 1;
  m.acks[0] = {nak.task, nak.code};
  tell_worker(s, m);
}

void Control::on_session_open(Session& s, const Frame& f) noexcept {
  SessionOpen open;
  if (parse_session_open(f.payload, &open) != Code::kOk || open.bounce_slot_bytes != s.params.peer_slot_bytes ||
      open.bounce_slots == 0 || raw(f.header.epoch) == 0)
    return fault(s, Code::kBadFrame);
  if (s.tx.apply(TxEvent::kPeerOpen) != TxAction::kOpenLedger) return;
  s.tx_epoch = f.header.epoch;
  s.committed = window_charge(open.bounce_slots, open.bounce_slots, open.bounce_slot_bytes, kMsgHeaderBytes);
  ToWorker m{};
  m.kind = ToWorker::Kind::kOpenTx;
  m.values = {raw(s.tx_epoch), 0, s.committed.v};
  tell_worker(s, m);
}

void Control::on_drain_ack(Session& s, const Frame& f) noexcept {
  DrainAck ack;
  if (parse_drain_ack(f.payload, &ack) != Code::kOk) return fault(s, Code::kBadFrame);
  if (f.header.epoch != s.rx_epoch) return ControlStats::add(stats_.frames_stale, 1);
  if (s.rx.apply(RxEvent::kDrainAck) != RxAction::kCheckHome) return;
  for (uint32_t i = 0; i < kResources; ++i) {
    s.drain_totals.v[i] = ack.told ? ack.posted[i] : s.granter.accepted().v[i];
    if (s.drain_totals.v[i] > s.granter.granted().v[i]) return fault(s, Code::kBadFrame);
  }
  check_home(s);
}

void Control::on_notify(Session& s, const Frame& f) noexcept {
  Notify notify;
  if (parse_notify(f.payload, &notify) != Code::kOk) return fault(s, Code::kBadFrame);
  if (p_.notifies->put(peers_[raw(s.params.peer)]->name, notify.name, notify.message)) {
    ControlStats::add(stats_.notifies_received, 1);
    return;
  }
  ControlStats::add(stats_.notifies_refused, 1);
  const DataNak nak{f.header.seq, kNotifyRefused + static_cast<uint32_t>(Code::kLimit)};
  (void)send_nak(s, nak);
}

// Frames that the peer has: their places are free, and their notifies delivered (or refused, as a NAK said before).
void Control::take_acked(Session& s) noexcept {
  uint64_t at = 0;
  while (s.channel.take_acked(&at)) {
    Session::Kept& kept = s.kept[at];
    s.progress_at = now_;
    if (kept.type == FrameType::kNotify)
      notify_done(kept.notify, kept.refused ? TaskEnd::kFailed : TaskEnd::kDone,
                  kept.refused ? Code::kLimit : Code::kOk);
    if (kept.type == FrameType::kSessionOpen && s.rx.apply(RxEvent::kOpenAcked) == RxAction::kGrantFirst)
      start_granting(s);
    kept = {};
    list(s);
  }
}

void Control::notify_done(const PendingNotify& n, TaskEnd end, Code code) noexcept {
  ControlStats::add(end == TaskEnd::kDone ? stats_.notifies_sent : stats_.notifies_failed, 1);
  if (n.port != nullptr) (void)n.port->notify_results().put(TaskDone{n.out.ref, 0, end, code, 0});
}

}  // namespace sluice
