// Memory comes and goes under credit: growth on demand, FENCE and DRAIN_ACK into the next epoch, shrinking when idle.
#include "pair_rig.h"

namespace sluice::test {
namespace {

class Credit : public PairRig {
 protected:
  static constexpr uint64_t kLook = HalfNode::kIdle / 8;  // how often the control agent looks at its pools
  uint32_t extents(const HalfNode& n) const { return n.rx->extents() - n.rx->retiring(); }
  // Traffic whose credit is late, so that the peer says that it waits; then the pools are looked at.
  void busy(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      const uint64_t done = a_->done;
      b_->ctrl.withhold = true;
      ASSERT_TRUE(a_->submit(SubmitOp::kWrite, 1, 0, 20'000));
      for (int k = 0; k < 40; ++k) turn(100);
      b_->ctrl.withhold = false;
      b_->ctrl.release();
      ASSERT_TRUE(turn_until([&] { return a_->done == done + 1; }));
      turn(kLook);
    }
  }
  void idle() {
    for (int i = 0; i < 400 && !HasFatalFailure(); ++i) turn(kLook / 10);
  }
};

TEST_F(Credit, GrowsOnDemandUpToItsCeilingAndShrinksWhenIdle) {
  NodeParams big;
  big.extents_max = 4;
  start({}, big);
  ASSERT_TRUE(both_ready());
  busy(12);
  EXPECT_EQ(extents(*b_), 4u);
  EXPECT_EQ(b_->wanted, 3u);
  EXPECT_EQ(b_->data.posted_receives(), 64u);
  EXPECT_GT(b_->session().window_slots, 16u) << "what was grown is granted";
  idle();
  EXPECT_EQ(extents(*b_), 1u);
  EXPECT_EQ(b_->freed, 3u);
  EXPECT_EQ(b_->rx->retiring(), 0u);
  EXPECT_EQ(b_->data.posted_receives(), 16u);
  EXPECT_EQ(b_->control->stats().extents.load(), 1u);
  EXPECT_EQ(b_->control->stats().extents_max.load(), 4u);
  EXPECT_EQ(b_->rx->stale_puts(), 0u);
  busy(12);
  EXPECT_EQ(extents(*b_), 4u) << "and again";
  EXPECT_EQ(a_->faults + b_->faults, 0u);
}

TEST_F(Credit, AnIdlePeersCreditComesBackInTheNextEpoch) {
  NodeParams big;
  big.extents = big.extents_max = 2;
  start({}, big);
  ASSERT_TRUE(both_ready());
  for (uint64_t epoch = 1; epoch <= 3; ++epoch) {
    traffic(5, 6000);
    EXPECT_EQ(raw(b_->session().rx_epoch), epoch);
    EXPECT_EQ(raw(a_->lane[0]->ledger.epoch()), epoch);
    idle();
    EXPECT_EQ(b_->control->stats().fences.load(), epoch);
    EXPECT_EQ(extents(*b_), 1u);
    busy(4);
    EXPECT_EQ(extents(*b_), 2u);
    EXPECT_EQ(raw(a_->lane[0]->ledger.epoch()), epoch + 1);
    EXPECT_EQ(raw(b_->lane[0]->rx_epoch), epoch + 1);
  }
  EXPECT_EQ(a_->faults + b_->faults, 0u);
}

// The fence comes while messages of the old epoch are posted and tasks wait: they are counted, and the tasks go on.
TEST_F(Credit, AFenceUnderLoadLosesNothing) {
  NodeParams big;
  big.extents = big.extents_max = 2;
  start({}, big);
  ASSERT_TRUE(both_ready());
  traffic(5, 6000);
  while (b_->control->stats().fences.load() == 0) {
    turn(kLook / 10);
    ASSERT_LT(fake_now, 10 * HalfNode::kIdle);
  }
  b_->ctrl.lose_next = 1;
  a_->data.withhold = true;
  const uint64_t done = a_->done;
  for (uint64_t i = 0; i < 50; ++i) ASSERT_TRUE(a_->submit(SubmitOp::kWrite, i, i * 700, 700));
  for (int i = 0; i < 20; ++i) turn();
  a_->data.withhold = false;
  a_->data.release();
  ASSERT_TRUE(turn_until([&] { return a_->done == done + 50; }, 50'000, 10));
  EXPECT_EQ(raw(a_->lane[0]->ledger.epoch()), 2u);
  EXPECT_EQ(a_->faults + b_->faults, 0u);
}

// Both sides fence while each has a read of the other's to answer: an answer belongs to the epoch that the other side
// has not begun yet, so neither may wait for its requests to be answered.
TEST_F(Credit, FencesThatCrossWithReadsToAnswerEnd) {
  NodeParams big;
  big.extents = big.extents_max = 2;
  start(big, big);
  ASSERT_TRUE(both_ready());
  traffic(5, 6000);
  const auto both = [&](auto act) { act(*a_), act(*b_); };
  both([](HalfNode& n) { n.ctrl.withhold = true; });
  while (a_->control->stats().fences.load() + b_->control->stats().fences.load() != 2) {
    turn(kLook / 10);
    ASSERT_LT(fake_now, 10 * HalfNode::kIdle);
  }
  const uint64_t da = a_->done, db = b_->done;
  both([](HalfNode& n) {  // requests are under way when the fences come
    n.data.withhold = true;
    for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(n.submit(SubmitOp::kRead, i, i * 700, 700));
  });
  for (int i = 0; i < 5; ++i) turn();
  both([](HalfNode& n) { n.ctrl.withhold = false, n.ctrl.release(); });
  for (int i = 0; i < 5; ++i) turn();
  both([](HalfNode& n) { n.data.withhold = false, n.data.release(); });
  ASSERT_TRUE(turn_until([&] { return a_->done == da + 20 && b_->done == db + 20; }, 50'000, 10));
  EXPECT_EQ(raw(a_->lane[0]->ledger.epoch()), 2u);
  EXPECT_EQ(raw(b_->lane[0]->ledger.epoch()), 2u);
  EXPECT_EQ(a_->session().carried_requests + b_->session().carried_requests, 0u);
  EXPECT_EQ(a_->faults + b_->faults, 0u);
  traffic(3, 6000);
}

TEST_F(Credit, WithoutMemoryItAsksAgainLater) {
  NodeParams big;
  big.extents_max = 2;
  start({}, big);
  b_->give_extents = false;
  ASSERT_TRUE(both_ready());
  busy(6);
  EXPECT_GE(b_->wanted, 1u);
  EXPECT_EQ(extents(*b_), 1u);
  b_->give_extents = true;
  busy(20);
  EXPECT_EQ(extents(*b_), 2u);
}

// Four peers that all send share the receives of one, and none of them is left without.
TEST_F(Credit, PeersShareTheReceivesByTheCapacityLaw) {
  start();
  std::vector<std::unique_ptr<HalfNode>> others;
  for (uint16_t i = 1; i < 4; ++i) {
    others.push_back(std::make_unique<HalfNode>(NodeParams{}));
    connect(*others.back(), 0, *b_, i, SessionId{uint64_t{100} + i});
  }
  others.push_back(std::move(a_));
  a_ = std::make_unique<HalfNode>(NodeParams{});  // an idle stranger, so that turn() has two nodes
  const auto step = [&] {
    fake_now += 1000;
    for (const auto& n : others) {
      n->turn();
      n->collect();
    }
    turn();
    return !HasFatalFailure();
  };
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(step());
  for (const auto& n : others) {
    ASSERT_EQ(n->ready, 1u);
    for (uint64_t k = 0; k < 30; ++k) ASSERT_TRUE(n->submit(SubmitOp::kWrite, k, k * 600, 600));
  }
  for (int i = 0; i < 20'000; ++i) {
    bool all = true;
    for (const auto& n : others) all = all && n->done == 30;
    if (all) break;
    ASSERT_TRUE(step());
  }
  for (const auto& n : others) EXPECT_EQ(n->done, 30u);
  EXPECT_EQ(b_->faults, 0u);
}

// Memory that cannot grow is all with peers that use it without a pause: a new peer gets its floor of it all the same.
TEST_F(Credit, ANewPeerGetsItsFloorFromBusyOnes) {
  start();
  std::vector<std::unique_ptr<HalfNode>> busy;
  for (uint16_t i = 1; i < 3; ++i) {
    busy.push_back(std::make_unique<HalfNode>(NodeParams{}));
    connect(*busy.back(), 0, *b_, i, SessionId{uint64_t{100} + i});
  }
  busy.push_back(std::move(a_));
  a_ = std::make_unique<HalfNode>(NodeParams{});  // an idle stranger, so that turn() has two nodes
  HalfNode fresh{NodeParams{}};
  const auto step = [&] {
    fake_now += 100;
    for (const auto& n : busy) {
      while (n->port.submissions(WorkerId{0}).room() > 200 && n->submit(SubmitOp::kWrite, 1, 0, 1000)) {}
      n->turn();
      n->collect();
    }
    fresh.turn();
    fresh.collect();
    turn();
    return !HasFatalFailure();
  };
  for (int i = 0; i < 3000; ++i) ASSERT_TRUE(step());
  ASSERT_EQ(b_->session().granter.outstanding(Resource::kBounceSlots) +
                b_->session(1).granter.outstanding(Resource::kBounceSlots) +
                b_->session(2).granter.outstanding(Resource::kBounceSlots),
            16u)
      << "all of it is with the busy ones";
  connect(fresh, 0, *b_, 3, SessionId{0x999});
  const uint64_t before = busy[0]->done;
  for (int i = 0; i < 200 && fresh.ready == 0; ++i) ASSERT_TRUE(step());
  EXPECT_EQ(fresh.ready, 1u);
  ASSERT_TRUE(fresh.submit(SubmitOp::kWrite, 1, 0, 5000));
  for (int i = 0; i < 3000 && fresh.done == 0; ++i) ASSERT_TRUE(step());
  EXPECT_EQ(fresh.done, 1u);
  for (int i = 0; i < 3000; ++i) ASSERT_TRUE(step());
  EXPECT_GT(busy[0]->done, before + 100) << "the others go on";
  EXPECT_EQ(b_->faults, 0u);
}

}  // namespace
}  // namespace sluice::test
