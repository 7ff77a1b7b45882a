// Two nodes linked by fake queues; the laws of credit are checked after each turn of both.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>

#include "half_node.h"

namespace sluice::test {

class PairRig : public ::testing::Test {
 protected:
  static constexpr SessionId kSession{0xabcdef};

  void start(const NodeParams& a = {}, const NodeParams& b = {}) {
    fake_now = 1000;
    a_ = std::make_unique<HalfNode>(a);
    b_ = std::make_unique<HalfNode>(b);
    connect(*a_, 0, *b_, 0, kSession);
  }
  static void connect(HalfNode& a, uint16_t at_a, HalfNode& b, uint16_t at_b, SessionId id, uint16_t generation = 1) {
    a.ctrl.record = a.data.record = b.ctrl.record = b.data.record = false;
    a.ctrl.link(PathId{at_a}, &b.ctrl);
    a.data.link(PathId{at_a}, &b.data);
    b.ctrl.link(PathId{at_b}, &a.ctrl);
    b.data.link(PathId{at_b}, &a.data);
    a.add_peer(at_a, at_b, id, generation);
    b.add_peer(at_b, at_a, id, generation);
  }
  void turn(uint64_t ticks = 1) {
    fake_now += ticks;
    a_->turn();
    b_->turn();
    a_->collect();
    b_->collect();
    laws(*a_, *b_);
    laws(*b_, *a_);
  }
  // Law 1 between a sender and a receiver in the same epoch: P + R <= g <= G <= F + C, and F <= X <= P.
  void laws(const HalfNode& from, const HalfNode& to) const {
    if (from.lane[0] == nullptr || to.peers[0] == nullptr) return;
    const CreditLedger& l = from.lane[0]->ledger;
    const CreditGranter& g = to.session().granter;
    if (l.epoch() != g.epoch() || to.session().closed) return;
    for (size_t i = 0; i < kResources; ++i) {
      ASSERT_LE(l.posted_total().v[i] + l.reserved().v[i], l.granted().v[i]) << i;
      ASSERT_LE(l.granted().v[i], g.granted().v[i]) << i;
      ASSERT_LE(g.granted().v[i], g.released().v[i] + g.committed().v[i]) << i;
      ASSERT_LE(g.released().v[i], g.accepted().v[i]) << i;
      ASSERT_LE(g.accepted().v[i], l.posted_total().v[i]) << i;
    }
  }
  bool turn_until(const std::function<bool()>& reached, int turns = 200'000, uint64_t ticks = 1) {
    for (; turns > 0; --turns) {
      if (reached()) return true;
      turn(ticks);
      if (HasFatalFailure()) return false;
    }
    return reached();
  }
  bool both_ready() {
    return turn_until([&] { return a_->ready == 1 && b_->ready == 1; });
  }
  // @p rounds writes and reads of @p bytes each way, all placed.
  void traffic(int rounds, uint64_t bytes) {
    for (int i = 0; i < rounds; ++i) {
      const uint64_t da = a_->done, db = b_->done;
      for (uint64_t k = 0; k < bytes; ++k) a_->local[k] = std::byte(k * 3 + static_cast<uint64_t>(i));
      ASSERT_TRUE(a_->submit(SubmitOp::kWrite, 1, 0, bytes));
      ASSERT_TRUE(b_->submit(SubmitOp::kRead, 1, bytes, bytes));
      ASSERT_TRUE(turn_until([&] { return a_->done == da + 1 && b_->done == db + 1; })) << i;
      ASSERT_EQ(std::memcmp(a_->local.data(), b_->memory.data(), bytes), 0);
      ASSERT_EQ(std::memcmp(b_->local.data() + bytes, a_->memory.data() + bytes, bytes), 0);
    }
  }

  std::unique_ptr<HalfNode> a_, b_;
};

}  // namespace sluice::test
