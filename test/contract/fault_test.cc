// What the fault decorator promises: each fault does what it says, and the books still close.
#include "fault/fault.h"

#include "side.h"

namespace sluice::contract {
namespace {

constexpr PathId kPath{0};

class Faults : public testing::Test {
 protected:
  void SetUp() override {
    std::unique_ptr<Device> inner;
    ASSERT_TRUE(open_row(rows()[0], {}, &driver_, &inner).ok());
    device_ = make_fault_device(std::move(inner), FaultPlan{});
    a_.emplace(*device_);
    b_.emplace(*device_);
    a_->connect(kPath, b_->address());
    b_->connect(kPath, a_->address());
  }

  void plan(Fault fault, FaultRule rule) {
    FaultPlan plan;
    plan[fault] = rule;
    set_fault_plan(a_->queue(), plan);
  }
  /// Send messages with patterns 1, 2, ... @p count.
  void send(uint64_t count) {
    for (uint64_t seed = 1; seed <= count; ++seed) ASSERT_TRUE(a_->send(kPath, pattern(64, seed)));
  }
  void turn_both(int times) {
    for (int i = 0; i < times; ++i) a_->turn(), b_->turn();
  }
  bool all_home() {
    return wait_for({&*a_, &*b_}, [this] { return a_->outstanding() == 0; });
  }
  std::vector<Bytes> patterns(std::initializer_list<uint64_t> seeds) {
    std::vector<Bytes> out;
    for (const uint64_t seed : seeds) out.push_back(pattern(64, seed));
    return out;
  }
  uint64_t count(Fault fault) { return fault_counts(a_->queue())[fault]; }

  std::unique_ptr<Driver> driver_;
  std::unique_ptr<Device> device_;
  std::optional<Side> a_, b_;
};

TEST_F(Faults, DropCompletesAndIsNotDelivered) {
  plan(Fault::kDrop, {.at_op = 2});
  send(3);
  EXPECT_TRUE(all_home());
  turn_both(10);
  EXPECT_EQ(b_->inbox(), patterns({1, 3}));
  EXPECT_EQ(a_->ended(Code::kOk), 3u);
  EXPECT_EQ(count(Fault::kDrop), 1u);
}

TEST_F(Faults, FailEndsWithAnErrorAndIsNotDelivered) {
  plan(Fault::kFail, {.at_op = 1});
  send(3);
  EXPECT_TRUE(all_home());
  turn_both(10);
  EXPECT_EQ(b_->inbox(), patterns({2, 3}));
  EXPECT_EQ(a_->ended(Code::kDeviceError), 1u);
}

TEST_F(Faults, SwallowedOpComesBackAtClose) {
  plan(Fault::kSwallow, {.at_op = 2});
  send(3);
  turn_both(100);
  EXPECT_EQ(a_->outstanding(), 1u);
  EXPECT_EQ(b_->inbox(), patterns({1, 3}));
  EXPECT_EQ(a_->queue().close(kPath), Code::kOk);
  EXPECT_TRUE(all_home());
  EXPECT_EQ(a_->ended(Code::kCancelled), 1u);
}

TEST_F(Faults, ShutdownGivesBackWhatIsKept) {
  FaultPlan plan;
  plan[Fault::kSwallow] = {.at_op = 1};
  plan[Fault::kDelay] = {.at_op = 2, .polls = 1'000'000};
  plan[Fault::kReorder] = {.at_op = 3, .polls = 1'000'000};
  plan[Fault::kLate] = {.at_op = 4, .polls = 1'000'000};
  set_fault_plan(a_->queue(), plan);
  send(5);
  turn_both(50);
  EXPECT_EQ(a_->outstanding(), 5u);
  a_->shutdown();
  EXPECT_TRUE(wait_for({&*a_}, [&] { return a_->outstanding() == 0 && a_->posted_receives() == 0; }));
  EXPECT_EQ(a_->completed(), 5u);
}

TEST_F(Faults, RefuseEndsTheBurstBeforeTheOp) {
  plan(Fault::kRefuse, {.at_op = 5});
  EXPECT_EQ(a_->send_burst(kPath, 8, 64, 1), 4u);
  EXPECT_EQ(a_->send_burst(kPath, 8, 64, 5), 8u) << "the same op is taken when it is offered again";
  plan(Fault::kRefuse, {.per_million = 1'000'000});
  EXPECT_EQ(a_->send_burst(kPath, 8, 64, 1), 0u);
  EXPECT_EQ(count(Fault::kRefuse), 2u);
  EXPECT_TRUE(all_home());
  EXPECT_EQ(a_->completed(), 12u);
}

TEST_F(Faults, DelayKeepsTheOrder) {
  plan(Fault::kDelay, {.at_op = 2, .polls = 20});
  send(4);
  turn_both(10);
  EXPECT_EQ(b_->inbox(), patterns({1}));
  turn_both(20);
  EXPECT_EQ(b_->inbox(), patterns({1, 2, 3, 4}));
  EXPECT_TRUE(all_home());
}

TEST_F(Faults, ReorderLetsOthersPass) {
  plan(Fault::kReorder, {.at_op = 2, .polls = 20});
  send(4);
  turn_both(40);
  EXPECT_EQ(b_->inbox(), patterns({1, 3, 4, 2}));
  EXPECT_TRUE(all_home());
}

TEST_F(Faults, LateWithholdsTheCompletionOnly) {
  plan(Fault::kLate, {.at_op = 1, .polls = 20});
  send(2);
  turn_both(10);
  EXPECT_EQ(b_->inbox(), patterns({1, 2}));
  EXPECT_EQ(a_->outstanding(), 1u);
  turn_both(20);
  EXPECT_EQ(a_->outstanding(), 0u);
}

// All at once, at random: the books close, and what arrives was sent.
TEST_F(Faults, EveryOpHasOneCompletionUnderAnyPlan) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    FaultPlan plan{.seed = seed};
    for (FaultRule& rule : plan.rules) rule = {.per_million = 50'000, .polls = 7};
    set_fault_plan(a_->queue(), plan);
    const size_t before = a_->accepted();
    for (int i = 0; i < 200; ++i) {
      a_->send_burst(kPath, kMaxBurst, 64, a_->accepted());
      turn_both(1);
    }
    EXPECT_GT(a_->accepted(), before);
    ASSERT_EQ(a_->queue().close(kPath), Code::kOk);
    ASSERT_EQ(b_->queue().close(kPath), Code::kOk);
    ASSERT_TRUE(all_home()) << "seed " << seed << ": " << a_->outstanding() << " never came back";
    a_->connect(kPath, b_->address());
    b_->connect(kPath, a_->address());
  }
  EXPECT_EQ(a_->completed(), a_->accepted());
  for (size_t i = 0; i < kFaultCount; ++i) EXPECT_GT(count(static_cast<Fault>(i)), 0u) << "fault " << i;
}

TEST_F(Faults, SameSeedSameFaults) {
  std::vector<uint64_t> first;
  for (int round = 0; round < 2; ++round) {
    std::vector<uint64_t> drops;
    FaultPlan plan{.seed = 42};
    plan[Fault::kDrop] = {.per_million = 200'000};
    set_fault_plan(a_->queue(), plan);
    for (uint64_t i = 0; i < 200; ++i) {
      const uint64_t before = count(Fault::kDrop);
      send(1);
      if (count(Fault::kDrop) != before) drops.push_back(i);
      turn_both(2);
    }
    if (round == 0) first = drops;
    EXPECT_EQ(drops, first);
    EXPECT_GT(drops.size(), 10u);
  }
}

}  // namespace
}  // namespace sluice::contract
