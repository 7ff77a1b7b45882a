#include "proto/ctrl_channel.h"

#include <algorithm>

namespace sluice {
namespace {

// Latest-value frames: a second one of the same type waits until the first is acknowledged (law 6).
constexpr bool is_state(FrameType type) noexcept {
  return type == FrameType::kCreditGrant || type == FrameType::kCreditProgress || type == FrameType::kCreditRequest ||
         type == FrameType::kDataAck;
}

// Frames that an application or its errors can cause in any number.
constexpr bool leaves_room(FrameType type) noexcept {
  return type == FrameType::kNotify || type == FrameType::kDataNak;
}

}  // namespace

void CtrlChannel::open(uint64_t retry_tsc, uint64_t max_retry_tsc) noexcept {
  *this = CtrlChannel{};
  retry_first_ = std::max<uint64_t>(retry_tsc, 1);
  retry_max_ = std::max(max_retry_tsc, retry_first_);
  retry_ = retry_first_;
}

bool CtrlChannel::may_send(FrameType type) const noexcept {
  if (type == FrameType::kCtrlAck) return false;
  const uint64_t in_use = tx_next_ - 1 - collected_;  // an acknowledged frame holds its place until it is taken
  if (in_use >= (leaves_room(type) ? kNotifyWindow : kWindow)) return false;
  if (!is_state(type)) return true;
  for (uint64_t seq = acked_ + 1; seq < tx_next_; ++seq)
    if (sent_[seq % kWindow].type == type) return false;
  return true;
}

uint64_t CtrlChannel::send(FrameType type, uint64_t cookie, uint64_t now) noexcept {
  if (unacked() == 0) retry_at_ = now + retry_;
  const uint64_t seq = tx_next_++;
  sent_[seq % kWindow] = {cookie, type};
  return seq;
}

uint64_t CtrlChannel::ack_to_send() noexcept {
  ack_asked_ = false;
  ack_sent_ = received_in_order();
  return ack_sent_;
}

void CtrlChannel::ack_carried(uint64_t seq) noexcept {
  ack_sent_ = std::max(ack_sent_, std::min(seq, received_in_order()));
  if (ack_sent_ == received_in_order()) ack_asked_ = false;
}

Code CtrlChannel::on_frame(uint64_t seq, uint64_t ack_seq, bool needs_ack, uint64_t now, Verdict* verdict) noexcept {
  if (const Code code = apply_ack(ack_seq); code != Code::kOk) return code;
  if (seq == 0) {
    *verdict = Verdict::kDeliver;
  } else if (seq == rx_next_) {
    if (ack_sent_ == received_in_order() && !ack_asked_) owed_since_ = now;
    ++rx_next_;
    ack_asked_ |= needs_ack;
    *verdict = Verdict::kDeliver;
  } else if (seq < rx_next_) {
    ++duplicates_;
    ack_asked_ = true;  // the peer repeats because it has not seen the acknowledgement: it may be lost
    *verdict = Verdict::kDuplicate;
  } else {
    ++gaps_;
    *verdict = Verdict::kGap;
  }
  return Code::kOk;
}

Code CtrlChannel::on_ack_low16(uint16_t low) noexcept {
  const auto ahead = static_cast<uint16_t>(low - static_cast<uint16_t>(acked_));
  if (ahead < 0x8000) return apply_ack(acked_ + ahead);
  // Older than what was acknowledged already: a data message that was overtaken by a control frame.
  const uint32_t behind = 0x10000u - ahead;
  return behind <= acked_ ? Code::kOk : Code::kBadFrame;
}

bool CtrlChannel::take_acked(uint64_t* cookie) noexcept {
  if (collected_ == acked_) return false;
  ++collected_;
  *cookie = sent_[collected_ % kWindow].cookie;
  return true;
}

bool CtrlChannel::take_repeat(uint64_t now, Repeat* repeat) noexcept {
  if (unacked() == 0) return false;
  if (repeat_next_ == 0) {
    if (retry_at_ == 0) retry_at_ = now + retry_;  // progress was made since: the time starts again
    if (now < retry_at_) return false;
    repeat_next_ = acked_ + 1;
    retry_ = retry_ > retry_max_ / 2 ? retry_max_ : retry_ * 2;
    retry_at_ = now + retry_;
  }
  *repeat = {sent_[repeat_next_ % kWindow].cookie, repeat_next_};
  ++repeats_;
  repeat_next_ = repeat_next_ + 1 < tx_next_ ? repeat_next_ + 1 : 0;
  return true;
}

bool CtrlChannel::ack_due(uint64_t now, uint64_t delay_tsc) const noexcept {
  if (ack_asked_) return true;
  return ack_sent_ != received_in_order() && now - owed_since_ >= delay_tsc;
}

Code CtrlChannel::apply_ack(uint64_t ack_seq) noexcept {
  if (ack_seq >= tx_next_) return Code::kBadFrame;
  if (ack_seq <= acked_) return Code::kOk;
  acked_ = ack_seq;
  retry_ = retry_first_;
  retry_at_ = 0;
  if (repeat_next_ != 0 && repeat_next_ <= acked_) repeat_next_ = acked_ + 1 < tx_next_ ? acked_ + 1 : 0;
  return Code::kOk;
}

}  // namespace sluice
