// How a worker's tx slots are shared among its lanes, when peers stop taking.
#include "worker_rig.h"

namespace sluice::test {
namespace {

class WorkerShare : public WorkerRig {
 protected:
  static constexpr uint32_t kLanes = 4;

  void open(uint16_t lane) {
    auto* made = new Lane(LaneParams{LaneId{lane}, 1, PathId{lane}, SessionId{100u + lane}, lane, kSlot, 1, {}});
    ToWorker m = for_lane(ToWorker::Kind::kOpenLane, lane);
    m.opened = made;
    put(m);
    m = for_lane(ToWorker::Kind::kOpenTx, lane);
    m.values = {1, 0, ceiling_.v};
    put(m);
    m = for_lane(ToWorker::Kind::kGrant, lane);
    m.values = {1, 1, ceiling_.v};
    m.count = 0b11110;
    put(m);
    turn();
  }
  static ToWorker for_lane(ToWorker::Kind kind, uint16_t lane) {
    ToWorker m = to(kind);
    m.lane = LaneId{lane};
    return m;
  }
  void fill(uint16_t lane, uint32_t tasks) {
    for (uint32_t i = 0; i < tasks; ++i) {
      Submission s{};
      s.ref = i;
      s.local = local_.data();
      s.length = kRoom;  // not packed
      s.buffer = 1;
      s.lane = LaneId{lane};
      s.lane_generation = 1;
      ASSERT_TRUE(port_.submissions(WorkerId{0}).put(s));
    }
    turns(4);
  }
  uint32_t sent_to(uint16_t lane) const {
    uint32_t n = 0;
    for (const FakeQueue::Sent& s : queue_.sent) n += raw(s.path) == lane ? 1 : 0;
    return n;
  }
};

TEST_F(WorkerShare, OneLaneGetsThreeQuarters) {
  for (uint16_t lane = 0; lane < kLanes; ++lane) open(lane);
  queue_.withheld_paths = 1;
  fill(0, kTx);
  EXPECT_EQ(sent_to(0), kTx / 4 * 3);
}

TEST_F(WorkerShare, TwoBusyLanesShareEvenly) {
  for (uint16_t lane = 0; lane < 2; ++lane) open(lane);
  queue_.withheld_paths = 3;
  for (uint32_t i = 0; i < kTx; ++i)
    for (uint16_t lane = 0; lane < 2; ++lane) fill(lane, 1);
  EXPECT_NEAR(sent_to(0), sent_to(1), 1);
  EXPECT_GE(sent_to(0) + sent_to(1), kTx / 8 * 7);
}

class StuckLanes : public WorkerShare, public ::testing::WithParamInterface<uint16_t> {};

TEST_P(StuckLanes, LeaveRoomForTheOthers) {
  const uint16_t stuck = GetParam();
  for (uint16_t lane = 0; lane <= stuck; ++lane) open(lane);
  queue_.withheld_paths = (1u << stuck) - 1;
  for (uint16_t lane = 0; lane < stuck; ++lane) fill(lane, kTx);
  const uint16_t healthy = stuck;
  fill(healthy, 8);
  turns(8);
  EXPECT_EQ(sent_to(healthy), 8u);
  for (uint16_t lane = 0; lane < stuck; ++lane) EXPECT_GE(sent_to(lane), 1u);
  queue_.withheld_paths = 0;
  queue_.release();
  turns(2 * kTx);
  for (uint16_t lane = 0; lane < stuck; ++lane) EXPECT_EQ(sent_to(lane), kTx) << "nothing was lost meanwhile";
}
INSTANTIATE_TEST_SUITE_P(Stuck, StuckLanes, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace sluice::test
