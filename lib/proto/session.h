/// @file session.h
/// The life of a session, for both of its roles: what each event does in each state.
///
/// Model    A lane has one session with two independent directions. As sender we send messages under the peer's credit;
///          as receiver we grant. Each direction has its own epoch, which the receiver begins. apply() is a complete
///          table: it returns the action and moves the state; an event that does not belong is counted and changes
///          nothing.
/// Threads  The control core.
/// Memory   Plain data.
/// Errors   None: kIgnore is the answer to what does not belong, and ignored() counts it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/ids.h"

namespace sluice {

enum class TxState : uint8_t {
  kIdle,      ///< No session.
  kOpening,   ///< Our path is up; the peer's SESSION_OPEN has not come.
  kOpen,      ///< Credit may be spent.
  kDraining,  ///< FENCE came; posted messages are still completing.
  kDrained,   ///< DRAIN_ACK sent; the first grant of the next epoch opens again.
  kClosed,    ///< Ended; nothing more is sent.
};
enum class TxEvent : uint8_t {
  kStart,
  kPeerOpen,
  kGrant,
  kGrantNextEpoch,
  kDataAck,
  kFence,
  kPostsHome,
  kPeerClose,
  kStop
};
enum class TxAction : uint8_t {
  kIgnore,
  kNone,
  kOpenLedger,
  kApplyGrant,
  kNextEpoch,
  kApplyAck,
  kStopPosting,
  kSendDrainAck,
  kEnd
};

enum class RxState : uint8_t {
  kIdle,
  kOpening,   ///< SESSION_OPEN sent and not yet acknowledged; messages cannot come, since nothing is granted.
  kOpen,      ///< Grants flow.
  kFencing,   ///< FENCE sent; waits for DRAIN_ACK.
  kEmptying,  ///< DRAIN_ACK came; messages it counts are still on their way.
  kClosed,
};
enum class RxEvent : uint8_t {
  kStart,
  kOpenAcked,
  kMessages,
  kRequest,
  kFence,
  kDrainAck,
  kAllHome,
  kPeerClose,
  kStop
};
enum class RxAction : uint8_t {
  kIgnore,
  kNone,
  kSendOpen,
  kGrantFirst,
  kAccept,
  kGrant,
  kSendFence,
  kCheckHome,
  kNextEpoch,
  kEnd
};

inline constexpr int kTxStates = 6, kTxEvents = 9, kRxStates = 6, kRxEvents = 9;

class TxSession {
 public:
  TxAction apply(TxEvent event) noexcept;
  TxState state() const noexcept { return state_; }
  uint64_t ignored() const noexcept { return ignored_; }

 private:
  TxState state_ = TxState::kIdle;
  uint64_t ignored_ = 0;
};

class RxSession {
 public:
  RxAction apply(RxEvent event) noexcept;
  RxState state() const noexcept { return state_; }
  uint64_t ignored() const noexcept { return ignored_; }

 private:
  RxState state_ = RxState::kIdle;
  uint64_t ignored_ = 0;
};

std::string_view tx_state_name(TxState state) noexcept;
std::string_view rx_state_name(RxState state) noexcept;
std::string_view tx_event_name(TxEvent event) noexcept;
std::string_view rx_event_name(RxEvent event) noexcept;

}  // namespace sluice
