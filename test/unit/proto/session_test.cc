#include "proto/session.h"

#include <gtest/gtest.h>

#include <vector>

namespace sluice {
namespace {

// The expected tables are written as one line for each state, in the order of the events, apart from the code's own:
// what happens, and where it leads. "-" does not belong.
using TS = TxState;
using TE = TxEvent;
using TA = TxAction;
using RS = RxState;
using RE = RxEvent;
using RA = RxAction;

template <typename State, typename Action>
struct Want {
  Action action;
  State next;
};

constexpr std::array<std::array<Want<TS, TA>, kTxEvents>, kTxStates> tx_expected() {
  constexpr auto no = [](TS s) { return Want<TS, TA>{TA::kIgnore, s}; };
  constexpr Want<TS, TA> end{TA::kEnd, TS::kClosed};
  constexpr auto idle = no(TS::kIdle), opening = no(TS::kOpening), open = no(TS::kOpen), draining = no(TS::kDraining),
                 drained = no(TS::kDrained), closed = no(TS::kClosed);
  constexpr Want<TS, TA> start{TA::kNone, TS::kOpening}, opened{TA::kOpenLedger, TS::kOpen},
      grant{TA::kApplyGrant, TS::kOpen}, fence{TA::kStopPosting, TS::kDraining}, home{TA::kSendDrainAck, TS::kDrained},
      next{TA::kNextEpoch, TS::kOpen};
  constexpr auto ack = [](TS s) { return Want<TS, TA>{TA::kApplyAck, s}; };
  return {{
      // start    peer_open grant     next_epoch data_ack            fence     posts_home close  stop
      {{start, idle, idle, idle, idle, idle, idle, idle, idle}},
      {{opening, opened, opening, opening, opening, opening, opening, end, end}},
      {{open, open, grant, open, ack(TS::kOpen), fence, open, end, end}},
      {{draining, draining, draining, draining, ack(TS::kDraining), draining, home, end, end}},
      {{drained, drained, drained, next, ack(TS::kDrained), drained, drained, end, end}},
      {{closed, closed, closed, closed, closed, closed, closed, closed, closed}},
  }};
}

constexpr std::array<std::array<Want<RS, RA>, kRxEvents>, kRxStates> rx_expected() {
  constexpr auto no = [](RS s) { return Want<RS, RA>{RA::kIgnore, s}; };
  constexpr Want<RS, RA> end{RA::kEnd, RS::kClosed};
  constexpr auto idle = no(RS::kIdle), opening = no(RS::kOpening), open = no(RS::kOpen), fencing = no(RS::kFencing),
                 emptying = no(RS::kEmptying), closed = no(RS::kClosed);
  constexpr Want<RS, RA> start{RA::kSendOpen, RS::kOpening}, first{RA::kGrantFirst, RS::kOpen},
      grant{RA::kGrant, RS::kOpen}, fence{RA::kSendFence, RS::kFencing}, drained{RA::kCheckHome, RS::kEmptying},
      next{RA::kNextEpoch, RS::kOpen};
  constexpr auto accept = [](RS s) { return Want<RS, RA>{RA::kAccept, s}; };
  return {{
      // start    open_acked messages               request   fence     drain_ack all_home  close  stop
      {{start, idle, idle, idle, idle, idle, idle, idle, idle}},
      {{opening, first, opening, opening, opening, opening, opening, end, end}},
      {{open, open, accept(RS::kOpen), grant, fence, open, open, end, end}},
      {{fencing, fencing, accept(RS::kFencing), fencing, fencing, drained, fencing, end, end}},
      {{emptying, emptying, accept(RS::kEmptying), emptying, emptying, emptying, next, end, end}},
      {{closed, closed, closed, closed, closed, closed, closed, closed, closed}},
  }};
}

// How to come into each state.
const std::vector<std::vector<TE>> kTxWays = {{},
                                              {TE::kStart},
                                              {TE::kStart, TE::kPeerOpen},
                                              {TE::kStart, TE::kPeerOpen, TE::kFence},
                                              {TE::kStart, TE::kPeerOpen, TE::kFence, TE::kPostsHome},
                                              {TE::kStart, TE::kStop}};
const std::vector<std::vector<RE>> kRxWays = {{},
                                              {RE::kStart},
                                              {RE::kStart, RE::kOpenAcked},
                                              {RE::kStart, RE::kOpenAcked, RE::kFence},
                                              {RE::kStart, RE::kOpenAcked, RE::kFence, RE::kDrainAck},
                                              {RE::kStart, RE::kPeerClose}};

template <typename Session, typename Ways, typename Table>
void check_every_pair(const Ways& ways, const Table& expected) {
  using Event = typename Ways::value_type::value_type;
  for (size_t s = 0; s < expected.size(); ++s) {
    for (size_t e = 0; e < expected[s].size(); ++e) {
      Session session;
      for (Event event : ways[s]) session.apply(event);
      ASSERT_EQ(static_cast<size_t>(session.state()), s);
      ASSERT_EQ(session.ignored(), 0u);
      const auto& want = expected[s][e];
      EXPECT_EQ(session.apply(static_cast<Event>(e)), want.action) << "state " << s << " event " << e;
      EXPECT_EQ(session.state(), want.next) << "state " << s << " event " << e;
      const bool ignored = static_cast<int>(want.action) == 0;
      EXPECT_EQ(session.ignored(), ignored ? 1u : 0u) << "state " << s << " event " << e;
      EXPECT_TRUE(!ignored || static_cast<size_t>(session.state()) == s);
    }
  }
}

TEST(Session, SenderTableIsComplete) { check_every_pair<TxSession>(kTxWays, tx_expected()); }
TEST(Session, ReceiverTableIsComplete) { check_every_pair<RxSession>(kRxWays, rx_expected()); }

TEST(Session, ManyEpochsBothRoles) {
  TxSession tx;
  RxSession rx;
  tx.apply(TE::kStart), rx.apply(RE::kStart);
  EXPECT_EQ(tx.apply(TE::kPeerOpen), TA::kOpenLedger);
  EXPECT_EQ(rx.apply(RE::kOpenAcked), RA::kGrantFirst);
  for (int epoch = 0; epoch < 5; ++epoch) {
    EXPECT_EQ(tx.apply(TE::kGrant), TA::kApplyGrant);
    EXPECT_EQ(rx.apply(RE::kMessages), RA::kAccept);
    EXPECT_EQ(rx.apply(RE::kFence), RA::kSendFence);
    EXPECT_EQ(tx.apply(TE::kFence), TA::kStopPosting);
    EXPECT_EQ(tx.apply(TE::kGrantNextEpoch), TA::kIgnore) << "no next epoch before DRAIN_ACK";
    EXPECT_EQ(rx.apply(RE::kMessages), RA::kAccept) << "what is on its way still arrives";
    EXPECT_EQ(tx.apply(TE::kPostsHome), TA::kSendDrainAck);
    EXPECT_EQ(rx.apply(RE::kDrainAck), RA::kCheckHome);
    EXPECT_EQ(rx.apply(RE::kAllHome), RA::kNextEpoch);
    EXPECT_EQ(tx.apply(TE::kGrantNextEpoch), TA::kNextEpoch);
  }
  EXPECT_EQ(tx.ignored(), 5u);
  EXPECT_EQ(rx.ignored(), 0u);
}

TEST(Session, EveryNameIsItsOwn) {
  for (int i = 0; i < kTxStates; ++i) EXPECT_NE(tx_state_name(static_cast<TS>(i)), "unknown");
  for (int i = 0; i < kRxStates; ++i) EXPECT_NE(rx_state_name(static_cast<RS>(i)), "unknown");
  for (int i = 0; i < kTxEvents; ++i) EXPECT_NE(tx_event_name(static_cast<TE>(i)), "unknown");
  for (int i = 0; i < kRxEvents; ++i) EXPECT_NE(rx_event_name(static_cast<RE>(i)), "unknown");
  EXPECT_EQ(tx_event_name(TE::kStop), "stop");
  EXPECT_EQ(rx_event_name(RE::kStop), "stop");
  EXPECT_EQ(tx_state_name(static_cast<TS>(kTxStates)), "unknown");
}

}  // namespace
}  // namespace sluice
