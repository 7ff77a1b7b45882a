// A peer that is killed in the middle of a batch, and one that is stopped and goes on.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>

#include "wires.h"

namespace sluice::func {
namespace {

class KillTest : public Wires {};
class StopTest : public Wires {};

TEST_P(KillTest, TasksFailOthersGoOnNothingLeaks) {
  start();
  Child victim, other;
  ASSERT_TRUE(victim.start(GetParam(), "victim")) << victim.first_line;
  ASSERT_TRUE(other.start(GetParam(), "other")) << other.first_line;
  const SegmentHandle to_other = open(other);
  ASSERT_TRUE(here_.move(TransferOp::kWrite, to_other, 0, 1 << 20));
  const NodeStats before = here_.engine->stats();
  const size_t fds = open_fds();

  const SegmentHandle to_victim = open(victim);
  ASSERT_TRUE(here_.move(TransferOp::kWrite, to_victim, 0, 1 << 20));
  constexpr uint64_t kHalf = kSegment / 2;
  const BatchHandle writes = here_.submit(TransferOp::kWrite, to_victim, 0, kHalf, 1 << 20, 40);
  ASSERT_EQ(here_.last_code, Code::kOk);
  const BatchHandle reads = here_.submit(TransferOp::kRead, to_victim, kHalf, kHalf / 2, 1 << 20, 40);
  ASSERT_EQ(here_.last_code, Code::kOk);
  const BatchHandle safe = here_.submit(TransferOp::kWrite, to_other, 0, kHalf, 64 << 10);
  ASSERT_EQ(here_.last_code, Code::kOk);
  ASSERT_TRUE(begun(writes));
  victim.kill();
  const double killed = now_seconds();
  ASSERT_FALSE(here_.status(writes).final) << "the batch was too small to be killed in its middle";

  ASSERT_TRUE(here_.finish(writes, 5)) << "tasks are not final 5 s after the kill";
  ASSERT_TRUE(here_.finish(reads, 5));
  const double took = now_seconds() - killed;
  EXPECT_LE(took, 5.0 * patience());
  RecordProperty("seconds_until_failed", std::to_string(took));
  std::printf("  seconds until FAILED after kill: %.3f\n", took);
  EXPECT_GT(here_.status(writes).failed + here_.status(reads).failed, 0u);  // the writes may all have been on the wire
  for (const BatchHandle batch : {writes, reads}) {
    const BatchStatus s = here_.status(batch);
    EXPECT_EQ(s.done + s.failed, s.tasks);
    for (const Code code : here_.failures(batch)) EXPECT_EQ(code, Code::kPeerDead) << code_name(code);
    EXPECT_EQ(here_.port->release(batch), Code::kOk);
  }
  ASSERT_TRUE(here_.finish(safe));
  EXPECT_TRUE(here_.status(safe).ok()) << "another peer's tasks suffered";
  EXPECT_TRUE(other.holds(0, kHalf, here_.at(0)));
  EXPECT_EQ(here_.port->release(safe), Code::kOk);

  NodeStats after;
  EXPECT_TRUE(wait_for(10,
                       [&] {
                         after = here_.engine->stats();
                         return after.tx_slots_out == 0 && after.rx_slots >= before.rx_slots &&
                                after.peers == before.peers && after.tasks_open == 0 && open_fds() <= fds;
                       }))
      << "slots out " << after.tx_slots_out << ", receives " << after.rx_slots << " of " << before.rx_slots
      << ", peers " << after.peers << " of " << before.peers << ", files " << open_fds() << " of " << fds;
  EXPECT_TRUE(here_.move(TransferOp::kRead, to_other, 0, 1 << 20));
}

TEST_P(KillTest, PeerThatLeavesMidBatchLeavesNothingBehind) {
  start();
  Child peer;
  ASSERT_TRUE(peer.start(GetParam(), "peer")) << peer.first_line;
  const size_t fds = open_fds();
  const BatchHandle writes = here_.submit(TransferOp::kWrite, open(peer), 0, kSegment, 1 << 20, 20);
  ASSERT_EQ(here_.last_code, Code::kOk);
  ASSERT_TRUE(begun(writes));
  EXPECT_EQ(peer.quit(), 0);
  ASSERT_TRUE(here_.finish(writes, 10));
  EXPECT_EQ(here_.port->release(writes), Code::kOk);
  NodeStats after;
  EXPECT_TRUE(wait_for(10,
                       [&] {
                         after = here_.engine->stats();
                         return after.tx_slots_out == 0 && after.peers == 0 && after.tasks_open == 0 &&
                                open_fds() <= fds;
                       }))
      << "slots out " << after.tx_slots_out << ", peers " << after.peers << ", files " << open_fds() << " of " << fds;
}

TEST_P(StopTest, NothingOfFailedTasksIsPlacedAfterTheReport) {
  start();
  Child peer;
  ASSERT_TRUE(peer.start(GetParam(), "peer")) << peer.first_line;
  const SegmentHandle to = open(peer);
  ASSERT_TRUE(here_.move(TransferOp::kWrite, to, 0, 1 << 20));
  const BatchHandle writes = here_.submit(TransferOp::kWrite, to, 0, kSegment, 1 << 20, 20);
  ASSERT_EQ(here_.last_code, Code::kOk);
  ASSERT_TRUE(begun(writes));
  // Rounds over the same bytes would hide what is placed late: from here on every byte is another one.
  fill(here_.at(0), kSegment, 2);
  peer.signal(SIGSTOP);
  const double stopped = now_seconds();
  ASSERT_FALSE(here_.status(writes).final);
  ASSERT_TRUE(here_.finish(writes, 10)) << "tasks are not final 10 s after the stop";
  const double took = now_seconds() - stopped;
  std::printf("  seconds until FAILED after stop: %.3f\n", took);
  RecordProperty("seconds_until_failed", std::to_string(took));
  EXPECT_GT(here_.status(writes).failed, 0u);

  fill(here_.at(0), kSegment, 3);  // the memory is ours again
  const std::vector<std::byte> placed = peer.read(0, kSegment);
  ASSERT_EQ(placed.size(), kSegment);
  peer.signal(SIGCONT);
  // Woken, it meets what lay in its receives and in the kernel. It answers again when all agents had many turns.
  ASSERT_NE(peer.ask("stats"), "no answer");
  SegmentHandle again{};
  EXPECT_TRUE(wait_for(20, [&] { return here_.engine->open_segment(peer.address, "pool", &again).ok(); }));
  EXPECT_TRUE(wait_for(2, [&] { return !peer.holds(0, kSegment, placed.data()); }) == false)
      << "bytes of tasks that had been reported FAILED were placed after that";
  std::printf("  %s\n", peer.ask("stats").c_str());
  EXPECT_EQ(here_.port->release(writes), Code::kOk);
  EXPECT_TRUE(here_.move(TransferOp::kWrite, again, 0, kSegment));
  EXPECT_TRUE(peer.holds(0, kSegment, here_.at(0)));
}

// Not shm: a peer killed or stopped while it holds a lock of libfabric's in shared memory makes our next poll spin for
// ever (drivers/fabric/queue.h), which is a matter of luck.
INSTANTIATE_TEST_SUITE_P(Func, KillTest, ::testing::Values(kRxm, kNet, kLoop, kRxmOneSided, kNetOneSided), wire_name);
INSTANTIATE_TEST_SUITE_P(Func, StopTest, ::testing::Values(kRxm, kNet, kLoop, kRxmOneSided, kNetOneSided), wire_name);
INSTANTIATE_TEST_SUITE_P(Verbs, KillTest, ::testing::ValuesIn(in_machine({kRailA, kRailAOneSided})), wire_name);

}  // namespace
}  // namespace sluice::func
