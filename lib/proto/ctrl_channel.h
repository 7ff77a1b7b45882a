/// @file ctrl_channel.h
/// One session's control frames in order, once each, over a path that may lose, repeat or reorder them.
///
/// Model    Sequenced frames are numbered from 1 and acknowledged by the ack_seq of any frame that comes back. At most
///          kWindow are unacknowledged, so a peer that keeps kWindow receives for the session (and half as many for
///          CTRL_ACKs) never runs out. A frame that is not acknowledged in time is sent again with the same seq. The
///          receiver takes only the next number; a gap is dropped and repeated later. CTRL_ACK itself has seq 0 and is
///          never acknowledged. State frames of one kind are outstanding at most once: the caller asks may_send(type).
/// Threads  The control core.
/// Memory   Fixed; frames stay in the caller's slots, named by cookie, until they are acknowledged.
/// Errors   on_frame refuses an ack_seq beyond what was sent with kBadFrame.
#pragma once

#include <array>
#include <cstdint>

#include "base/status.h"
#include "proto/ctrl_frame.h"

namespace sluice {

class CtrlChannel {
 public:
  static constexpr uint32_t kWindow = 16;
  /// The last two places are not for NOTIFY_COMPAT and DATA_NAK, so that they never shut out credit (law 6).
  static constexpr uint32_t kNotifyWindow = kWindow - 2;

  enum class Verdict : uint8_t { kDeliver, kDuplicate, kGap };
  struct Repeat {
    uint64_t cookie;
    uint64_t seq;
  };

  /// @p retry_tsc: first time-out; doubles up to @p max_retry_tsc while nothing is acknowledged.
  void open(uint64_t retry_tsc, uint64_t max_retry_tsc) noexcept;

  /// Whether a sequenced frame of @p type may be sent now; never for CTRL_ACK, which goes unnumbered at any time. A
  /// frame keeps its place until take_acked() has given its cookie back.
  bool may_send(FrameType type) const noexcept;
  /// Number a frame that will be sent; @p cookie names where its bytes are kept. @pre may_send(type).
  uint64_t send(FrameType type, uint64_t cookie, uint64_t now) noexcept;
  /// The ack_seq for any frame that goes out now; it also settles the acknowledgement owed.
  uint64_t ack_to_send() noexcept;
  /// What data messages carry (law 6: the window comes back with the data); does not settle.
  uint64_t received_in_order() const noexcept { return rx_next_ - 1; }
  /// The message path carried received_in_order() = @p seq to the peer: nothing older is owed.
  void ack_carried(uint64_t seq) noexcept;

  /// A frame arrived: its seq and ack_seq. @return kOk with *verdict, kBadFrame (ack_seq beyond what was sent).
  Code on_frame(uint64_t seq, uint64_t ack_seq, bool needs_ack, uint64_t now, Verdict* verdict) noexcept;
  /// An ack_seq arrived by another way (16 low bits of it, in a message header). One that is older than what is known
  /// was overtaken and is harmless. @return as on_frame.
  Code on_ack_low16(uint16_t low) noexcept;
  /// Take the cookie of a frame that was acknowledged; false when there is none.
  bool take_acked(uint64_t* cookie) noexcept;

  /// When the oldest frame's time-out has passed: each unacknowledged frame once, in order (arms the next). Ask until
  /// it says false; a caller that has no room for more asks again later and gets the rest.
  bool take_repeat(uint64_t now, Repeat* repeat) noexcept;
  /// Whether a CTRL_ACK should go out by itself: something is owed and was asked for, or @p delay has passed since.
  bool ack_due(uint64_t now, uint64_t delay_tsc) const noexcept;

  uint32_t unacked() const noexcept { return static_cast<uint32_t>(tx_next_ - 1 - acked_); }
  uint64_t duplicates() const noexcept { return duplicates_; }
  uint64_t gaps() const noexcept { return gaps_; }
  uint64_t repeats() const noexcept { return repeats_; }

 private:
  struct Sent {
    uint64_t cookie;
    FrameType type;
  };
  Code apply_ack(uint64_t ack_seq) noexcept;

  std::array<Sent, kWindow> sent_{};
  uint64_t tx_next_ = 1;     // seq of the next frame
  uint64_t acked_ = 0;       // highest seq the peer has in order
  uint64_t collected_ = 0;   // highest seq whose cookie take_acked gave back
  uint64_t rx_next_ = 1;     // seq expected
  uint64_t ack_sent_ = 0;    // highest ack_seq that went out
  uint64_t owed_since_ = 0;  // when the oldest unsent acknowledgement became due
  uint64_t retry_at_ = 0, retry_ = 0, retry_first_ = 0, retry_max_ = 0;
  uint64_t repeat_next_ = 0;  // next seq of a repeat round; 0: no round
  uint64_t duplicates_ = 0, gaps_ = 0, repeats_ = 0;
  bool ack_asked_ = false;
};

}  // namespace sluice
