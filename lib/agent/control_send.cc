// hot: control frames that go out
#include <algorithm>
#include <cstring>

#include "agent/control.h"

namespace sluice {
namespace {
constexpr uint32_t kAckBatch = 64;  // acknowledgements that are worth a frame without waiting for more
}  // namespace

// Number, encode, keep and transmit one frame. The caller has asked may_send().
template <typename Encode>
bool Control::send(Session& s, FrameType type, bool needs_ack, Epoch epoch, Encode encode) noexcept {
  // The cookie is the place in kept; its number is only known once the channel has given it.
  const uint32_t at = s.next_kept;
  const uint32_t from = s.next_frame();
  if (s.channel.unacked() == 0) s.progress_at = now_;
  const uint64_t seq = s.channel.send(type, at, now_);
  s.next_kept = (at + 1) % CtrlChannel::kWindow;
  const FrameHeader header{
      type, needs_ack ? kFlagNeedsAck : uint16_t{0}, s.params.id, epoch, seq, s.channel.ack_to_send()};
  std::byte* frame = s.frames.get() + from;
  const size_t bytes = encode(std::span<std::byte>{frame, s.params.frame_bytes}, header);
  s.kept[at] = {type, false, static_cast<uint32_t>(bytes), from, seq, {}};
  s.frames_end = from + static_cast<uint32_t>(bytes);
  transmit(s, {frame, bytes});
  return bytes != 0;
}

// Sessions with something to say, now or later, stay listed; each is asked once a turn.
uint32_t Control::pump_all() noexcept {
  uint32_t work = 0;
  work_.swap(next_work_);
  for (Session* s : next_work_) s->listed = false;
  for (Session* s : next_work_) {
    if (s->closed) continue;
    if (overdue(*s)) [[unlikely]]
      fault(*s, Code::kTimeout);
    const uint64_t before = sent_frames_;
    if (pump(*s)) list(*s);
    work += static_cast<uint32_t>(sent_frames_ - before);
  }
  next_work_.clear();
  return work;
}

// @return whether there is something left to do for it, now or when time has passed.
bool Control::pump(Session& s) noexcept {
  pump_acks(s);
  pump_state(s);
  pump_notifies(s);
  if (s.rx.state() == RxState::kEmptying) check_home(s);
  CtrlChannel::Repeat repeat{};
  while (tx_out_ < tx_limit_ && s.channel.take_repeat(now_, &repeat)) {
    ControlStats::add(stats_.frame_repeats, 1);
    const Session::Kept& kept = s.kept[repeat.cookie];
    std::byte* frame = s.frames.get() + kept.from;
    set_ack_seq({frame, kept.bytes}, s.channel.ack_to_send());
    transmit(s, {frame, kept.bytes});
  }
  if (s.lane != nullptr && s.channel.ack_due(now_, p_.ctrl_ack_delay)) {
    // The data messages may have carried it meanwhile.
    const auto carried = s.lane->ctrl_ack_sent.load(std::memory_order_relaxed);
    if (carried == static_cast<uint16_t>(s.channel.received_in_order()))
      s.channel.ack_carried(s.channel.received_in_order());
    if (s.channel.ack_due(now_, p_.ctrl_ack_delay)) send_ctrl_ack(s);
  }
  return s.acks.count != 0 || s.naks.count != 0 || s.notifies.count != 0 || s.channel.unacked() != 0 || s.grant_due ||
         s.request_due || s.open_due || s.drain_due || s.fence_due || s.close_due || s.channel.ack_due(now_, 0) ||
         s.rx.state() == RxState::kFencing;
}

// A peer whose connection lives, and whose control core does not answer: it would keep credit, memory and slots for
// ever.
bool Control::overdue(const Session& s) const noexcept {
  const uint64_t patience = s.heard ? p_.answer : p_.first_answer;
  if (patience == 0 || peers_[raw(s.params.peer)]->fault_told) return false;
  if (s.channel.unacked() != 0 && now_ - s.progress_at > patience) return true;
  return s.rx.state() == RxState::kFencing && !s.fence_due && now_ - s.fence_at > patience;
}

void Control::pump_acks(Session& s) noexcept {
  while (s.naks.count != 0 && may_send(s, FrameType::kDataNak)) {
    (void)send_nak(s, s.naks.front());
    s.naks.pop();
  }
  // An ACK of a PACK must not overtake its NAKs, which may use less of the window: refused tasks would count as done.
  if (s.naks.count != 0 || s.acks.count == 0 || !may_send(s, FrameType::kDataAck)) return;
  if (!s.acks_asked && s.acks.count < kAckBatch && now_ - s.acks_since < p_.ack_delay) return;
  const uint32_t n = std::min({s.acks.count, ack_entries_in(s.params.frame_bytes), kAckFrame});
  std::array<AckEntry, kAckFrame> entries;
  for (uint32_t i = 0; i < n; ++i) entries[i] = s.acks.at(i);
  s.acks.pop(n);
  s.acks_since = now_;
  s.acks_asked = s.acks_asked && s.acks.count != 0;
  // When more wait than a frame holds, the next one should not wait for a delayed acknowledgement.
  (void)send(s, FrameType::kDataAck, s.acks.count != 0, s.rx_epoch,
             [&](std::span<std::byte> out, const FrameHeader& h) {
               return encode_ack(out, h, {entries.data(), n});
             });
}

// States are latest values: each is encoded as it is now, when its turn comes.
void Control::pump_state(Session& s) noexcept {
  if (s.open_due && may_send(s, FrameType::kSessionOpen)) {
    s.open_due = false;
    (void)send(s, FrameType::kSessionOpen, true, s.rx_epoch, [&](std::span<std::byte> out, const FrameHeader& h) {
      return encode_session_open(out, h, {s.params.ceiling_slots, s.params.slot_bytes});
    });
  }
  const bool held = mutant(Mutant::kGrantsFromData) && s.lane != nullptr &&
                    static_cast<Lane*>(s.lane)->ledger.granted()[Resource::kBounceSlots] != 0 &&
                    static_cast<Lane*>(s.lane)->ledger.available(Resource::kBounceSlots) == 0;
  if (s.grant_due && s.rx.state() == RxState::kOpen && may_send(s, FrameType::kCreditGrant) && !held) {
    s.grant_due = false;
    (void)send(s, FrameType::kCreditGrant, false, s.rx_epoch, [&](std::span<std::byte> out, const FrameHeader& h) {
      return encode_grant(out, h, s.granter.totals());
    });
  }
  if (s.request_due && may_send(s, FrameType::kCreditRequest)) {
    s.request_due = false;
    (void)send(s, FrameType::kCreditRequest, false, s.tx_epoch,
               [&](std::span<std::byte> out, const FrameHeader& h) { return encode_request(out, h, s.wanted); });
  }
  if (s.drain_due && may_send(s, FrameType::kDrainAck)) {
    s.drain_due = false;
    DrainAck ack{true, {}};
    std::copy(s.posted_totals.v.begin(), s.posted_totals.v.end(), ack.posted.begin());
    (void)send(s, FrameType::kDrainAck, true, s.tx_epoch,
               [&](std::span<std::byte> out, const FrameHeader& h) { return encode_drain_ack(out, h, ack); });
  }
  if (s.fence_due && may_send(s, FrameType::kFence)) {
    s.fence_due = false;
    s.fence_at = now_;
    (void)send(s, FrameType::kFence, true, s.rx_epoch,
               [](std::span<std::byte> out, const FrameHeader& h) { return encode_frame(out, h, {}); });
  }
  if (s.close_due && s.acks.count == 0 && s.naks.count == 0 && s.notifies.count == 0 &&
      may_send(s, FrameType::kSessionClose)) {
    s.close_due = false;
    s.close_sent = true;
    (void)send(s, FrameType::kSessionClose, true, s.rx_epoch,
               [](std::span<std::byte> out, const FrameHeader& h) { return encode_frame(out, h, {}); });
  }
}

void Control::pump_notifies(Session& s) noexcept {
  while (s.notifies.count != 0 && s.tx_epoch != Epoch{} && may_send(s, FrameType::kNotify)) {
    const PendingNotify n = pending_.pop(s.notifies);
    const char* text = n.port->notify_text(n.out.index);
    const Notify notify{{text, n.out.name_bytes}, {text + n.out.name_bytes, n.out.message_bytes}};
    const uint32_t at = s.next_kept;
    (void)send(s, FrameType::kNotify, true, s.tx_epoch,
               [&](std::span<std::byte> out, const FrameHeader& h) { return encode_notify(out, h, notify); });
    s.kept[at].notify = n;
  }
}

bool Control::send_nak(Session& s, const DataNak& nak) noexcept {
  return send(s, FrameType::kDataNak, true, s.rx_epoch,
              [&](std::span<std::byte> out, const FrameHeader& h) { return encode_nak(out, h, nak); });
}

void Control::send_ctrl_ack(Session& s) noexcept {
  if (!has_room(s)) return;  // asked for again next turn
  std::array<std::byte, kFrameHeaderBytes> frame;
  const FrameHeader header{FrameType::kCtrlAck, 0, s.params.id, s.tx_epoch, 0, s.channel.ack_to_send()};
  transmit(s, {frame.data(), encode_frame(frame, header, {})});
}

// No peer has more than half of the slots that the others leave, so that one that takes nothing cannot hold them all.
bool Control::has_room(const Session& s) const noexcept {
  const Peer& peer = *peers_[raw(s.params.peer)];
  const uint32_t left = tx_limit_ - std::min(tx_limit_, tx_out_ - peer.frames_out);
  return tx_out_ < tx_limit_ && peer.frames_out < std::max(1u, left / 2);
}

// What has no slot is not numbered yet: it is still due, and goes out as it is then.
bool Control::may_send(const Session& s, FrameType type) const noexcept {
  return has_room(s) && s.channel.may_send(type);
}

// Copy into a slot and post. Without a slot the frame counts as lost: its channel repeats it. A slot that the queue
// does not take now waits.
void Control::transmit(Session& s, std::span<const std::byte> frame) noexcept {
  ++sent_frames_;
  ControlStats::add(stats_.frames_sent, 1);
  Peer* peer = peers_[raw(s.params.peer)];
  Slot slot;
  if (!has_room(s) || p_.tx_pool->get({&slot, 1}) == 0) return;
  std::memcpy(slot.addr, frame.data(), frame.size());
  owners_[raw(slot.handle) & UINT32_MAX] = {peer->id, peer->generation};
  ++tx_out_;
  ++peer->frames_out;
  const auto bytes = static_cast<uint32_t>(frame.size());
  const Op op{OpKind::kSend, s.path, raw(slot.handle), slot.addr, slot.local_desc, nullptr, 0, bytes, 0, 0, 0};
  if (peer->frames_unsent == 0 && p_.queue->post({&op, 1}) != 0) return;
  ++peer->frames_unsent;
  unsent_.push_back({slot, s.path, bytes});
}

// In order for each path; a path that refuses stops no other.
void Control::retry_unsent() noexcept {
  size_t kept = 0;
  refused_.clear();
  for (const Unsent& u : unsent_) {
    const Op op{
        OpKind::kSend, u.path, raw(u.slot.handle), u.slot.addr, u.slot.local_desc, nullptr, 0, u.bytes, 0, 0, 0};
    const bool behind = std::find(refused_.begin(), refused_.end(), u.path) != refused_.end();
    if (behind || p_.queue->post({&op, 1}) == 0) {
      if (!behind) refused_.push_back(u.path);
      unsent_[kept++] = u;
    } else if (Peer* peer = owner_of(u.slot.handle); peer != nullptr) {
      --peer->frames_unsent;
    }
  }
  unsent_.resize(kept);
}

Peer* Control::owner_of(SlotHandle handle) noexcept {
  const FrameOwner& owner = owners_[raw(handle) & UINT32_MAX];
  Peer* peer = peers_[raw(owner.peer)];
  return peer != nullptr && peer->generation == owner.generation ? peer : nullptr;
}

// A send slot is home. A frame whose send failed is repeated by its channel's timer.
void Control::on_sent(SlotHandle handle) noexcept {
  if (Peer* peer = owner_of(handle); peer != nullptr) --peer->frames_out;
  --tx_out_;
  (void)p_.tx_pool->put(handle);
}

}  // namespace sluice
