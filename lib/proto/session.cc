#include "proto/session.h"

#include <cstddef>

namespace sluice {
namespace {

template <typename State, typename Action>
struct Step {
  State next;
  Action action;
};

// One row for each state, one column for each event. Everything starts as "does not belong": kIgnore, same state.
template <typename State, typename Event, typename Action, size_t kStates, size_t kEvents>
struct Table {
  std::array<std::array<Step<State, Action>, kEvents>, kStates> steps{};

  constexpr Table() noexcept {
    for (size_t s = 0; s < kStates; ++s) steps[s].fill({static_cast<State>(s), Action::kIgnore});
  }
  constexpr void on(State from, Event event, Action action, State to) noexcept {
    steps[static_cast<size_t>(from)][static_cast<size_t>(event)] = {to, action};
  }
  constexpr void stay(State state, Event event, Action action) noexcept { on(state, event, action, state); }
};

using TxTable = Table<TxState, TxEvent, TxAction, kTxStates, kTxEvents>;
using RxTable = Table<RxState, RxEvent, RxAction, kRxStates, kRxEvents>;

constexpr TxTable make_tx_table() noexcept {
  using enum TxState;
  using E = TxEvent;
  using A = TxAction;
  TxTable t;
  t.on(kIdle, E::kStart, A::kNone, kOpening);
  t.on(kOpening, E::kPeerOpen, A::kOpenLedger, kOpen);
  t.stay(kOpen, E::kGrant, A::kApplyGrant);
  t.on(kOpen, E::kFence, A::kStopPosting, kDraining);
  t.on(kDraining, E::kPostsHome, A::kSendDrainAck, kDrained);
  t.on(kDrained, E::kGrantNextEpoch, A::kNextEpoch, kOpen);
  for (TxState state : {kOpen, kDraining, kDrained}) t.stay(state, E::kDataAck, A::kApplyAck);
  for (TxState state : {kOpening, kOpen, kDraining, kDrained})
    for (E end : {E::kPeerClose, E::kStop}) t.on(state, end, A::kEnd, kClosed);
  return t;
}

constexpr RxTable make_rx_table() noexcept {
  using enum RxState;
  using E = RxEvent;
  using A = RxAction;
  RxTable t;
  t.on(kIdle, E::kStart, A::kSendOpen, kOpening);
  t.on(kOpening, E::kOpenAcked, A::kGrantFirst, kOpen);
  t.stay(kOpen, E::kRequest, A::kGrant);
  t.on(kOpen, E::kFence, A::kSendFence, kFencing);
  t.on(kFencing, E::kDrainAck, A::kCheckHome, kEmptying);
  t.on(kEmptying, E::kAllHome, A::kNextEpoch, kOpen);
  for (RxState state : {kOpen, kFencing, kEmptying}) t.stay(state, E::kMessages, A::kAccept);
  for (RxState state : {kOpening, kOpen, kFencing, kEmptying})
    for (E end : {E::kPeerClose, E::kStop}) t.on(state, end, A::kEnd, kClosed);
  return t;
}

constexpr TxTable kTxTable = make_tx_table();
constexpr RxTable kRxTable = make_rx_table();

template <size_t kCount, typename Enum>
std::string_view name_in(const std::array<std::string_view, kCount>& names, Enum value) noexcept {
  const auto i = static_cast<size_t>(value);
  return i < kCount ? names[i] : std::string_view{"unknown"};
}

}  // namespace

TxAction TxSession::apply(TxEvent event) noexcept {
  const auto& step = kTxTable.steps[static_cast<size_t>(state_)][static_cast<size_t>(event)];
  if (step.action == TxAction::kIgnore) ++ignored_;
  state_ = step.next;
  return step.action;
}

RxAction RxSession::apply(RxEvent event) noexcept {
  const auto& step = kRxTable.steps[static_cast<size_t>(state_)][static_cast<size_t>(event)];
  if (step.action == RxAction::kIgnore) ++ignored_;
  state_ = step.next;
  return step.action;
}

std::string_view tx_state_name(TxState state) noexcept {
  constexpr std::array<std::string_view, kTxStates> kNames = {"idle",     "opening", "open",
                                                              "draining", "drained", "closed"};
  return name_in(kNames, state);
}

std::string_view rx_state_name(RxState state) noexcept {
  constexpr std::array<std::string_view, kRxStates> kNames = {"idle",    "opening",  "open",
                                                              "fencing", "emptying", "closed"};
  return name_in(kNames, state);
}

std::string_view tx_event_name(TxEvent event) noexcept {
  constexpr std::array<std::string_view, kTxEvents> kNames = {
      "start", "peer_open", "grant", "grant_next_epoch", "data_ack", "fence", "posts_home", "peer_close", "stop"};
  return name_in(kNames, event);
}

std::string_view rx_event_name(RxEvent event) noexcept {
  constexpr std::array<std::string_view, kRxEvents> kNames = {
      "start", "open_acked", "messages", "request", "fence", "drain_ack", "all_home", "peer_close", "stop"};
  return name_in(kNames, event);
}

}  // namespace sluice
