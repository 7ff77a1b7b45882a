// The receiving half of a worker: what a message may do, and what every other message changes: nothing.
#include "worker_rig.h"

namespace sluice::test {
namespace {

using WorkerRx = WorkerRig;
using Kind = ToControl::Kind;

TEST_F(WorkerRx, AWriteIsPlacedAcknowledgedAndItsCreditReturns) {
  open_all();
  deliver(message(MsgType::kWrite, 100, 42));
  turns(2);
  EXPECT_TRUE(placed(0, 100));
  const auto acks = told(Kind::kAcks);
  ASSERT_EQ(acks.size(), 1u);
  EXPECT_EQ(acks[0].acks[0].task, 42u);
  EXPECT_EQ(acks[0].acks[0].acked_bytes, 100u);
  uint32_t accepted = 0, released = 0;
  for (const ToControl& m : told(Kind::kReport)) {
    accepted += m.report.accepted_slots;
    released += m.report.released_slots;
  }
  EXPECT_EQ(accepted, 1u);
  EXPECT_EQ(released, 1u);
  EXPECT_EQ(queue_.posted_receives(), kRx);
}

TEST_F(WorkerRx, CreditReturnsOnlyWhenTheReceiveIsPostedAgain) {
  open_all();
  queue_.accept_recv = 0;
  deliver(message(MsgType::kWrite, 100));
  turns(3);
  EXPECT_TRUE(placed(0, 100));
  for (const ToControl& m : told(Kind::kReport)) EXPECT_EQ(m.report.released_slots, 0u) << "law 5";
  queue_.accept_recv = UINT32_MAX;
  turns(static_cast<int>(kProbeFirst));
  uint32_t released = 0;
  for (const ToControl& m : told(Kind::kReport)) released += m.report.released_slots;
  EXPECT_EQ(released, 1u);
}

TEST_F(WorkerRx, AfterTheLeaseNothingIsPlaced) {
  open_lane();
  turn();
  lane_->lease_until = fake_now + 100;
  deliver(message(MsgType::kWrite, 10));
  turn(50);
  EXPECT_TRUE(placed(0, 10));
  deliver(message(MsgType::kWrite, 10), 'y');
  turn(50);  // the lease is over at that very tick
  EXPECT_TRUE(placed(0, 10)) << "the second message must not be there";
  EXPECT_EQ(stats().lease_refusals, 1u);
  EXPECT_EQ(queue_.posted_receives(), kRx);
  lease(fake_now + 1000);
  deliver(message(MsgType::kWrite, 10), 'z');
  turn();
  EXPECT_TRUE(placed(0, 10, 'z'));
  EXPECT_EQ(stats().lease_refusals, 1u);
}

// Its sender counts on it and will not send it again: without an end of the session the task and its credit would be
// lost, though the lease be renewed.
TEST_F(WorkerRx, AMessageRefusedForWantOfALeaseEndsTheSession) {
  open_lane();
  turn();
  lane_->lease_until = fake_now + 1;
  for (int i = 0; i < 3; ++i) deliver(message(MsgType::kWrite, 10));
  turn(50);
  lease(fake_now + 1000);
  turn();
  const auto violations = told(Kind::kViolation);
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].code, Code::kTimeout);
  EXPECT_EQ(stats().lease_refusals, 3u);
}

// The lease that covers a message may still lie in the inbox.
TEST_F(WorkerRx, ALeaseInTheInboxIsReadBeforeAMessageIsRefused) {
  open_lane();
  turn();
  lane_->lease_until = fake_now + 1;
  for (int i = 0; i < 40; ++i) put(to(ToWorker::Kind::kSetBuffer));
  lease(fake_now + 1000);
  deliver(message(MsgType::kWrite, 10));
  turn(50);
  EXPECT_EQ(stats().lease_refusals, 0u);
}

// A process that was stopped wakes inside a turn: the turn's own time is old, the clock is not.
TEST_F(WorkerRx, TheLeaseIsCheckedAgainstTheClockNotTheTurn) {
  open_lane();
  turn();
  lane_->lease_until = fake_now + 100;
  deliver(message(MsgType::kWrite, 10));
  const uint64_t old = fake_now;
  fake_now += 1000;
  (void)worker_->turn(old);
  EXPECT_FALSE(placed(0, 10));
  EXPECT_EQ(stats().lease_refusals, 1u);
}

// The peer may send in an epoch as soon as control has granted in it, and what control told the worker before may lie
// behind many other messages.
TEST_F(WorkerRx, AMessageOfAnEpochThatTheInboxTellsIsTaken) {
  open_all();
  for (int i = 0; i < 100; ++i) lease(kAll);
  ToWorker next = to(ToWorker::Kind::kNextRxEpoch);
  next.values.a = 2;
  put(next);
  MsgHeader h = message(MsgType::kWrite, 10);
  h.epoch = 2;
  deliver(h);
  turn();
  EXPECT_EQ(stats().stale_messages, 0u);
  EXPECT_TRUE(placed(0, 10));
}

TEST_F(WorkerRx, MessagesOfAnotherLifeChangeNothing) {
  open_all();
  const auto change = [&](auto edit) {
    MsgHeader h = message(MsgType::kWrite, 10);
    h.seq = 1;
    edit(h);
    deliver(h);
    turn();
  };
  change([](MsgHeader& h) { h.session = SessionId{1}; });
  change([](MsgHeader& h) { h.epoch = 2; });
  change([](MsgHeader& h) { h.epoch = 0; });
  change([](MsgHeader& h) { h.lane = 3; });
  change([](MsgHeader& h) { h.lane = UINT16_MAX; });
  EXPECT_EQ(stats().stale_messages, 5u);
  change([](MsgHeader& h) { h.magic = 0; });
  change([](MsgHeader& h) { h.length = 11, h.total = 9; });
  EXPECT_EQ(stats().messages_refused, 2u);
  EXPECT_TRUE(told(Kind::kReport).empty()) << "none of them used credit";
  EXPECT_TRUE(told(Kind::kAcks).empty());
  EXPECT_FALSE(placed(0, 10));
  EXPECT_EQ(queue_.posted_receives(), kRx);
  change([](MsgHeader&) {});
  EXPECT_TRUE(placed(0, 10)) << "the number is still free";
}

TEST_F(WorkerRx, WhatIsOutOfRangeIsRefusedWithItsReason) {
  open_all();
  MsgHeader h = message(MsgType::kWrite, 10, 1);
  h.offset = kMemory - 9;
  deliver(h);
  h = message(MsgType::kWrite, 10, 2);
  h.buffer = 2;
  deliver(h);
  h = message(MsgType::kWrite, 10, 3);
  h.buffer = 4000;
  deliver(h);
  h = message(MsgType::kReadReq, 10, 4);
  h.offset = kMemory - 9;
  deliver(h);
  turn();
  const auto naks = told(Kind::kNak);
  ASSERT_EQ(naks.size(), 4u);
  const Code codes[] = {Code::kOutOfRange, Code::kStale, Code::kStale, Code::kOutOfRange};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(naks[i].acks[0].task, i + 1);
    EXPECT_EQ(naks[i].acks[0].acked_bytes, static_cast<uint64_t>(codes[i])) << i;
  }
  EXPECT_TRUE(told(Kind::kAcks).empty());
  EXPECT_EQ(stats().bytes_received, 0u);
}

TEST_F(WorkerRx, AClearedBuffersReadsAreRefusedAFewInATurn) {
  constexpr uint32_t kReads = 200, kMost = 64;
  lane_ = new Lane(LaneParams{LaneId{0}, 1, PathId{0}, kSession, 5, kSlot, kReads, {}});
  ToWorker m = to(ToWorker::Kind::kOpenLane);
  m.opened = lane_;
  put(m);
  lease(kAll);
  turn();
  for (uint32_t i = 0; i < kReads; ++i) {
    deliver(message(MsgType::kReadReq, 10, i));
    turn();
  }
  m = to(ToWorker::Kind::kClearBuffer);
  m.buffer = {1, nullptr, 0, 99};
  put(m);
  for (size_t refused = 0; told(Kind::kBufferCleared).empty();) {
    turn();
    const size_t now = told(Kind::kNak).size();
    ASSERT_GT(now, refused);
    EXPECT_LE(now - refused, kMost);
    refused = now;
  }
  EXPECT_EQ(told(Kind::kNak).size(), kReads);
  EXPECT_EQ(lane_->job_count, 0u);
}

TEST_F(WorkerRx, AClearedBufferIsStaleAndItsReadsAreRefused) {
  open_all(0);
  deliver(message(MsgType::kReadReq, 10, 1));
  turn();
  ToWorker clear = to(ToWorker::Kind::kClearBuffer);
  clear.buffer = {1, nullptr, 0, 99};
  put(clear);
  turn();
  ASSERT_EQ(told(Kind::kBufferCleared).size(), 1u);
  EXPECT_EQ(told(Kind::kBufferCleared)[0].values.a, 99u);
  deliver(message(MsgType::kWrite, 10, 2));
  grant(8);
  turns(3);
  const auto naks = told(Kind::kNak);
  ASSERT_EQ(naks.size(), 2u);
  EXPECT_EQ(naks[0].acks[0].task, 1u);
  EXPECT_EQ(naks[1].acks[0].task, 2u);
  EXPECT_TRUE(queue_.sent.empty()) << "nothing of the buffer is read any more";
  EXPECT_FALSE(placed(0, 10));
}

TEST_F(WorkerRx, ANumberThatWasGivenAnewIsStale) {
  open_all();
  ToWorker set = to(ToWorker::Kind::kSetBuffer);
  set.buffer = {5, memory_.data(), kMemory, 0};  // the place of buffer 1
  put(set);
  deliver(message(MsgType::kWrite, 10, 2));
  turn();
  EXPECT_EQ(told(Kind::kNak).size(), 1u);
  EXPECT_FALSE(placed(0, 10));
}

TEST_F(WorkerRx, MoreReadsThanWereGrantedAreAViolation) {
  open_all(0);  // no credit, so that no answer goes out
  for (uint32_t i = 0; i < kRequests; ++i) deliver(message(MsgType::kReadReq, 10));
  turn();
  EXPECT_TRUE(told(Kind::kViolation).empty());
  deliver(message(MsgType::kReadReq, 10));
  turn();
  ASSERT_EQ(told(Kind::kViolation).size(), 1u);
  EXPECT_EQ(told(Kind::kViolation)[0].code, Code::kBadFrame);
}

TEST_F(WorkerRx, AMessageThatIsHereIsDropped) {
  open_all();
  const MsgHeader h = message(MsgType::kWrite, 10);
  deliver(h);
  deliver(h, 'y');
  turn();
  deliver(h, 'y');
  turn();
  EXPECT_TRUE(placed(0, 10));
  EXPECT_EQ(stats().duplicates, 2u);
  uint32_t accepted = 0;
  for (const ToControl& m : told(Kind::kReport)) accepted += m.report.accepted_slots;
  EXPECT_EQ(accepted, 1u);
  EXPECT_EQ(told(Kind::kAcks).size(), 1u);
  EXPECT_EQ(queue_.posted_receives(), kRx);
}

TEST_F(WorkerRx, ANumberFarAheadIsAViolation) {
  open_all();
  MsgHeader h = message(MsgType::kWrite, 10);
  h.seq = 100'000;
  deliver(h);
  turn();
  EXPECT_EQ(told(Kind::kViolation).size(), 1u);
  EXPECT_FALSE(placed(0, 10));
}

TEST_F(WorkerRx, AReadIsAnsweredFromTheBuffer) {
  open_all();
  for (uint32_t i = 0; i < kMemory; ++i) memory_[i] = std::byte(i * 7);
  MsgHeader h = message(MsgType::kReadReq, 500, 77);
  h.offset = 100;
  deliver(h);
  turns(3);
  ASSERT_EQ(queue_.sent.size(), 3u);
  uint64_t at = 0;
  for (const FakeQueue::Sent& s : queue_.sent) {
    const MsgHeader r = header_of(s.bytes);
    EXPECT_EQ(r.type, MsgType::kReadResp);
    EXPECT_EQ(raw(r.task), 77u);
    EXPECT_EQ(r.offset, at);
    EXPECT_EQ(std::memcmp(s.bytes.data() + kMsgHeaderBytes, memory_.data() + 100 + at, r.length), 0);
    at += r.length;
  }
  EXPECT_EQ(at, 500u);
}

// Responses that do not fit their read write nothing outside it.
TEST_F(WorkerRx, AResponseBeyondItsReadIsAViolation) {
  open_all();
  read(1, 64);
  turn();
  MsgHeader h = message(MsgType::kReadResp, 64, task(0));
  h.total = 128;
  h.offset = 64;
  deliver(h);
  turn();
  EXPECT_EQ(told(Kind::kViolation).size(), 1u);
  h = message(MsgType::kReadResp, 64, task(0));
  deliver(h, 'r');
  turn();
  EXPECT_EQ(only_done().end, TaskEnd::kDone);
  EXPECT_EQ(local_[63], std::byte('r'));
  EXPECT_EQ(local_[64], std::byte{0});
}

TEST_F(WorkerRx, AnExtentIsRetiredOnlyWhenItsSlotsAreHome) {
  open_all();
  ToWorker add = to(ToWorker::Kind::kAddExtent);
  add.extent = make_extent(kRx, kSlot).release();
  put(add);
  turn();
  ASSERT_EQ(told(Kind::kCapacity).size(), 1u);
  EXPECT_EQ(rx_->live_slots(), 2 * kRx);
  put(to(ToWorker::Kind::kRetireExtent));
  for (uint32_t i = 0; i < 5; ++i) deliver(message(MsgType::kWrite, 10));
  turns(static_cast<int>(2 * kProbeFirst));
  const auto home = told(Kind::kExtentHome);
  ASSERT_EQ(home.size(), 1u);
  delete home[0].extent;
  EXPECT_EQ(rx_->live_slots(), kRx);
  EXPECT_EQ(queue_.posted_receives(), kRx);
  EXPECT_EQ(rx_->stale_puts(), 0u);
}

}  // namespace
}  // namespace sluice::test
