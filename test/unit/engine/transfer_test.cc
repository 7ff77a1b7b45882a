// The main job in one process: blocks both ways, larger than a slot, larger than the window, and what goes with them.
#include <rte_mempool.h>

#include <atomic>
#include <thread>

#include "engine/data_plane.h"
#include "two_nodes.h"

namespace sluice::test {
namespace {

void fill(std::byte* at, uint64_t bytes, uint64_t seed) {
  for (uint64_t i = 0; i < bytes; ++i) at[i] = static_cast<std::byte>((i * 131 + (i >> 8) * 7 + seed) & 0xff);
}

// An extent whose name is free again was freed.
TEST(DataPlaneEnd, FreesWhatNobodyTookFromTheMailboxes) {
  const NodeSettings settings = small_settings("plane");
  OneNode eal;
  ASSERT_TRUE(eal.start(settings).ok());
  std::unique_ptr<DataPlane> plane;
  ASSERT_TRUE(DataPlane::build(settings, Outside{}, &plane).ok());
  std::vector<std::string> names;
  for (const auto kind : {FromService::Kind::kExtent, FromService::Kind::kCtrlExtent}) {
    std::unique_ptr<Extent> extent;
    ASSERT_TRUE(plane->make_extent(4, plane->slot_bytes(), &extent).ok());
    names.emplace_back(extent->mempool()->name);
    FromService m{};
    m.kind = kind;
    m.extent = extent.release();
    ASSERT_TRUE(plane->to_control().put(m));
  }
  FromService up{};
  up.kind = FromService::Kind::kPeerUp;
  up.peer_object = new Peer;
  ASSERT_TRUE(plane->to_control().put(up));
  plane.reset();
  for (const std::string& name : names) {
    std::unique_ptr<Extent> again;
    EXPECT_TRUE(Extent::make(RegionKind::kPlain, name.c_str(), 4, 4096, &again).ok()) << name;
  }
}

TEST_P(TwoNodes, WritesOneBlock) {
  start();
  connect();
  fill(a_.at(0), 4096, 1);
  BatchHandle batch;
  ASSERT_EQ(port_->allocate_batch(1, &batch), Code::kOk);
  const Request r{TransferOp::kWrite, 0, a_.at(0), segment_, 8192, 4096};
  ASSERT_EQ(port_->submit(batch, {&r, 1}), Code::kOk);
  ASSERT_TRUE(turn_until([&] { return status(batch).final; }));
  EXPECT_TRUE(status(batch).ok());
  EXPECT_EQ(std::memcmp(a_.at(0), b_.at(8192), 4096), 0);
  EXPECT_EQ(port_->release(batch), Code::kOk);
  EXPECT_EQ(port_->release(batch), Code::kStale);
}

TEST_P(TwoNodes, WritesAndReadsAnyLength) {
  start();
  connect();
  for (const uint64_t length : {1ull, 63ull, 64ull, 4096ull, 16384ull, 16385ull, 100'000ull, 3'000'000ull}) {
    for (const TransferOp op : {TransferOp::kWrite, TransferOp::kRead}) {
      const bool write = op == TransferOp::kWrite;
      fill(write ? a_.at(0) : b_.at(100), length, length);
      std::memset(write ? b_.at(100) : a_.at(0), 0, length);
      BatchHandle batch;
      ASSERT_EQ(port_->allocate_batch(1, &batch), Code::kOk);
      const Request r{op, 0, a_.at(0), segment_, 100, length};
      ASSERT_EQ(port_->submit(batch, {&r, 1}), Code::kOk);
      ASSERT_TRUE(turn_until([&] { return status(batch).final; })) << length;
      EXPECT_TRUE(status(batch).ok()) << length;
      EXPECT_EQ(std::memcmp(a_.at(0), b_.at(100), length), 0) << length;
      EXPECT_EQ(port_->release(batch), Code::kOk);
    }
  }
}

TEST_P(TwoNodes, ManyTasksOfManySizes) {
  start();
  connect();
  constexpr uint32_t kTasks = 5000;
  BatchHandle batch;
  ASSERT_EQ(port_->allocate_batch(kTasks, &batch), Code::kOk);
  fill(a_.at(0), kSegment, 3);
  std::vector<Request> requests;
  uint64_t offset = 0;
  for (uint32_t i = 0; i < kTasks; ++i) {
    const uint64_t length = 1 + i % 800;
    requests.push_back({TransferOp::kWrite, 0, a_.at(offset), segment_, offset, length});
    offset += length;
  }
  ASSERT_LT(offset, kSegment);
  ASSERT_EQ(port_->submit(batch, requests), Code::kOk);
  ASSERT_TRUE(turn_until([&] { return status(batch).final; }));
  EXPECT_TRUE(status(batch).ok());
  EXPECT_EQ(std::memcmp(a_.at(0), b_.at(0), offset), 0);
}

TEST_P(TwoNodes, ZeroLengthCompletesAtOnce) {
  start();
  connect();
  BatchHandle batch;
  ASSERT_EQ(port_->allocate_batch(1, &batch), Code::kOk);
  const Request r{TransferOp::kWrite, 0, a_.at(0), segment_, 0, 0};
  ASSERT_EQ(port_->submit(batch, {&r, 1}), Code::kOk);
  EXPECT_TRUE(status(batch).ok());
}

TEST_P(TwoNodes, NotifyComesOnceAfterAllData) {
  start();
  connect();
  for (int round = 0; round < 100; ++round) {
    fill(a_.at(0), 200'000, static_cast<uint64_t>(round));
    BatchHandle batch;
    ASSERT_EQ(port_->allocate_batch(4, &batch), Code::kOk);
    std::vector<Request> requests;
    for (uint64_t i = 0; i < 4; ++i)
      requests.push_back({TransferOp::kWrite, 0, a_.at(i * 50'000), segment_, i * 50'000, 50'000});
    ASSERT_EQ(port_->submit(batch, requests), Code::kOk);
    ASSERT_EQ(port_->attach_notify(batch, segment_, "round", std::to_string(round)), Code::kOk);
    std::vector<NotifyMessage> got;
    ASSERT_TRUE(turn_until([&] {
      (void)b_.engine->take_notifies(8, &got).ok();
      return !got.empty();
    }));
    EXPECT_EQ(std::memcmp(a_.at(0), b_.at(0), 200'000), 0) << "the notify came before the data";
    ASSERT_TRUE(turn_until([&] { return status(batch).final; }));
    EXPECT_EQ(status(batch).notify, NotifyState::kDelivered);
    (void)b_.engine->take_notifies(8, &got).ok();
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].peer, "a");
    EXPECT_EQ(got[0].name, "round");
    EXPECT_EQ(got[0].message, std::to_string(round));
    EXPECT_EQ(port_->release(batch), Code::kOk);
  }
}

// Messages carry 16 bits of what was received of control frames: many of them between two messages must not turn it.
TEST_P(TwoNodes, MessagesAfterManyNotifies) {
  start([](NodeSettings& a, NodeSettings& b) {  // a heartbeat tells the worker, too
    a.heartbeat_ms = b.heartbeat_ms = 5000;
    a.lease_ms = b.lease_ms = 20'000;
  });
  connect();
  uint64_t taken = 0;
  std::vector<NotifyMessage> got;
  for (uint32_t round = 0; round < 45'000; ++round) {
    BatchHandle batch;
    ASSERT_EQ(port_->allocate_batch(1, &batch), Code::kOk);
    ASSERT_EQ(port_->attach_notify(batch, segment_, "n", "m"), Code::kOk);
    ASSERT_TRUE(turn_until([&] { return status(batch).final; }));
    ASSERT_EQ(status(batch).notify, NotifyState::kDelivered) << round;
    ASSERT_EQ(port_->release(batch), Code::kOk);
    got.clear();
    ASSERT_TRUE(b_.engine->take_notifies(8, &got).ok());
    taken += got.size();
  }
  EXPECT_EQ(taken, 45'000u);
  for (const TransferOp op : {TransferOp::kWrite, TransferOp::kRead}) {
    BatchHandle batch;
    ASSERT_EQ(port_->allocate_batch(1, &batch), Code::kOk);
    const Request r{op, 0, a_.at(0), segment_, 0, 4096};
    ASSERT_EQ(port_->submit(batch, {&r, 1}), Code::kOk);
    ASSERT_TRUE(turn_until([&] { return status(batch).final; }));
    EXPECT_TRUE(status(batch).ok());
    EXPECT_EQ(port_->release(batch), Code::kOk);
  }
}

// What nobody takes is refused when the inbox is full, and its sender is told so: delivered means taken over.
TEST_P(TwoNodes, NotifiesBeyondTheInboxFail) {
  start();
  connect();
  uint64_t delivered = 0, failed = 0, taken = 0;
  for (uint32_t i = 0; i < 1500; ++i) {
    BatchHandle batch;
    ASSERT_EQ(port_->allocate_batch(1, &batch), Code::kOk);
    ASSERT_EQ(port_->attach_notify(batch, segment_, "n", "m"), Code::kOk);
    ASSERT_TRUE(turn_until([&] { return status(batch).final; }));
    ++(status(batch).notify == NotifyState::kDelivered ? delivered : failed);
    ASSERT_EQ(port_->release(batch), Code::kOk);
  }
  std::vector<NotifyMessage> got;
  do {
    got.clear();
    ASSERT_TRUE(b_.engine->take_notifies(256, &got).ok());
    taken += got.size();
  } while (!got.empty());
  EXPECT_EQ(taken, delivered);
  EXPECT_GT(failed, 0u);
}

TEST_P(TwoNodes, RefusesWhatIsOutOfRange) {
  start();
  connect();
  BatchHandle batch;
  ASSERT_EQ(port_->allocate_batch(4, &batch), Code::kOk);
  uint32_t bad = 99;
  const auto submit = [&](const Request& r) { return port_->submit(batch, {&r, 1}, &bad); };
  int outside = 0;
  EXPECT_EQ(submit({TransferOp::kWrite, 0, &outside, segment_, 0, 4}), Code::kNotRegistered);
  EXPECT_EQ(submit({TransferOp::kWrite, 0, a_.at(0), segment_, kSegment - 10, 11}), Code::kOutOfRange);
  EXPECT_EQ(submit({TransferOp::kWrite, 0, a_.at(0), segment_, UINT64_MAX, 2}), Code::kOutOfRange);
  EXPECT_EQ(submit({TransferOp::kWrite, 0, a_.at(kSegment - 1), segment_, 0, 2}), Code::kNotRegistered);
  EXPECT_EQ(submit({TransferOp::kWrite, 1, a_.at(0), segment_, 0, 2}), Code::kOutOfRange);
  EXPECT_EQ(submit({TransferOp::kWrite, 0, a_.at(0), SegmentHandle{7ull << 32}, 0, 2}), Code::kStale);
  EXPECT_EQ(status(batch).tasks, 0u);
  EXPECT_EQ(port_->open_tasks(), 0u);
}

TEST_P(TwoNodes, CancelEndsEveryTaskAndTheBuffersAreFree) {
  start();
  connect();
  constexpr uint32_t kTasks = 64;
  BatchHandle batch;
  ASSERT_EQ(port_->allocate_batch(kTasks, &batch), Code::kOk);
  std::vector<Request> requests;
  for (uint32_t i = 0; i < kTasks; ++i)
    requests.push_back({i % 2 == 0 ? TransferOp::kWrite : TransferOp::kRead, 0, a_.at(0), segment_, 0, kSegment / 2});
  ASSERT_EQ(port_->submit(batch, requests), Code::kOk);
  for (int i = 0; i < 30; ++i) {
    (void)a_.engine->progress();
    (void)b_.engine->progress();
  }
  ASSERT_EQ(port_->cancel(batch), Code::kOk);
  ASSERT_TRUE(turn_until([&] { return status(batch).final; }));
  EXPECT_EQ(status(batch).done + status(batch).cancelled, kTasks);
  // Where the kernel or the wire moves one-sided bytes at once, all of them may be there already.
  const bool at_once =
      GetParam().transport == std::string_view("loop") || GetParam().transport == std::string_view("fabric");
  EXPECT_TRUE(at_once || status(batch).cancelled != 0);
  EXPECT_EQ(port_->release(batch), Code::kOk);
  EXPECT_EQ(port_->open_tasks(), 0u);
  // What was cancelled left no trace: the next transfer works, and the memory is not in use.
  BatchHandle next;
  ASSERT_EQ(port_->allocate_batch(1, &next), Code::kOk);
  ASSERT_EQ(port_->submit(next, {requests.data(), 1}), Code::kOk);
  ASSERT_TRUE(turn_until([&] { return status(next).final; }));
  EXPECT_TRUE(status(next).ok());
}

INSTANTIATE_TEST_SUITE_P(Wires, TwoNodes, ::testing::ValuesIn(kWires),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace sluice::test
