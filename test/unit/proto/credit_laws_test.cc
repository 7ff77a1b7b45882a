// Sender and receiver together: random interleavings against a reference, every law asserted after each step.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

#include "proto/credit.h"

namespace sluice {
namespace {

CreditGrant grant_of(const Charge& totals) {
  CreditGrant grant{kMaxGrantEntries, {}};
  for (size_t i = 0; i < kResources; ++i) grant.entries[i] = {static_cast<Resource>(i + 1), totals.v[i]};
  return grant;
}

// The reference: one resource at a time, in plain words.
struct Reference {
  uint64_t granted = 0, seen = 0, posted = 0, reserved = 0, accepted = 0, released = 0, committed = 0;
};

// A sender, a receiver, frames and messages under way, over two epochs and more.
class Pair {
 public:
  explicit Pair(uint64_t seed) : rng_(seed) {
    for (uint64_t& v : committed_.v) v = 20 + rng_() % 40;
    open();
  }

  void step() {
    switch (rng_() % 9) {
      case 0: return raise();
      case 1: return send_grant();
      case 2:
      case 3: return deliver_grant();
      case 4: return reserve();
      case 5: return rng_() % 4 != 0 ? post() : unreserve();
      case 6: return arrive();
      case 7: return release();
      default: return rng_() % 40 == 0 ? next_epoch() : stale_frame();
    }
  }

  void check_laws() const {
    for (size_t i = 0; i < kResources; ++i) {
      const Reference& r = model_[i];
      const uint64_t granted = granter_.granted().v[i], seen = ledger_.granted().v[i];
      const uint64_t posted = ledger_.posted_total().v[i], reserved = ledger_.reserved().v[i];
      const uint64_t accepted = granter_.accepted().v[i], released = granter_.released().v[i];
      ASSERT_EQ(granted, r.granted);
      ASSERT_EQ(seen, r.seen);
      ASSERT_EQ(posted, r.posted);
      ASSERT_EQ(reserved, r.reserved);
      ASSERT_EQ(accepted, r.accepted);
      ASSERT_EQ(released, r.released);
      ASSERT_EQ(ledger_.available(static_cast<Resource>(i + 1)), seen - posted - reserved);
      ASSERT_LE(posted + reserved, seen);
      ASSERT_LE(seen, granted);
      ASSERT_LE(granted, released + r.committed);
      ASSERT_LE(released, accepted);
      ASSERT_LE(accepted, posted);
    }
  }

  uint64_t posts() const { return posts_; }

 private:
  struct Numbered {
    Epoch epoch;
    uint64_t seq;
    CreditGrant grant;
  };

  void open() {
    epoch_ = static_cast<Epoch>(raw(epoch_) + 1);
    ledger_.open(epoch_, committed_);
    granter_.open(epoch_, committed_);
    for (size_t i = 0; i < kResources; ++i) model_[i] = Reference{.committed = committed_.v[i]};
  }

  Charge any(uint64_t below) {
    Charge charge;
    for (uint64_t& v : charge.v) v = rng_() % below;
    return charge;
  }

  void raise() {
    const Charge window = any(80);
    bool rose = false;
    for (size_t i = 0; i < kResources; ++i) {
      Reference& r = model_[i];
      const uint64_t total = r.released + std::min(window.v[i], r.committed);
      rose |= total > r.granted;
      r.granted = std::max(r.granted, total);
    }
    ASSERT_EQ(granter_.raise_to(window), rose);
  }

  void send_grant() { frames_.push_back({epoch_, ++seq_, granter_.totals()}); }

  // Any frame, in any order; half of them stay to be repeated.
  void deliver_grant() {
    if (frames_.empty()) return;
    const size_t at = rng_() % frames_.size();
    const Numbered frame = frames_[at];
    if (rng_() % 2 == 0) frames_.erase(frames_.begin() + static_cast<std::ptrdiff_t>(at));
    const bool stale = frame.epoch != epoch_;
    ASSERT_EQ(ledger_.apply_grant(frame.epoch, frame.seq, frame.grant), stale ? Code::kStale : Code::kOk);
    if (stale) return;
    for (size_t i = 0; i < kResources; ++i) model_[i].seen = std::max(model_[i].seen, frame.grant.entries[i].total);
  }

  void reserve() {
    const Charge charge = any(8);
    bool fits = true;
    for (size_t i = 0; i < kResources; ++i)
      fits &= model_[i].posted + model_[i].reserved + charge.v[i] <= model_[i].seen;
    ASSERT_EQ(ledger_.reserve(charge), fits);
    if (!fits) return;
    for (size_t i = 0; i < kResources; ++i) model_[i].reserved += charge.v[i];
    waiting_.push_back(charge);
  }

  void post() {
    if (waiting_.empty()) return;
    const Charge charge = waiting_.front();
    waiting_.pop_front();
    ledger_.posted(charge);
    for (size_t i = 0; i < kResources; ++i) model_[i].reserved -= charge.v[i], model_[i].posted += charge.v[i];
    wire_.push_back(charge);
    ++posts_;
  }

  void unreserve() {
    if (waiting_.empty()) return;
    ledger_.unreserve(waiting_.back());
    for (size_t i = 0; i < kResources; ++i) model_[i].reserved -= waiting_.back().v[i];
    waiting_.pop_back();
  }

  void arrive() {
    if (wire_.empty()) return;
    const Charge charge = wire_.front();
    wire_.pop_front();
    ASSERT_EQ(granter_.accept(charge), Code::kOk) << "what was granted is never an overdraft";
    for (size_t i = 0; i < kResources; ++i) model_[i].accepted += charge.v[i];
    copying_.push_back(charge);
  }

  void release() {
    if (copying_.empty()) return;
    ASSERT_EQ(granter_.release(copying_.front()), Code::kOk);
    for (size_t i = 0; i < kResources; ++i) model_[i].released += copying_.front().v[i];
    copying_.pop_front();
  }

  // Drained at both ends; frames of the old epoch may still be under way.
  void next_epoch() {
    while (!waiting_.empty()) post();
    while (!wire_.empty()) arrive();
    while (!copying_.empty()) release();
    for (size_t i = 0; i < kResources; ++i) ASSERT_EQ(granter_.accepted().v[i], ledger_.posted_total().v[i]);
    open();
  }

  void stale_frame() {
    const Epoch other = static_cast<Epoch>(raw(epoch_) + (rng_() % 2 == 0 ? 1 : -1));
    ASSERT_EQ(ledger_.apply_grant(other, rng_(), grant_of(any(1000))), Code::kStale);
  }

  std::mt19937_64 rng_;
  CreditLedger ledger_;
  CreditGranter granter_;
  std::array<Reference, kResources> model_;
  Charge committed_;
  Epoch epoch_{};
  uint64_t seq_ = 0, posts_ = 0;
  std::vector<Numbered> frames_;
  std::deque<Charge> waiting_, wire_, copying_;
};

TEST(Credit, RandomInterleavingsKeepTheLaws) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Pair pair(seed);
    for (int i = 0; i < 2000; ++i) {
      pair.step();
      pair.check_laws();
      if (HasFatalFailure()) FAIL() << "seed " << seed << " step " << i;
    }
    EXPECT_GT(pair.posts(), 20u) << "seed " << seed << " hardly ran";
  }
}

}  // namespace
}  // namespace sluice
