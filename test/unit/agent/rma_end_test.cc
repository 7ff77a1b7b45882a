// How one-sided tasks end when not all goes well: rails that fail, peers that go, cancels, deadlines, ports that leave.
#include <algorithm>

#include "rma_rig.h"

namespace sluice::test {
namespace {

TEST(RmaRails, ShareTheWork) {
  RmaRig rig({.rails = 2, .op_bytes = 64});
  rig.open_lane();
  for (auto& q : rig.queues) q->withhold = true;
  rig.submit(SubmitOp::kWrite, 1, 0, 0, 64 * 16);
  for (int i = 0; i < 4; ++i) rig.turn();
  EXPECT_EQ(rig.queues[0]->held(), 8u);
  EXPECT_EQ(rig.queues[1]->held(), 8u);
  for (auto& q : rig.queues) q->withhold = false, q->release();
  EXPECT_TRUE(rig.settle());
}

TEST(RmaRails, TheNearOneIsTaken) {
  RmaRig rig({.rails = 2,
              .depth = 64,
              .op_bytes = 64,
              .penalty = {std::vector<uint32_t>(8, 10), std::vector<uint32_t>(8, 1)}});
  if (rig.local->numa_node() < 0 || rig.local->numa_node() >= 8)
    GTEST_SKIP() << "the kernel does not tell where memory is";
  rig.open_lane();
  for (auto& q : rig.queues) q->withhold = true;
  rig.submit(SubmitOp::kWrite, 1, 0, 0, 64 * 22);
  for (int i = 0; i < 4; ++i) rig.turn();
  EXPECT_EQ(rig.queues[0]->held(), 2u) << "ten times as far: ten times fewer";
  EXPECT_EQ(rig.queues[1]->held(), 20u);
}

TEST(RmaRails, AnErrorGoesOverToTheOtherAtOnce) {
  RmaRig rig({.rails = 2, .op_bytes = 64});
  rig.open_lane();
  rig.queues[0]->dead = true;
  for (uint64_t i = 0; i < 200; ++i) {
    rig.submit(SubmitOp::kWrite, i, 64 * i, 64 * i, 64);
    rig.turn(1);
  }
  ASSERT_TRUE(rig.settle(4)) << "no wait is needed";
  for (const auto& [ref, end] : rig.ends) EXPECT_EQ(end.end, TaskEnd::kDone) << ref;
  EXPECT_EQ(rig.queues[0]->ops.size(), 3u) << "three errors, and it is left alone";
}

TEST(RmaRails, APausedOneGetsProbesOnlyAndASuccessBringsItBack) {
  RmaRig rig({.rails = 2, .op_bytes = 64});
  rig.open_lane();
  rig.queues[0]->dead = true;
  uint64_t ref = 0;
  const auto some = [&](uint64_t count) {
    const size_t before = rig.queues[0]->ops.size();
    for (uint64_t i = 0; i < count; ++i, ++ref) {
      rig.submit(SubmitOp::kWrite, ref, 64 * (ref % 500), 64 * (ref % 500), 64);
      rig.turn(1);
    }
    EXPECT_TRUE(rig.settle());
    return rig.queues[0]->ops.size() - before;
  };
  EXPECT_EQ(some(300), 3u);
  rig.turn(PathMonitor::kFirstPauseUs);
  EXPECT_EQ(some(300), 1u) << "one probe, which fails";
  rig.turn(PathMonitor::kFirstPauseUs);
  EXPECT_EQ(some(300), 0u) << "the pause has doubled";
  rig.turn(PathMonitor::kFirstPauseUs);
  rig.queues[0]->dead = false;
  EXPECT_GT(some(300), 100u);
}

TEST(RmaRails, TheOnlyOneIsTriedAgainAndThenTheTaskFails) {
  RmaRig rig;
  rig.open_lane();
  rig.queues[0]->dead = true;
  rig.submit(SubmitOp::kWrite, 1, 0, 0, 64);
  ASSERT_TRUE(rig.settle(20'000));
  EXPECT_EQ(rig.ends[1].end, TaskEnd::kFailed);
  EXPECT_EQ(rig.ends[1].code, Code::kDeviceError);
  EXPECT_EQ(rig.ops(), 6u);
}

TEST(RmaRails, ARefusedKeyIsStaleAtOnce) {
  RmaRig rig({.rails = 2});
  rig.open_lane();
  for (auto& q : rig.queues) q->dead = true, q->fail_code = Code::kBadArgument;
  rig.submit(SubmitOp::kWrite, 1, 0, 0, 64);
  ASSERT_TRUE(rig.settle(4));
  EXPECT_EQ(rig.ends[1].end, TaskEnd::kFailed);
  EXPECT_EQ(rig.ends[1].code, Code::kStale);
  EXPECT_EQ(rig.ops(), 1u);
}

TEST(PathMonitorLaws, ThreeErrorsInTenSecondsAndPausesThatDouble) {
  PathMonitor m;
  constexpr uint64_t kSecond = 1'000'000;
  EXPECT_FALSE(m.error(1 * kSecond, 1, false));
  EXPECT_FALSE(m.error(2 * kSecond, 1, false));
  EXPECT_FALSE(m.error(11 * kSecond + 1, 1, false)) << "the first is too long ago";
  EXPECT_TRUE(m.open());
  EXPECT_TRUE(m.error(11 * kSecond + 2, 1, false));
  EXPECT_FALSE(m.open());
  uint64_t at = 11 * kSecond + 2;
  for (uint64_t pause : {30, 60, 120, 240, 300, 300}) {
    EXPECT_FALSE(m.may_probe(at + pause * kSecond - 1)) << pause;
    EXPECT_FALSE(m.error(at + 1, 1, false)) << "what was out already changes nothing";
    at += pause * kSecond;
    ASSERT_TRUE(m.may_probe(at)) << pause;
    m.probe_sent();
    EXPECT_FALSE(m.may_probe(at)) << "one at a time";
    EXPECT_TRUE(m.error(at, 1, true));
  }
  m.success();
  EXPECT_TRUE(m.open());
  EXPECT_FALSE(m.error(at, 1, false)) << "it begins anew";
}

TEST(RailCostLaws, FewerBytesOrMoreRateIsLess) {
  RailCost slow, fast;
  slow.open(10'000'000'000, 1000);
  fast.open(100'000'000'000, 1000);
  EXPECT_LT(fast.of(4096, 1), slow.of(4096, 1));
  EXPECT_GT(fast.of(4096, 100), slow.of(4096, 1));
  const double before = fast.of(4096, 1);
  fast.sent(100'000, 0);
  EXPECT_GT(fast.of(4096, 1), before);
  fast.home(100'000, 1, true);
  EXPECT_EQ(fast.of(4096, 1), before);
  // A rail that turns out to be slow: 1 byte in 1000 ticks.
  for (uint64_t t = 0; t < 200; ++t) {
    fast.sent(2000, t * 2'000'000);
    fast.home(2000, (t + 1) * 2'000'000, true);
  }
  EXPECT_NEAR(fast.rate(), 0.001, 0.0001);
}

TEST(RmaEnd, CancelEndsWhatIsQueuedAtOnceAndTheRestWithItsOperations) {
  RmaRig rig({.depth = 2, .op_bytes = 64});
  rig.open_lane();
  rig.queues[0]->withhold = true;
  rig.submit(SubmitOp::kWrite, 1, 0, 0, 64 * 4);  // two of four ops are out
  rig.submit(SubmitOp::kWrite, 2, 1000, 1000, 64);
  rig.turn();
  rig.turn();
  rig.cancel(0, 0);
  rig.turn();
  EXPECT_TRUE(rig.ended(2));
  EXPECT_EQ(rig.ends[2].end, TaskEnd::kCancelled);
  EXPECT_FALSE(rig.ended(1)) << "the device may still read its memory";
  rig.queues[0]->release();
  ASSERT_TRUE(rig.settle());
  EXPECT_EQ(rig.ends[1].end, TaskEnd::kCancelled);
  const uint64_t ops = rig.ops();
  for (int i = 0; i < 10; ++i) rig.turn();
  EXPECT_EQ(rig.ops(), ops) << "nothing moves after the end";
  EXPECT_EQ(rig.doubles, 0u);
}

TEST(RmaEnd, ADeadPeersTasksEndWithTheirOperationsAndNobodyElsesDo) {
  RmaRig rig;
  rig.open_lane(0);
  rig.open_lane(1);
  rig.queues[0]->withhold = true;
  rig.submit(SubmitOp::kWrite, 1, 0, 0, 64, 0);
  rig.submit(SubmitOp::kWrite, 2, 100, 100, 64, 1);
  rig.turn();
  rig.fail_lane(Code::kPeerDead, 0, 0);
  rig.turn();  // the fake's peer_gone gives back what is out
  for (int i = 0; i < 5; ++i) rig.turn(200);
  EXPECT_TRUE(rig.ended(1));
  EXPECT_EQ(rig.ends[1].end, TaskEnd::kFailed);
  EXPECT_EQ(rig.ends[1].code, Code::kPeerDead);
  EXPECT_EQ(rig.told(ToControl::Kind::kLaneFenced), 1u);
  EXPECT_EQ(rig.told(ToControl::Kind::kLaneClosed), 1u);
}

// The device gets its time also when the peer is known to be dead from the first.
TEST(RmaEnd, ADeadPeersOperationsHaveTimeToComeHome) {
  RmaRig rig;
  rig.open_lane(0);
  rig.queues[0]->withhold = true;
  rig.queues[0]->keeps_dead = true;
  rig.submit(SubmitOp::kWrite, 1, 0, 0, 64, 0);
  rig.turn();
  rig.now += 1'000'000;
  rig.fail_lane(Code::kPeerDead, 0, 0);
  for (int i = 0; i < 9; ++i) rig.turn(100);
  EXPECT_EQ(rig.queues[0]->shutdowns, 0u);
  rig.queues[0]->release(SIZE_MAX, Code::kPeerDead);
  for (int i = 0; i < 20; ++i) rig.turn(100);
  EXPECT_EQ(rig.queues[0]->shutdowns, 0u);
  EXPECT_EQ(rig.ends[1].code, Code::kPeerDead);
}

TEST(RmaEnd, AStoppedPeersOperationsComeHomeByAReset) {
  RmaRig rig({.rails = 2, .op_bytes = 64});
  rig.open_lane(0);
  rig.open_lane(1);
  rig.queues[0]->withhold = true;
  rig.queues[1]->withhold = true;
  rig.submit(SubmitOp::kRead, 1, 0, 0, 64, 0);
  rig.turn();
  const bool first = rig.queues[0]->held() != 0;
  rig.fail_lane(Code::kTimeout, rig.now + 1000, 0);
  for (int i = 0; i < 9; ++i) rig.turn(100);
  EXPECT_FALSE(rig.ended(1)) << "until its lease is over the peer may answer";
  for (int i = 0; i < 30; ++i) rig.turn(100);
  EXPECT_TRUE(rig.ended(1));
  EXPECT_EQ(rig.ends[1].end, TaskEnd::kFailed);
  EXPECT_EQ(rig.ends[1].code, Code::kTimeout);
  FakeRma& held = *rig.queues[first ? 0 : 1];
  EXPECT_EQ(held.shutdowns, 1u);
  EXPECT_EQ(rig.queues[first ? 1 : 0]->shutdowns, 0u) << "only the rail that held it";
  EXPECT_EQ(rig.told(ToControl::Kind::kRailDown), 1u);
  // The other peer goes on over the other rail, and over a new queue when there is one.
  rig.queues[first ? 1 : 0]->withhold = false;
  rig.submit(SubmitOp::kWrite, 2, 0, 0, 640, 1);
  EXPECT_TRUE(rig.settle());
  FakeRma fresh(16);
  fresh.chunk(rig.local->base(), RmaRig::kMemory, 0, rig.local->keys(first ? 0 : 1)[0].local_desc);
  fresh.chunk(rig.remote->base(), RmaRig::kMemory, rig.remote->keys(first ? 0 : 1)[0].remote_key, 0);
  ToWorker up{};
  up.kind = ToWorker::Kind::kRailUp;
  up.count = first ? 0 : 1;
  up.queue = &fresh;
  rig.put(up);
  rig.submit(SubmitOp::kWrite, 3, 0, 0, 640, 1);
  EXPECT_TRUE(rig.settle());
  EXPECT_EQ(rig.ends[3].end, TaskEnd::kDone);
  EXPECT_GT(fresh.ops.size(), 0u);
  EXPECT_EQ(fresh.torn, 0u);
  EXPECT_EQ(fresh.connects, 1u);
  rig.worker.reset();  // before its queue
}

// A wire that is cut tells nobody: the other rail shows that it is the rail and not the peer.
TEST(RmaRails, OneThatStallsWhileTheOtherMovesIsReset) {
  RmaRig rig({.rails = 2, .op_bytes = 64});
  rig.open_lane();
  rig.queues[0]->withhold = true;
  uint64_t ref = 0;
  const auto some = [&](uint64_t ticks) {
    for (uint64_t until = rig.now + ticks; rig.now < until; ++ref) {
      if (rig.submitted - rig.ends.size() < 100)
        rig.submit(SubmitOp::kWrite, ref, 64 * (ref % 900), 64 * (ref % 900), 64);
      rig.turn(1000);
    }
  };
  some(900'000);
  EXPECT_EQ(rig.queues[0]->shutdowns, 0u);
  EXPECT_GT(rig.queues[0]->held(), 0u);
  some(200'000);
  EXPECT_EQ(rig.queues[0]->shutdowns, 1u);
  EXPECT_EQ(rig.queues[1]->shutdowns, 0u);
  ASSERT_TRUE(rig.settle());
  for (const auto& [number, end] : rig.ends) ASSERT_EQ(end.end, TaskEnd::kDone) << number;
  EXPECT_EQ(rig.doubles, 0u);
}

// What a peer wrote before it gave us up must not land after it said FAILED.
TEST(RmaEnd, ANodeThatWasStoppedForLongerThanALeaseTakesNothingMoreFromItsOldQueues) {
  RmaRig rig;
  rig.open_lane();
  const auto lease = [&](uint64_t until) {
    ToWorker m{};
    m.kind = ToWorker::Kind::kLease;
    m.generation = 1;
    m.values.a = until;
    rig.put(m);
  };
  lease(rig.now + RmaRig::kLease);
  rig.turn();
  rig.turn(RmaRig::kLease - 10);  // late, but not too late
  lease(rig.now + RmaRig::kLease);
  rig.turn();
  EXPECT_EQ(rig.queues[0]->shutdowns, 0u);
  rig.turn(2 * RmaRig::kLease);
  EXPECT_EQ(rig.queues[0]->shutdowns, 1u);
  EXPECT_EQ(rig.queues[0]->polls_open, rig.queues[0]->polls - 1) << "shut down before it was polled";
  for (int i = 0; i < 3; ++i) rig.turn(100);
  EXPECT_EQ(rig.told(ToControl::Kind::kRailDown), 1u);
}

TEST(RmaEnd, APeerThatMovesIsFollowed) {
  RmaRig rig;
  rig.open_lane();
  rig.queues[0]->dead = true;
  rig.submit(SubmitOp::kWrite, 1, 0, 0, 64);
  rig.turn();
  rig.turn();
  EXPECT_FALSE(rig.ended(1));
  rig.queues[0]->dead = false;
  ToWorker path{};
  path.kind = ToWorker::Kind::kPath;
  path.generation = 1;
  path.address = new std::vector<std::byte>(8);
  rig.put(path);
  ASSERT_TRUE(rig.settle(3)) << "without waiting for the next try";
  EXPECT_EQ(rig.ends[1].end, TaskEnd::kDone);
  EXPECT_EQ(rig.queues[0]->connects, 2u);
  EXPECT_EQ(rig.queues[0]->closes, 1u);
}

TEST(RmaEnd, ATaskThatDoesNotMoveTimesOutAndItsPeerIsGivenUp) {
  RmaRig rig;
  rig.open_lane();
  rig.queues[0]->withhold = true;
  rig.submit(SubmitOp::kWrite, 1, 0, 0, 64);
  rig.turn();
  rig.turn(RmaRig::kTimeout + 1);
  rig.turn(100);
  EXPECT_FALSE(rig.ended(1));
  EXPECT_EQ(rig.told(ToControl::Kind::kStuck), 0u);
  for (int i = 0; i < 12; ++i) rig.turn(RmaRig::kLease / 10);
  EXPECT_EQ(rig.told(ToControl::Kind::kStuck), 1u);
  rig.queues[0]->release();
  ASSERT_TRUE(rig.settle());
  EXPECT_EQ(rig.ends[1].end, TaskEnd::kFailed);
  EXPECT_EQ(rig.ends[1].code, Code::kTimeout);
}

TEST(RmaEnd, APortLeavesWhenNoOperationOfItIsOut) {
  RmaRig rig;
  rig.open_lane();
  rig.queues[0]->withhold = true;
  rig.submit(SubmitOp::kWrite, 1, 0, 0, 64);
  rig.turn();
  ToWorker m{};
  m.kind = ToWorker::Kind::kRemovePort;
  m.port = &rig.port;
  rig.put(m);
  for (int i = 0; i < 20; ++i) rig.turn(100);
  EXPECT_EQ(rig.told(ToControl::Kind::kPortRemoved), 0u);
  rig.queues[0]->release();
  for (int i = 0; i < 20; ++i) rig.turn(100);
  EXPECT_EQ(rig.told(ToControl::Kind::kPortRemoved), 1u);
}

TEST(RmaEnd, SilentPeersLeaveRoomForOthers) {
  RmaRig rig({.depth = 16, .op_bytes = 64});
  rig.open_lane(0);
  rig.open_lane(1);
  rig.queues[0]->withhold = true;
  rig.submit(SubmitOp::kWrite, 1, 0, 0, 64 * 100, 0);
  for (int i = 0; i < 5; ++i) rig.turn();
  EXPECT_LE(rig.queues[0]->held(), 12u);
  rig.submit(SubmitOp::kWrite, 2, 0, 0, 64, 1);
  const size_t held = rig.queues[0]->held();
  rig.turn();
  rig.turn();
  EXPECT_EQ(rig.queues[0]->held(), held + 1);
}

}  // namespace
}  // namespace sluice::test
