// What only real queue pairs can show: a pair that is forced into its error state, and what the device says of itself.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "contract/side.h"
#include "verbs/queue.h"

namespace sluice::contract {
namespace {

constexpr PathId kPath{0}, kOther{1};

const Row& row_of(std::string_view name) {
  for (const Row& row : rows())
    if (name == row.name) return row;
  ADD_FAILURE() << "no row " << name;
  return rows()[0];
}

class Pairs : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const Status status = open_row(row_of(GetParam()), {.rma = true}, &driver_, &device_);
    if (status.code() == Code::kUnsupported) GTEST_SKIP() << status.describe();
    ASSERT_TRUE(status.ok()) << status.describe();
  }
  static verbs::VerbsQueue& queue_of(Side& side) { return static_cast<verbs::VerbsQueue&>(side.queue()); }
  static void join(Side& a, Side& b, PathId path) {
    a.connect(path, b.address(path));
    b.connect(path, a.address(path));
  }
  static void force_error(Side& side, PathId path) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    ASSERT_EQ(ibv_modify_qp(queue_of(side).pair_of(path), &attr, IBV_QP_STATE), 0);
  }
  static void expect_exchange(Side& a, Side& b, PathId path, uint64_t seed) {
    a.inbox().clear();
    b.inbox().clear();
    ASSERT_TRUE(send_soon(a, path, pattern(3000, seed), {&a, &b}));
    ASSERT_TRUE(send_soon(b, path, pattern(3000, seed + 1), {&a, &b}));
    ASSERT_TRUE(wait_for({&a, &b}, [&] { return !a.inbox().empty() && !b.inbox().empty(); }));
    EXPECT_EQ(b.inbox().back(), pattern(3000, seed));
    EXPECT_EQ(a.inbox().back(), pattern(3000, seed + 1));
  }
  std::unique_ptr<Driver> driver_;
  std::unique_ptr<Device> device_;
};

TEST_P(Pairs, ForcedIntoErrorInTheMiddleOfABatch) {
  for (const bool ours : {true, false}) {
    Side a(*device_), b(*device_), c(*device_);
    join(a, b, kPath);
    join(a, c, kOther);
    expect_exchange(a, b, kPath, 1);
    const size_t before = a.ended(Code::kOk);
    for (int i = 0; i < 2; ++i) a.send_burst(kPath, kMaxBurst, 4096, 1);
    a.send_burst(kOther, 8, 512, 9);
    force_error(ours ? a : b, kPath);
    ASSERT_TRUE(wait_for({&a, &b, &c}, [&] { return a.outstanding() == 0; })) << a.outstanding() << " never came back";
    EXPECT_EQ(a.completed(), a.accepted());
    EXPECT_LT(a.ended(Code::kOk) - before, a.accepted()) << "nothing was under way";
    ASSERT_TRUE(a.send(kPath, pattern(64, 1)));
    ASSERT_TRUE(wait_for({&a, &b, &c}, [&] { return a.outstanding() == 0; }));
    EXPECT_EQ(a.ended(Code::kPeerDead) > 0, true) << "the path lives";
    expect_exchange(a, c, kOther, 20);
    // Receives of the broken pair are posted again: all of them are still there.
    ASSERT_EQ(a.queue().close(kPath), Code::kOk);
    ASSERT_EQ(b.queue().close(kPath), Code::kOk);
    join(a, b, kPath);
    for (uint64_t i = 0; i < 3; ++i) expect_exchange(a, b, kPath, 30 + 2 * i);
  }
}

TEST_P(Pairs, ABadKeyEndsItsPathOnly) {
  Side a(*device_), b(*device_), c(*device_);
  join(a, b, kPath);
  join(a, c, kOther);
  ChunkKey nothing{};
  nothing.remote_key = 0x7777;
  ASSERT_TRUE(a.write(kPath, pattern(64, 1), nothing, 4096));
  a.send_burst(kPath, 8, 512, 2);
  ASSERT_TRUE(wait_for({&a, &b, &c}, [&] { return a.outstanding() == 0; }));
  EXPECT_EQ(a.ended(Code::kBadArgument), 9u) << "the cause, and what followed it";
  expect_exchange(a, c, kOther, 5);
  ASSERT_EQ(a.queue().close(kPath), Code::kOk);
  ASSERT_EQ(b.queue().close(kPath), Code::kOk);
  join(a, b, kPath);
  expect_exchange(a, b, kPath, 7);
}

TEST_P(Pairs, OneDoorbellForABurstAndFewCompletions) {
  Side a(*device_), b(*device_);
  join(a, b, kPath);
  ASSERT_EQ(a.send_burst(kPath, kMaxBurst, 256, 1), kMaxBurst);
  EXPECT_EQ(queue_of(a).counters().doorbells, 1u);
  EXPECT_EQ(queue_of(a).counters().signalled, 1u);
  ASSERT_TRUE(wait_for({&a, &b}, [&] { return a.outstanding() == 0 && b.inbox().size() == kMaxBurst; }));
  EXPECT_EQ(queue_of(a).counters().stale, 0u);
}

TEST_P(Pairs, LimitsAreTheDevices) {
  const DeviceCaps& caps = device_->caps();
  EXPECT_TRUE(caps.paired);
  EXPECT_TRUE(caps.closes_paths);
  EXPECT_TRUE(caps.ordered);
  EXPECT_EQ(caps.sge, 2u);
  EXPECT_GE(caps.inject_bytes, 64u);
  EXPECT_FALSE(device_->info().address.empty());
  device_->tend();  // whatever it has to say, it does not stop
}

INSTANTIATE_TEST_SUITE_P(Verbs, Pairs, testing::Values("verbs", "verbs_plain"));

}  // namespace
}  // namespace sluice::contract

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
