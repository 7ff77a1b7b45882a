// Control agents and workers of two nodes: sessions open, data and notifies flow under the laws of credit, whatever is
// lost, refused or said twice on the way.
#include "heap.h"
#include "pair_rig.h"

namespace sluice::test {
namespace {

using Pair = PairRig;

TEST_F(Pair, OpensAndMovesBothWays) {
  start();
  ASSERT_TRUE(both_ready());
  traffic(20, 5000);
  EXPECT_EQ(a_->faults + b_->faults, 0u);
}

// Ten thousand turns with writes, reads, notifies and credit going round touch the heap in neither agent, also when
// there are more control receives than the queue takes.
class PairHeap : public PairRig, public ::testing::WithParamInterface<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(ControlDepth, PairHeap, ::testing::Values(128, 40));

TEST_P(PairHeap, NoHeapCallInTenThousandTurns) {
  NodeParams params;
  params.ctrl_depth = GetParam();
  start(params, params);
  ASSERT_TRUE(both_ready());
  traffic(3, 5000);
  uint64_t moved = 0, told = 0;
  const auto step = [&](uint32_t i) {
    ++fake_now;
    for (HalfNode* n : {a_.get(), b_.get()}) {
      if (i % 4 == 0 && n->port.submissions(WorkerId{0}).room() > 200)
        (void)n->submit(i % 8 == 0 ? SubmitOp::kWrite : SubmitOp::kRead, i % 128, 0, 1 + i % 1500);
      if (i % 16 == 0 && n->port.notifies().room() > 40) n->notify(0, "name", "text");
      (void)n->control->turn(fake_now);
      (void)n->worker->turn(fake_now);
      NotifyInbox::Item item;
      while (n->notifies.take(&item)) n->notifies.done(item);
      moved += n->done;
      told += n->notified;
      n->collect();
    }
  };
  for (uint32_t i = 0; i < 1000; ++i) step(i);
  const uint64_t before = heap_calls();
  moved = told = 0;
  const uint64_t done = a_->done + b_->done, notified = a_->notified + b_->notified;
  for (uint32_t i = 0; i < 10'000; ++i) step(i);
  EXPECT_EQ(heap_calls(), before);
  EXPECT_GT(a_->done + b_->done, done + 1000);
  EXPECT_GT(a_->notified + b_->notified, notified + 100);
  EXPECT_EQ(a_->faults + b_->faults, 0u);
}

TEST_F(Pair, AWindowOfOneSlotWorks) {
  NodeParams one;
  one.extent_slots = 1;
  one.ceiling = 1;
  one.floor = 1;
  start(one, one);
  ASSERT_TRUE(both_ready());
  traffic(3, 2000);
  EXPECT_EQ(a_->faults + b_->faults, 0u);
}

// The slots that the requests took are granted again before the requests are answered; after that, only requests are
// short, and no slot can be given.
TEST_F(Pair, ReadsAloneDoNotStandStill) {
  start();
  ASSERT_TRUE(both_ready());
  for (uint64_t i = 0; i < 40; ++i) ASSERT_TRUE(a_->submit(SubmitOp::kRead, i, i * 1000, 1000));
  ASSERT_TRUE(turn_until([&] { return a_->done == 40; }, 20'000));
}

TEST_F(Pair, LostFramesAreRepeatedAndNothingIsLost) {
  start();
  a_->ctrl.lose_next = 3;
  b_->ctrl.lose_next = 2;
  ASSERT_TRUE(both_ready());
  for (int i = 0; i < 10; ++i) {
    a_->ctrl.lose_next = 2;
    b_->ctrl.lose_next = 1;
    traffic(1, 3000);
  }
  EXPECT_GT(a_->control->stats().frame_repeats.load(), 0u);
  EXPECT_EQ(a_->faults + b_->faults, 0u);
}

TEST_F(Pair, FailedAndRefusedPostsLoseNothing) {
  start();
  ASSERT_TRUE(both_ready());
  for (uint32_t i = 0; i < 10; ++i) {
    a_->data.fail_next = i % 4;
    b_->data.accept = i % 3 == 0 ? 1 : UINT32_MAX;
    a_->ctrl.accept = i % 2;
    for (int k = 0; k < 3; ++k) turn();
    a_->ctrl.accept = UINT32_MAX;
    traffic(1, 4000);
  }
  EXPECT_EQ(a_->faults + b_->faults, 0u);
  EXPECT_TRUE(turn_until([&] { return a_->worker->stats().tx_out + b_->worker->stats().tx_out == 0; }));
}

TEST_F(Pair, NotifiesArriveOnceInOrder) {
  start();
  ASSERT_TRUE(both_ready());
  uint32_t sent = 0, got = 0;
  while (got < 200) {
    if (sent < 200 && sent - a_->notified < 20) {
      a_->notify(sent % PortRings::kNotifies, "n", std::to_string(sent));
      ++sent;
    }
    b_->ctrl.lose_next = sent % 50 == 0 ? 1 : b_->ctrl.lose_next;
    turn(20);
    NotifyInbox::Item item;
    while (b_->notifies.take(&item)) {
      EXPECT_EQ(b_->notifies.name(item), "n");
      EXPECT_EQ(b_->notifies.message(item), std::to_string(got++));
      b_->notifies.done(item);
    }
    ASSERT_LT(fake_now, 10'000'000u);
  }
  ASSERT_TRUE(turn_until([&] { return a_->notified == 200; }));
  EXPECT_EQ(a_->notify_failed, 0u);
}

TEST_F(Pair, ANotifyThatTheFullInboxRefusesFailsAndLaterOnesWork) {
  NodeParams small;
  small.inbox = 4;
  start({}, small);
  ASSERT_TRUE(both_ready());
  for (uint32_t i = 0; i < 6; ++i) a_->notify(i, "n", std::to_string(i));
  ASSERT_TRUE(turn_until([&] { return a_->notified + a_->notify_failed == 6; }));
  EXPECT_EQ(a_->notified, 4u);
  EXPECT_EQ(a_->notify_failed, 2u);
  EXPECT_EQ(a_->last_notify.code, Code::kLimit);
  for (uint32_t i = 0; i < 4; ++i) {
    NotifyInbox::Item item;
    ASSERT_TRUE(b_->notifies.take(&item));
    EXPECT_EQ(b_->notifies.message(item), std::to_string(i));
    b_->notifies.done(item);
  }
  a_->notify(7, "n", "later");
  ASSERT_TRUE(turn_until([&] { return a_->notified == 5; }));
  NotifyInbox::Item item;
  ASSERT_TRUE(b_->notifies.take(&item));
  EXPECT_EQ(b_->notifies.message(item), "later");
  EXPECT_EQ(a_->faults + b_->faults, 0u);
}

// Its control path stands still while data comes in: acknowledgements pile up, and grants stop, but nothing breaks.
TEST_F(Pair, AcknowledgementsPileUpAndAllArrive) {
  start();
  ASSERT_TRUE(both_ready());
  b_->ctrl.withhold = true;
  ASSERT_TRUE(a_->submit(SubmitOp::kWrite, 0, 0, 100));
  for (int i = 0; i < 20; ++i) turn();  // its acknowledgement is under way, and the next one has to wait for that
  for (uint64_t i = 1; i < 100; ++i) ASSERT_TRUE(a_->submit(SubmitOp::kWrite, i, i * 100, 100));
  for (int i = 0; i < 300; ++i) turn();
  EXPECT_LT(a_->done, 100u);
  EXPECT_GT(b_->session().acks.count, 0u);
  b_->ctrl.withhold = false;
  b_->ctrl.release();
  ASSERT_TRUE(turn_until([&] { return a_->done == 100; }));
  EXPECT_EQ(b_->session().acks.count, 0u);
  EXPECT_EQ(a_->faults + b_->faults, 0u);
}

TEST_F(Pair, APeerThatIsLostAndComesBackIsANewLife) {
  start();
  ASSERT_TRUE(both_ready());
  traffic(2, 3000);
  b_->data.withhold = b_->ctrl.withhold = true;
  ASSERT_TRUE(a_->submit(SubmitOp::kRead, 1, 0, 1000));
  a_->notify(0, "n", "t");
  for (int i = 0; i < 20; ++i) turn();
  a_->lose_peer(0, 0);
  b_->lose_peer(0, 0);
  ASSERT_TRUE(turn_until([&] { return a_->gone == 1 && b_->gone == 1; }));
  EXPECT_EQ(a_->fenced, 1u);
  EXPECT_EQ(a_->last.code, Code::kPeerDead);
  EXPECT_EQ(a_->notify_failed, 1u);
  b_->data.withhold = b_->ctrl.withhold = false;
  connect(*a_, 0, *b_, 0, SessionId{0x1234}, 2);
  b_->data.release();  // what the old life sent arrives in the new one
  b_->ctrl.release();
  ASSERT_TRUE(turn_until([&] { return a_->ready == 2 && b_->ready == 2; }));
  EXPECT_GT(a_->worker->stats().stale_messages.load(), 0u);
  EXPECT_EQ(a_->faults + b_->faults, 0u);
  EXPECT_TRUE(turn_until([&] { return a_->worker->stats().tx_out + b_->worker->stats().tx_out == 0; }));
  EXPECT_EQ(a_->data.posted_receives(), 16u);
}

TEST_F(Pair, DrainTellsThePeerAndAnswers) {
  start();
  ASSERT_TRUE(both_ready());
  traffic(2, 3000);
  FromService m = HalfNode::from(FromService::Kind::kDrain);
  m.a = 1'000'000;
  a_->put(m);
  ASSERT_TRUE(turn_until([&] { return a_->drained == 1; }, 20'000, 100));
  EXPECT_EQ(b_->closed_by, 1u);
  EXPECT_LT(fake_now, 900'000u) << "not by its deadline";
}

TEST_F(Pair, APortIsRemovedAndABufferClearedByEveryWorker) {
  start();
  ASSERT_TRUE(both_ready());
  FromService m = HalfNode::from(FromService::Kind::kClearBuffer);
  m.a = 0;
  m.b = 55;
  b_->put(m);
  m = HalfNode::from(FromService::Kind::kRemovePort);
  m.port = &b_->port;
  b_->put(m);
  ASSERT_TRUE(turn_until([&] { return b_->cleared == 1 && b_->removed == 1; }));
  ASSERT_TRUE(a_->submit(SubmitOp::kWrite, 1, 0, 10));
  ASSERT_TRUE(turn_until([&] { return a_->ended == 1; }));
  EXPECT_EQ(a_->last.code, Code::kStale);
  ASSERT_TRUE(a_->submit(SubmitOp::kWrite, 2, 0, 1000));
  ASSERT_TRUE(turn_until([&] { return a_->ended == 2; }));
  EXPECT_EQ(a_->last.code, Code::kStale);
  ASSERT_TRUE(a_->submit(SubmitOp::kRead, 3, 0, 10));
  ASSERT_TRUE(turn_until([&] { return a_->ended == 3; }));
  EXPECT_EQ(a_->last.code, Code::kStale);
}

// A segment that is withdrawn refuses all the reads that were granted, however slowly the refusals go out.
TEST_F(Pair, RefusalsOfEveryReadThatWasGrantedHaveRoom) {
  constexpr uint32_t kReads = 1200;
  NodeParams many;
  many.requests = many.ceiling = kReads;
  start({}, many);
  ASSERT_TRUE(both_ready());
  b_->data.withhold = true;
  for (uint32_t i = 0; i < kReads; ++i) ASSERT_TRUE(turn_until([&] { return a_->submit(SubmitOp::kRead, i, 0, 100); }));
  ASSERT_TRUE(turn_until([&] { return b_->lane[0]->job_count > kReads - HalfNode::kTx; }, 20'000));
  FromService clear = HalfNode::from(FromService::Kind::kClearBuffer);
  b_->ctrl.withhold = true;
  b_->put(clear);
  ASSERT_TRUE(turn_until([&] { return b_->cleared == 1; }, 1000));
  EXPECT_GT(b_->session().naks.count, 1024u);
  b_->ctrl.withhold = b_->data.withhold = false;
  b_->ctrl.release();
  b_->data.release();
  EXPECT_TRUE(turn_until([&] { return a_->ended == kReads; }, 50'000, 5));
  EXPECT_EQ(a_->faults + b_->faults, 0u);
  EXPECT_LT(a_->done, HalfNode::kTx);
}

}  // namespace
}  // namespace sluice::test
