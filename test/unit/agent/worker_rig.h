// One worker over a fake queue. The test is its control core, its application and its peer.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "agent/worker.h"
#include "fake_queue.h"
#include "pools.h"

namespace sluice::test {

class WorkerRig : public ::testing::Test {
 protected:
  static constexpr uint32_t kSlot = 256, kRoom = kSlot - kMsgHeaderBytes, kRx = 32, kTx = 16, kRequests = 4;
  static constexpr uint32_t kCeiling = 64, kMemory = 4096;
  static constexpr uint64_t kTimeout = 1'000'000, kProbeFirst = 1000, kProbeMax = 100'000, kLease = 50'000;
  static constexpr SessionId kSession{0x7777};
  static constexpr uint64_t kAll = ~uint64_t{0};

  WorkerRig();

  // As the control core.
  static ToWorker to(ToWorker::Kind kind, uint16_t generation = 1) {
    ToWorker m{};
    m.kind = kind;
    m.generation = generation;
    return m;
  }
  void put(const ToWorker& m) { ASSERT_TRUE(inbox_.put(m)); }
  void open_lane(uint16_t generation = 1, SessionId session = kSession) {
    lane_ = new Lane(LaneParams{LaneId{0}, generation, PathId{0}, session, 5, kSlot, kRequests, {}});
    generation_ = generation;
    ToWorker m = to(ToWorker::Kind::kOpenLane, generation);
    m.opened = lane_;
    put(m);
    lease(kAll);
  }
  void lease(uint64_t until) {
    ToWorker m = to(ToWorker::Kind::kLease, generation_);
    m.values.a = until;
    put(m);
  }
  void open_tx(uint64_t epoch = 1) {
    ToWorker m = to(ToWorker::Kind::kOpenTx, generation_);
    m.values = {epoch, 0, ceiling_.v};
    put(m);
  }
  void grant(uint64_t slots, uint64_t requests = kRequests) {
    ToWorker m = to(ToWorker::Kind::kGrant, generation_);
    granted_ = window_charge(slots, requests, kSlot, kMsgHeaderBytes);
    m.values = {1, ++grant_seq_, granted_.v};
    m.count = 0b11110;
    put(m);
  }
  void open_all(uint64_t slots = kCeiling / 2) {
    open_lane();
    open_tx();
    grant(slots);
    turn();
  }
  void fail_lane(Code code, uint64_t give_up_at) {
    ToWorker m = to(ToWorker::Kind::kFailLane, generation_);
    m.code = code;
    m.values.a = give_up_at;
    put(m);
  }
  void ack(uint64_t task, uint64_t bytes, ToWorker::Kind kind = ToWorker::Kind::kAcks) {
    ToWorker m = to(kind, generation_);
    m.count = 1;
    m.acks[0] = {task, bytes};
    put(m);
  }
  void nak(uint64_t task, Code code) { ack(task, static_cast<uint64_t>(code), ToWorker::Kind::kNak); }

  // As the application.
  void submit(SubmitOp op, uint64_t ref, uint64_t length, uint64_t offset = 0) {
    Submission s{};
    s.ref = ref;
    s.local = local_.data();
    s.offset = offset;
    s.length = length;
    s.buffer = 1;
    s.lane_generation = generation_;
    s.phase = static_cast<uint16_t>(ref % port_.max_open());
    s.op = op;
    ASSERT_TRUE(port_.submissions(WorkerId{0}).put(s));
  }
  void write(uint64_t ref, uint64_t length = 64) { submit(SubmitOp::kWrite, ref, length); }
  void read(uint64_t ref, uint64_t length = 64) { submit(SubmitOp::kRead, ref, length); }
  void cancel(uint64_t ref) {
    ASSERT_TRUE(port_.cancels(WorkerId{0}).put(Cancel{ref, kAll, LaneId{0}, generation_, {}}));
  }
  std::vector<TaskDone> done() {
    std::vector<TaskDone> all;
    TaskDone d;
    while (port_.completions(WorkerId{0}).take({&d, 1}) == 1) all.push_back(d);
    return all;
  }
  // The one completion there is.
  TaskDone only_done() {
    const std::vector<TaskDone> all = done();
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? TaskDone{kAll, 0, TaskEnd::kFailed, Code::kInternal, 0} : all[0];
  }

  // As the peer.
  static MsgHeader header_of(std::span<const std::byte> bytes) {
    MsgHeader h{};
    std::memcpy(&h, bytes.data(), sizeof h);
    return h;
  }
  MsgHeader header(size_t sent) const { return header_of(queue_.sent[sent].bytes); }
  uint64_t task(size_t sent) const { return raw(header(sent).task); }
  MsgHeader message(MsgType type, uint32_t length, uint64_t task = 9) {
    MsgHeader h{};
    h.magic = kMsgMagic;
    h.version = kMsgVersion;
    h.type = type;
    h.session = kSession;
    h.epoch = 1;
    h.length = type == MsgType::kReadReq ? 0 : length;
    h.task = TaskId{task};
    h.total = length;
    h.buffer = type == MsgType::kReadResp ? 0 : 1;
    h.seq = ++peer_seq_;
    return h;
  }
  void deliver(const MsgHeader& h, char fill = 'x') {
    std::vector<std::byte> bytes(kMsgHeaderBytes + h.length, std::byte(fill));
    encode_message(bytes.data(), h);
    ASSERT_TRUE(queue_.deliver(bytes));
  }
  bool placed(uint64_t offset, uint32_t length, char fill = 'x') const {
    for (uint32_t i = 0; i < length; ++i)
      if (memory_[offset + i] != std::byte(fill)) return false;
    return true;
  }

  // What it tells the control core, in order; lanes that are handed back end here.
  void turn(uint64_t ticks = 1);
  void turns(int n) {
    while (n-- > 0) turn();
  }
  // P + R <= g <= G, and what is reserved is staged.
  void laws() const;
  std::vector<ToControl> told(ToControl::Kind kind) const {
    std::vector<ToControl> found;
    for (const ToControl& m : told_)
      if (m.kind == kind) found.push_back(m);
    return found;
  }
  const WorkerStats& stats() const { return worker_->stats(); }
  // Slots whose sends have not come home, counted by the worker's next look at its deadlines.
  uint64_t tx_out() {
    turn(kProbeFirst);
    return stats().tx_out.load();
  }

  const Charge ceiling_ = window_charge(kCeiling, kCeiling, kSlot, kMsgHeaderBytes);
  Charge granted_;
  FakeQueue queue_;
  std::unique_ptr<BouncePool> rx_, tx_;
  Mailbox<ToWorker> inbox_;
  Mailbox<ToControl> control_;
  PortRings port_;
  std::array<std::byte, kMemory> memory_{}, local_{};
  std::unique_ptr<Worker> worker_;
  Lane* lane_ = nullptr;
  uint16_t generation_ = 1;
  uint64_t grant_seq_ = 0;
  uint32_t peer_seq_ = 0, lanes_closed_ = 0;
  std::vector<ToControl> told_;
};

}  // namespace sluice::test
