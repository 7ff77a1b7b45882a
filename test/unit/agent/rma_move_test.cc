// One-sided tasks into operations: seams, sizes, runs, refusals, and bytes that arrive late.
#include <algorithm>
#include <random>

#include "rma_rig.h"

namespace sluice::test {
namespace {

bool same(const RmaRig& rig, uint64_t from, uint64_t offset, uint64_t length) {
  return std::equal(rig.local->base() + from, rig.local->base() + from + length, rig.remote->base() + offset);
}

TEST(RmaMove, AWriteLandsAndAReadBringsItBack) {
  RmaRig rig;
  rig.open_lane();
  rig.submit(SubmitOp::kWrite, 1, 100, 200, 300);
  ASSERT_TRUE(rig.settle());
  EXPECT_EQ(rig.ends[1].end, TaskEnd::kDone);
  EXPECT_TRUE(same(rig, 100, 200, 300));
  EXPECT_EQ(rig.remote->base()[199], std::byte{0});
  EXPECT_EQ(rig.remote->base()[500], std::byte{0});
  std::fill_n(rig.local->base() + 100, 300, std::byte{0});
  rig.submit(SubmitOp::kRead, 2, 100, 200, 300);
  ASSERT_TRUE(rig.settle());
  EXPECT_EQ(rig.ends[2].end, TaskEnd::kDone);
  EXPECT_TRUE(same(rig, 100, 200, 300));
  EXPECT_EQ(rig.torn(), 0u);
}

struct Seam {
  uint64_t local, remote, from, offset, length, ops;
};

class RmaSeams : public testing::TestWithParam<Seam> {};

TEST_P(RmaSeams, NoOperationCrossesOne) {
  const Seam& s = GetParam();
  for (const SubmitOp op : {SubmitOp::kWrite, SubmitOp::kRead}) {
    RmaRig rig({.op_bytes = 1 << 20, .local_chunk = s.local, .remote_chunk = s.remote});
    rig.open_lane();
    if (op == SubmitOp::kRead)
      for (uint64_t i = 0; i < RmaRig::kMemory; ++i) rig.remote->base()[i] = static_cast<std::byte>(i * 13 + 5);
    rig.submit(op, 1, s.from, s.offset, s.length);
    ASSERT_TRUE(rig.settle());
    EXPECT_EQ(rig.ends[1].end, TaskEnd::kDone);
    EXPECT_TRUE(same(rig, s.from, s.offset, s.length));
    EXPECT_EQ(rig.ops(), s.ops);
    EXPECT_EQ(rig.torn(), 0u);
  }
}

constexpr uint64_t kChunk = 4096;
INSTANTIATE_TEST_SUITE_P(Both, RmaSeams,
                         testing::Values(Seam{kChunk, 0, kChunk - 1, 0, 2, 2},  // source, a byte each side
                                         Seam{0, kChunk, 0, kChunk - 1, 2, 2},  // target
                                         Seam{kChunk, kChunk, kChunk - 1, kChunk - 1, 2, 2},  // both, at one place
                                         Seam{kChunk, kChunk, kChunk - 1, kChunk - 2, 4, 3},  // both, at two places
                                         Seam{kChunk, kChunk, 0, 0, kChunk, 1},               // a whole chunk
                                         Seam{kChunk, kChunk, kChunk, kChunk, kChunk, 1},     // not the first
                                         Seam{kChunk, 0, 5 * kChunk + 7, 3, 3 * kChunk, 4},   // past the first
                                         Seam{kChunk, 3 * kChunk, 10, 20, 8 * kChunk, 11},
                                         Seam{0, 0, 0, 0, RmaRig::kMemory, 1}));

TEST(RmaMove, OperationsAreNoLargerThanTheSettingOrTheDevice) {
  for (const auto& [op_bytes, most] : {std::pair<uint64_t, uint64_t>{1000, 1 << 20}, {1 << 20, 1000}}) {
    RmaRig rig({.op_bytes = op_bytes, .max_op_bytes = most});
    rig.open_lane();
    rig.submit(SubmitOp::kWrite, 1, 0, 0, 10500);
    ASSERT_TRUE(rig.settle());
    EXPECT_TRUE(same(rig, 0, 0, 10500));
    EXPECT_EQ(rig.ops(), 11u);
    for (const Op& op : rig.queues[0]->ops) EXPECT_LE(op.bytes0, 1000u);
  }
}

TEST(RmaMove, NeighboursGoTogether) {
  RmaRig rig({.op_bytes = 16 * 64});
  rig.open_lane();
  for (uint64_t i = 0; i < 32; ++i) rig.submit(SubmitOp::kWrite, i, 64 * i, 4096 + 64 * i, 64);       // two runs of 16
  for (uint64_t i = 0; i < 4; ++i) rig.submit(SubmitOp::kWrite, 100 + i, 64 * i, 9000 + 65 * i, 64);  // none
  rig.submit(SubmitOp::kWrite, 200, 256, 9000 + 65 * 3 + 64, 64);  // follows the last one of those
  ASSERT_TRUE(rig.settle());
  EXPECT_EQ(rig.ops(), 2u + 4u);
  EXPECT_TRUE(same(rig, 0, 4096, 32 * 64));
  for (uint64_t i = 0; i < 4; ++i) EXPECT_TRUE(same(rig, 64 * i, 9000 + 65 * i, 64)) << i;
  EXPECT_TRUE(same(rig, 256, 9000 + 65 * 3 + 64, 64));
  for (const auto& [ref, end] : rig.ends) EXPECT_EQ(end.end, TaskEnd::kDone) << ref;
}

TEST(RmaMove, ARunThatFailsIsWrittenAgainAsOne) {
  RmaRig rig;
  rig.open_lane();
  rig.queues[0]->fail_next = 1;
  for (uint64_t i = 0; i < 8; ++i) rig.submit(SubmitOp::kWrite, i, 64 * i, 64 * i, 64);
  ASSERT_TRUE(rig.settle(10'000));
  for (const auto& [ref, end] : rig.ends) EXPECT_EQ(end.end, TaskEnd::kDone) << ref;
  EXPECT_EQ(rig.ops(), 2u);
  EXPECT_TRUE(same(rig, 0, 0, 512));
}

// What the queue refuses stays staged, in order, and the depth is never overrun.
TEST(RmaMove, TakesNoForAnAnswer) {
  RmaRig rig({.depth = 4, .op_bytes = 64});
  rig.open_lane();
  rig.queues[0]->accept = 1;
  rig.queues[0]->withhold = true;
  rig.submit(SubmitOp::kWrite, 1, 0, 0, 64 * 20);
  for (int i = 0; i < 10; ++i) rig.turn();
  EXPECT_EQ(rig.queues[0]->held(), 4u);
  rig.queues[0]->withhold = false;
  rig.queues[0]->release();
  ASSERT_TRUE(rig.settle());
  EXPECT_TRUE(same(rig, 0, 0, 64 * 20));
  EXPECT_EQ(rig.ops(), 20u);
}

TEST(RmaMove, AWriteIsDoneWhenItIsPlaced) {
  RmaRig rig({.placed = false});
  rig.open_lane();
  rig.queues[0]->late = true;
  rig.queues[0]->withhold = true;
  rig.submit(SubmitOp::kWrite, 1, 0, 0, 100);
  rig.turn();
  rig.queues[0]->release();
  for (int i = 0; i < 5; ++i) rig.turn();
  EXPECT_FALSE(rig.ended(1)) << "the device has it, the peer has not";
  ASSERT_EQ(rig.queues[0]->ops.size(), 2u);
  EXPECT_EQ(rig.queues[0]->ops[1].kind, OpKind::kRead);
  EXPECT_EQ(rig.queues[0]->ops[1].bytes0, 1u);
  rig.queues[0]->withhold = false;
  rig.queues[0]->release();
  ASSERT_TRUE(rig.settle());
  EXPECT_TRUE(same(rig, 1, 1, 99));  // byte 0 of the local memory is the rig's scratch
}

TEST(RmaMove, WhenTheReadBehindAWriteFailsTheWriteIsMadeAgain) {
  RmaRig rig({.placed = false});
  rig.open_lane();
  rig.queues[0]->withhold = true;
  rig.submit(SubmitOp::kWrite, 1, 0, 0, 100);
  rig.turn();
  rig.queues[0]->release();
  rig.turn();
  rig.turn();
  rig.queues[0]->release(1, Code::kDeviceError);
  rig.queues[0]->withhold = false;
  ASSERT_TRUE(rig.settle(10'000));
  EXPECT_EQ(rig.ends[1].end, TaskEnd::kDone);
  EXPECT_EQ(rig.ops(), 4u);  // write, read, write, read
}

// Whatever fails or is refused: each task ends once, and done means that the bytes are there.
TEST(RmaMove, RandomTasksOverTwoRails) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    std::mt19937 rng(seed);
    const auto below = [&rng](uint64_t n) { return std::uniform_int_distribution<uint64_t>(0, n - 1)(rng); };
    RmaRig rig({.rails = 2,
                .depth = static_cast<uint32_t>(1 + below(8)),
                .op_bytes = 64 + below(4000),
                .local_chunk = below(2) == 0 ? 0 : 512 + below(4096),
                .remote_chunk = below(2) == 0 ? 0 : 512 + below(4096),
                .placed = below(2) == 0});
    rig.open_lane();
    std::vector<std::array<uint64_t, 3>> tasks;
    uint64_t offset = 1;
    while (offset + 2048 < RmaRig::kMemory) {
      const uint64_t length = 1 + below(2000);
      tasks.push_back({offset, offset, length});
      rig.submit(SubmitOp::kWrite, tasks.size() - 1, offset, offset, length);
      offset += length + (below(3) == 0 ? below(100) : 0);
      for (auto& q : rig.queues) {
        q->accept = below(4) == 0 ? static_cast<uint32_t>(below(3)) : UINT32_MAX;
        q->withhold = below(3) == 0;
        q->late = !rig.p.placed && below(2) == 0;
        if (below(12) == 0) q->fail_next = 1;
        if (below(2) == 0) q->release(below(4));
      }
      rig.turn(1 + below(100));
    }
    for (auto& q : rig.queues) {
      q->accept = UINT32_MAX;
      q->withhold = false;
      q->release();
    }
    ASSERT_TRUE(rig.settle(20'000)) << seed;
    EXPECT_EQ(rig.torn(), 0u) << seed;
    EXPECT_EQ(rig.doubles, 0u) << seed;
    for (const auto& [ref, end] : rig.ends) {
      if (end.end != TaskEnd::kDone) continue;
      EXPECT_TRUE(same(rig, tasks[ref][0], tasks[ref][1], tasks[ref][2])) << seed;
    }
    for (auto& q : rig.queues) EXPECT_EQ(q->out(), 0u) << seed;
  }
}

}  // namespace
}  // namespace sluice::test
