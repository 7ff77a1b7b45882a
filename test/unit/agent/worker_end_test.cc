// How tasks and lanes end: acknowledgements, refusals, cancels, deadlines, and lanes that are given up.
#include "worker_rig.h"

namespace sluice::test {
namespace {

using WorkerEnd = WorkerRig;
using Kind = ToControl::Kind;

TEST_F(WorkerEnd, ARefusedTaskOfOneMessageFailsWithTheReason) {
  open_all();
  for (const Code code : {Code::kOutOfRange, Code::kStale}) {
    const size_t at = queue_.sent.size();
    write(1);
    turn();
    nak(task(at), code);
    turn();
    const TaskDone d = only_done();
    EXPECT_EQ(d.end, TaskEnd::kFailed);
    EXPECT_EQ(d.code, code);
  }
}

TEST_F(WorkerEnd, ARefusedTaskOfSeveralMessagesEndsWithItsAcknowledgement) {
  open_all();
  write(1, 2 * kRoom);
  turns(2);
  ASSERT_EQ(queue_.sent.size(), 2u);
  nak(task(0), Code::kOutOfRange);
  turn();
  EXPECT_TRUE(done().empty()) << "its second message may still move";
  ack(task(0), 2 * kRoom);
  turn();
  EXPECT_EQ(only_done().code, Code::kOutOfRange);
}

TEST_F(WorkerEnd, ATaskThatIsRefusedHalfSentIsAborted) {
  open_all(1);
  write(1, 3 * kRoom);
  turns(2);
  ASSERT_EQ(queue_.sent.size(), 1u);
  nak(task(0), Code::kStale);
  turn();
  grant(4);
  turns(2);
  ASSERT_EQ(queue_.sent.size(), 2u);
  EXPECT_EQ(header(1).type, MsgType::kAbort);
  EXPECT_EQ(header(1).total, kRoom);
  EXPECT_TRUE(done().empty());
  ack(task(0), kRoom);
  turn();
  const TaskDone d = only_done();
  EXPECT_EQ(d.end, TaskEnd::kFailed);
  EXPECT_EQ(d.code, Code::kStale);
}

TEST_F(WorkerEnd, AnAcknowledgementThatDoesNotFitIsAViolation) {
  open_all();
  write(1);
  turn();
  ack(task(0), 63);
  turn();
  EXPECT_EQ(told(Kind::kViolation).size(), 1u);
  EXPECT_TRUE(done().empty());
  ack(task(0) + (1ull << 32), 64);
  turn();
  EXPECT_EQ(stats().stale_messages, 1u);
  ack(task(0), 64);
  ack(task(0), 64);  // the second is of a task that has ended
  turn();
  EXPECT_EQ(only_done().end, TaskEnd::kDone);
  EXPECT_EQ(stats().stale_messages, 2u);
}

TEST_F(WorkerEnd, CancelQueued) {
  open_lane();
  write(1);
  write(2);
  turn();
  cancel(1);
  turn();
  const TaskDone d = only_done();
  EXPECT_EQ(d.ref, 1u);
  EXPECT_EQ(d.end, TaskEnd::kCancelled);
}

TEST_F(WorkerEnd, ACancelThatComesBeforeItsTaskEndsIt) {
  open_all();
  port_.set_cancelled(5, true);
  cancel(5);
  turn();
  write(5);
  write(6);
  turns(2);
  EXPECT_EQ(only_done().end, TaskEnd::kCancelled);
  ASSERT_EQ(queue_.sent.size(), 1u);
}

TEST_F(WorkerEnd, CancelWorksWhileTheTaskTableIsFull) {
  open_all(0);
  constexpr uint32_t kTasks = 200;
  for (uint32_t i = 0; i < kTasks; ++i) {
    write(i);
    if (i < kTasks / 2) turn();
  }
  turns(4);
  ASSERT_FALSE(port_.submissions(WorkerId{0}).empty()) << "the table is not full";
  for (uint16_t phase = 0; phase < port_.max_open(); ++phase) port_.set_cancelled(phase, true);
  ASSERT_TRUE(port_.cancels(WorkerId{0}).put(Cancel{0, 0, LaneId{0}, generation_, {}}));
  size_t ended = 0;
  for (int i = 0; i < 10; ++i) {
    turn();
    for (const TaskDone& d : done()) {
      EXPECT_EQ(d.end, TaskEnd::kCancelled);
      ++ended;
    }
  }
  EXPECT_EQ(ended, kTasks);
  EXPECT_TRUE(queue_.sent.empty());
}

TEST_F(WorkerEnd, CancelHalfSentEndsWhenThePeerConfirms) {
  open_all(1);
  write(1, 3 * kRoom);
  turns(2);
  cancel(1);
  turn();
  EXPECT_TRUE(done().empty());
  cancel(1);  // a second one changes nothing
  grant(3);
  turns(3);
  ASSERT_EQ(queue_.sent.size(), 2u);
  ASSERT_EQ(header(1).type, MsgType::kAbort);
  ack(task(0), kRoom);
  turn();
  EXPECT_EQ(only_done().end, TaskEnd::kCancelled);
}

TEST_F(WorkerEnd, CancelSentWriteEndsAsItWouldHave) {
  open_all();
  write(1);
  turn();
  cancel(1);
  turns(2);
  EXPECT_TRUE(done().empty());
  ack(task(0), 64);
  turn();
  EXPECT_EQ(only_done().end, TaskEnd::kDone);
}

TEST_F(WorkerEnd, CancelSentReadEndsAtOnceAndLateBytesGoNowhere) {
  open_all();
  read(1);
  turn();
  cancel(1);
  turn();
  EXPECT_EQ(only_done().end, TaskEnd::kCancelled);
  deliver(message(MsgType::kReadResp, 64, task(0)), 'r');
  turn();
  EXPECT_EQ(local_[0], std::byte{0});
  EXPECT_EQ(stats().stale_messages, 1u);
  EXPECT_TRUE(told(Kind::kViolation).empty());
}

TEST_F(WorkerEnd, ASilentPeerIsStuckAtTheDeadline) {
  open_all();
  write(1);
  turn();
  turn(kTimeout - kProbeFirst);
  EXPECT_TRUE(told(Kind::kStuck).empty());
  turn(kProbeFirst);
  turn(kProbeFirst);
  EXPECT_EQ(told(Kind::kStuck).size(), 1u);
}

TEST_F(WorkerEnd, ASentWriteWithoutAnswerMakesThePeerStuckOnceAfterTheLease) {
  open_all();
  write(1);
  turn();
  turn(kTimeout - kLease / 2);
  grant(kCeiling / 2);  // it lives, but does not acknowledge
  turn(kLease / 2 + 1);
  turn(kProbeFirst);
  EXPECT_TRUE(told(Kind::kStuck).empty());
  turn(kLease);
  turn(kLease);
  EXPECT_EQ(told(Kind::kStuck).size(), 1u);
  EXPECT_TRUE(done().empty()) << "a byte of it may still move";
}

// A queue that takes longer than the time limit: each task waits as long as those before it move.
TEST_F(WorkerEnd, ATaskBehindOthersThatMoveDoesNotExpire) {
  open_all(1);
  for (uint64_t ref = 1; ref <= 4; ++ref) write(ref, kRoom);
  turns(2);
  for (uint64_t n = 2; n <= 5; ++n) {
    ASSERT_EQ(queue_.sent.size(), n - 1);
    turn(kTimeout * 3 / 4);
    ack(task(n - 2), kRoom);
    grant(n);
    turns(2);
  }
  const std::vector<TaskDone> all = done();
  ASSERT_EQ(all.size(), 4u);
  for (const TaskDone& d : all) EXPECT_EQ(d.end, TaskEnd::kDone) << d.ref;
}

TEST_F(WorkerEnd, AQueuedTaskExpiresWhenNothingMoves) {
  open_all(1);
  write(1, kRoom);
  write(2, kRoom);
  turns(2);
  ack(task(0), kRoom);
  turn();
  EXPECT_EQ(only_done().ref, 1u);
  turn(kTimeout - kProbeFirst);
  EXPECT_TRUE(done().empty());
  turn(2 * kProbeFirst);
  turn(kProbeFirst);
  const TaskDone d = only_done();
  EXPECT_EQ(d.ref, 2u);
  EXPECT_EQ(d.code, Code::kTimeout);
}

TEST_F(WorkerEnd, TasksOfAFailedLaneAreFinalOnlyWhenItIsGivenUp) {
  open_all(1);
  write(1);
  read(2);
  write(3);
  turns(2);
  fail_lane(Code::kPeerDead, fake_now + 500);
  turn();
  EXPECT_EQ(told(Kind::kLaneFenced).size(), 1u);
  EXPECT_EQ(queue_.closes, 1u);
  deliver(message(MsgType::kWrite, 10));
  turn();
  EXPECT_FALSE(placed(0, 10)) << "a fenced lane places nothing";
  write(4);  // refused at once: nothing of it has moved
  turn();
  const TaskDone late = only_done();
  EXPECT_EQ(late.ref, 4u);
  EXPECT_EQ(late.code, Code::kPeerDead);
  turn(400);
  EXPECT_TRUE(done().empty());
  turn(kProbeFirst);
  const auto all = done();
  ASSERT_EQ(all.size(), 3u);
  for (const TaskDone& d : all) {
    EXPECT_EQ(d.end, TaskEnd::kFailed);
    EXPECT_EQ(d.code, Code::kPeerDead);
  }
  EXPECT_EQ(lanes_closed_, 1u);
}

TEST_F(WorkerEnd, ASecondFailWithZeroEndsAtOnce) {
  open_all();
  write(1);
  turn();
  fail_lane(Code::kTimeout, kAll);
  turns(3);
  EXPECT_TRUE(done().empty());
  fail_lane(Code::kPeerDead, 0);
  turns(2);
  EXPECT_EQ(only_done().code, Code::kTimeout);
  EXPECT_EQ(lanes_closed_, 1u);
  EXPECT_EQ(told(Kind::kLaneFenced).size(), 1u);
}

TEST_F(WorkerEnd, LateCompletionsOfADeadLaneBringEachSlotHomeOnce) {
  open_all();
  queue_.withhold = true;
  queue_.accept = 3;
  for (uint32_t i = 0; i < 5; ++i) write(i);  // three posted, two staged
  turn();
  queue_.accept = 0;
  EXPECT_EQ(tx_out(), 5u);
  fail_lane(Code::kPeerDead, 0);
  turns(2);
  EXPECT_EQ(lanes_closed_, 1u);
  EXPECT_EQ(done().size(), 5u);
  EXPECT_EQ(tx_out(), 3u);
  open_lane(2, SessionId{0x8888});  // the next life of the same number
  turn();
  queue_.release(Code::kCancelled);
  turns(3);
  EXPECT_EQ(tx_out(), 0u);
  EXPECT_EQ(tx_->stale_puts(), 0u);
  EXPECT_EQ(lane_->inflight, 0u);
  EXPECT_TRUE(told(Kind::kViolation).empty());
  EXPECT_TRUE(done().empty());
}

TEST_F(WorkerEnd, AFailedSendThatWaitsForItsRepeatGoesHomeWithItsLane) {
  open_all();
  queue_.fail_next = 2;
  write(1);
  write(2);
  turn();
  queue_.accept = 0;
  turns(2);
  EXPECT_EQ(tx_out(), 2u);
  fail_lane(Code::kPeerDead, 0);
  turns(3);
  EXPECT_EQ(tx_out(), 0u);
  EXPECT_EQ(tx_->stale_puts(), 0u);
  EXPECT_EQ(queue_.sent.size(), 2u);
}

TEST_F(WorkerEnd, ASubmissionToAnEarlierLifeIsStale) {
  open_all();
  generation_ = 9;
  write(1);
  turn();
  EXPECT_EQ(only_done().code, Code::kStale);
}

TEST_F(WorkerEnd, WithControlBehindATurnDoesNothing) {
  open_all();
  ToControl filler{};
  while (control_.room() >= 512) ASSERT_TRUE(control_.put(filler));
  write(1);
  EXPECT_EQ(worker_->turn(fake_now), 0u);
  EXPECT_TRUE(queue_.sent.empty());
  ToControl m;
  while (control_.take({&m, 1}) == 1) {}
  turn();
  EXPECT_EQ(queue_.sent.size(), 1u);
  EXPECT_EQ(stats().lost_messages, 0u);
}

}  // namespace
}  // namespace sluice::test
