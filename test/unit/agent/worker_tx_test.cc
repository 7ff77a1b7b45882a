// The sending half of a worker: prefixes of posts, failed sends, credit that is short.
#include <set>

#include "worker_rig.h"

namespace sluice::test {
namespace {

class PartialPost : public WorkerRig, public ::testing::WithParamInterface<uint32_t> {};

TEST_P(PartialPost, NothingTwiceNothingLost) {
  constexpr uint32_t kTasks = 8;
  open_all();
  for (uint32_t i = 0; i < kTasks; ++i) submit(SubmitOp::kWrite, i, 64, i * 64);
  queue_.accept = GetParam();
  turn();
  ASSERT_EQ(queue_.sent.size(), GetParam());
  EXPECT_EQ(lane_->ledger.posted_total()[Resource::kBounceSlots], GetParam());
  EXPECT_EQ(lane_->ledger.reserved()[Resource::kBounceSlots], kTasks - GetParam());
  EXPECT_EQ(lane_->ledger.reserved()[Resource::kDataBytes], (kTasks - GetParam()) * 64);
  queue_.accept = 1;
  turns(kTasks);
  queue_.accept = UINT32_MAX;
  turns(3);
  ASSERT_EQ(queue_.sent.size(), kTasks);
  for (uint32_t i = 0; i < kTasks; ++i) {
    EXPECT_EQ(header(i).seq, i + 1);
    EXPECT_EQ(header(i).offset, i * 64);
  }
  EXPECT_EQ(lane_->ledger.posted_total(), (Charge{{kTasks * 64, 0, kTasks * kSlot, kTasks}}));
  EXPECT_EQ(lane_->ledger.reserved(), Charge{});
  EXPECT_EQ(tx_out(), 0u);
  EXPECT_EQ(lane_->inflight, 0u);
}
INSTANTIATE_TEST_SUITE_P(Accepted, PartialPost, ::testing::Range(0u, 9u));

using WorkerTx = WorkerRig;

TEST_F(WorkerTx, AFailedSendIsPostedAgainWithItsNumber) {
  open_all();
  queue_.fail_next = 3;
  write(7);
  turns(10);
  ASSERT_EQ(queue_.sent.size(), 4u);
  for (const FakeQueue::Sent& s : queue_.sent) EXPECT_EQ(s.bytes, queue_.sent[0].bytes);
  EXPECT_EQ(stats().resends, 3u);
  EXPECT_EQ(lane_->ledger.posted_total()[Resource::kBounceSlots], 1u) << "a repeated post is not a second charge";
  EXPECT_TRUE(told(ToControl::Kind::kViolation).empty());
  ack(task(0), 64);
  turn();
  EXPECT_EQ(only_done().end, TaskEnd::kDone);
  EXPECT_EQ(tx_out(), 0u);
}

TEST_F(WorkerTx, ASendThatFailsForEverIsGivenUpWithAViolation) {
  open_all();
  queue_.fail_next = 100;
  write(7);
  turns(30);
  EXPECT_EQ(queue_.sent.size(), 8u);
  const auto violations = told(ToControl::Kind::kViolation);
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].code, Code::kDeviceError);
  EXPECT_EQ(tx_out(), 0u);
  EXPECT_EQ(tx_->stale_puts(), 0u);
  EXPECT_EQ(lane_->inflight, 0u);
}

TEST_F(WorkerTx, ARefusedRepeatIsKept) {
  open_all();
  queue_.fail_next = 1;
  write(7);
  turn();
  queue_.accept = 0;
  turns(5);
  EXPECT_EQ(queue_.sent.size(), 1u);
  EXPECT_EQ(tx_out(), 1u);
  queue_.accept = UINT32_MAX;
  turns(3);
  EXPECT_EQ(queue_.sent.size(), 2u);
  EXPECT_EQ(tx_out(), 0u);
}

TEST_F(WorkerTx, NoMoreThanTheDepthIsOut) {
  open_all(kCeiling);
  queue_.withhold = true;
  for (uint32_t i = 0; i < 2 * kTx; ++i) write(i);
  turns(5);
  EXPECT_EQ(queue_.sent.size(), kTx / 4 * 3) << "a quarter is left to other lanes";
  queue_.withhold = false;
  queue_.release();
  turns(5);
  EXPECT_EQ(queue_.sent.size(), 2 * kTx);
  EXPECT_EQ(tx_out(), 0u);
}

TEST_F(WorkerTx, WithoutAGrantATaskWaitsAndProbesAndEndsByItsTimeout) {
  open_all(0);
  write(3);
  turn();
  EXPECT_TRUE(port_.waiting(3));
  EXPECT_TRUE(queue_.sent.empty());
  const uint64_t begin = fake_now;
  std::vector<uint64_t> probes;
  while (port_.completions(WorkerId{0}).empty() && fake_now < begin + 2 * kTimeout) {
    const size_t before = told(ToControl::Kind::kWaiting).size();
    turn(100);
    if (told(ToControl::Kind::kWaiting).size() != before) probes.push_back(fake_now);
  }
  const TaskDone d = only_done();
  EXPECT_EQ(d.end, TaskEnd::kFailed);
  EXPECT_EQ(d.code, Code::kTimeout);
  EXPECT_NEAR(static_cast<double>(fake_now - begin), static_cast<double>(kTimeout), 2.0 * kProbeFirst);
  EXPECT_FALSE(port_.waiting(3));
  ASSERT_GT(probes.size(), 10u);
  EXPECT_NEAR(static_cast<double>(probes[0] - begin), static_cast<double>(kProbeFirst), kProbeFirst);
  double expected = kProbeFirst;
  for (size_t i = 1; i < probes.size(); ++i) {
    expected = std::min(2 * expected, static_cast<double>(kProbeMax));
    EXPECT_NEAR(static_cast<double>(probes[i] - probes[i - 1]), expected, kProbeFirst) << i;
  }
  EXPECT_EQ(expected, static_cast<double>(kProbeMax)) << "the back-off ends at 100 ms";
  turn(kProbeFirst);
  EXPECT_FALSE(lane_->waiting);
}

TEST_F(WorkerTx, AGrantEndsWaitingAndTheTaskSaysHowLong) {
  open_all(0);
  write(3);
  turn();
  turn(500);
  ASSERT_TRUE(port_.waiting(3));
  grant(1);
  turn(250);
  EXPECT_FALSE(port_.waiting(3));
  ASSERT_EQ(queue_.sent.size(), 1u);
  ack(task(0), 64);
  turn();
  const TaskDone d = only_done();
  EXPECT_EQ(d.end, TaskEnd::kDone);
  EXPECT_EQ(d.waited_us, 750u);
  EXPECT_EQ(stats().waits, 1u);
  EXPECT_EQ(stats().wait_max, 750u);
}

TEST_F(WorkerTx, TheNextTaskIsShownWaitingWhenTheFirstGoes) {
  open_all(0);
  write(3);
  write(4);
  turn();
  ASSERT_TRUE(port_.waiting(3));
  cancel(3);
  turn(kProbeFirst);
  turn(kProbeFirst);
  EXPECT_EQ(only_done().end, TaskEnd::kCancelled);
  EXPECT_FALSE(port_.waiting(3));
  EXPECT_TRUE(port_.waiting(4));
}

TEST_F(WorkerTx, SmallWritesThatShareAMessageWaitToo) {
  open_all(0);
  write(3, 8);
  write(4, 8);
  turn();
  EXPECT_TRUE(port_.waiting(3));
  grant(1);
  turn(500);
  EXPECT_FALSE(port_.waiting(3));
  ASSERT_EQ(queue_.sent.size(), 1u);
  EXPECT_EQ(header(0).type, MsgType::kPack);
  ack(task(0), header(0).length);
  turn();
  const auto all = done();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].waited_us, 500u);
}

TEST_F(WorkerTx, ARefusedPackFailsEachOfItsTasksOnce) {
  open_all();
  write(3, 8);
  write(4, 8);
  turn();
  ASSERT_EQ(queue_.sent.size(), 1u);
  nak(task(0), Code::kStale);
  turn();
  EXPECT_TRUE(done().empty()) << "its acknowledgement ends it";
  ack(task(0), header(0).length);
  turn();
  const auto all = done();
  ASSERT_EQ(all.size(), 2u);
  for (const TaskDone& d : all) EXPECT_EQ(d.code, Code::kStale);
}

TEST_F(WorkerTx, ATaskOfAPackIsNotAcknowledgedByItself) {
  open_all();
  write(3, 8);
  write(4, 8);
  turn();
  ASSERT_EQ(queue_.sent.size(), 1u);
  ack(raw(pack_record(queue_.sent[0].bytes.data() + kMsgHeaderBytes, 0).task), 8);
  turn();
  EXPECT_TRUE(done().empty());
  EXPECT_EQ(told(ToControl::Kind::kViolation).size(), 1u);
  ack(task(0), header(0).length);
  turn();
  EXPECT_EQ(done().size(), 2u);
}

// The peer keeps an entry for each write of several messages until it has all of it, which an acknowledgement says.
TEST_F(WorkerTx, NoMoreWritesOfSeveralMessagesAreOutThanThePeerHasRoomFor) {
  constexpr uint32_t kTasks = RxTasks::kMaxTasks + 10;
  open_all(kCeiling);
  for (uint32_t i = 0; i < kTasks; ++i) write(i, 2 * kRoom);
  for (uint32_t slots = kCeiling; slots < 3 * kTasks; slots += kCeiling / 2) {
    grant(slots);
    turns(20);
  }
  std::set<uint64_t> begun;
  for (size_t i = 0; i < queue_.sent.size(); ++i) begun.insert(task(i));
  EXPECT_EQ(begun.size(), RxTasks::kMaxTasks);
  EXPECT_EQ(queue_.sent.size(), 2 * RxTasks::kMaxTasks);
  const std::set<uint64_t> first = begun;
  for (const uint64_t id : first) {
    ack(id, 2 * kRoom);
    turn();
  }
  turns(20);
  for (size_t i = 0; i < queue_.sent.size(); ++i) begun.insert(task(i));
  EXPECT_EQ(begun.size(), kTasks);
  for (const uint64_t id : begun)
    if (!first.contains(id)) ack(id, 2 * kRoom);
  turns(2);
  EXPECT_EQ(done().size(), kTasks);
  EXPECT_EQ(lane_->spread, 0u);
  EXPECT_TRUE(told(ToControl::Kind::kViolation).empty());
}

TEST_F(WorkerTx, AGrantBeyondTheCeilingIsAViolation) {
  open_all(kCeiling + 1);
  ASSERT_EQ(told(ToControl::Kind::kViolation).size(), 1u);
  EXPECT_EQ(lane_->ledger.granted(), Charge{});
}

TEST_F(WorkerTx, FenceLetsPostedMessagesEndAndSaysTheTotals) {
  open_all();
  queue_.withhold = true;
  write(1);
  turn();
  put(to(ToWorker::Kind::kStopPosting));
  write(2);
  turns(3);
  EXPECT_EQ(queue_.sent.size(), 1u);
  EXPECT_TRUE(told(ToControl::Kind::kPostsHome).empty());
  queue_.withhold = false;
  queue_.release();
  turns(3);
  const auto home = told(ToControl::Kind::kPostsHome);
  ASSERT_EQ(home.size(), 1u);
  EXPECT_EQ(home[0].values.totals[3], 1u);
  EXPECT_EQ(queue_.sent.size(), 1u) << "nothing is posted between FENCE and the next epoch";
  open_tx(2);
  ToWorker m = to(ToWorker::Kind::kGrant);
  m.values = {2, 50, granted_.v};
  m.count = 0b11110;
  put(m);
  turns(2);
  ASSERT_EQ(queue_.sent.size(), 2u);
  EXPECT_EQ(header(1).epoch, 2u);
  EXPECT_EQ(header(1).seq, 1u);
}

}  // namespace
}  // namespace sluice::test
