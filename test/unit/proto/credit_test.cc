#include "proto/credit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

namespace sluice {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
static_assert(sizeof(Charge) == 32);
static_assert(sizeof(CreditLedger) == 4 * 32 + 16);
static_assert(sizeof(CreditGranter) == 4 * 32 + 8);
static_assert(message_charge(100, true, 4096) == Charge{{100, 1, 4096, 1}});
static_assert(message_charge(100, false, 4096) == Charge{{100, 0, 4096, 1}});
static_assert(window_charge(8, 3, 4096, 64) == Charge{{8 * 4032, 3, 8 * 4096, 8}});

constexpr Charge kTen{{10, 10, 10, 10}};
constexpr Charge kOne{{1, 1, 1, 1}};

CreditGrant grant_of(const Charge& totals) {
  CreditGrant grant{kMaxGrantEntries, {}};
  for (size_t i = 0; i < kResources; ++i) grant.entries[i] = {static_cast<Resource>(i + 1), totals.v[i]};
  return grant;
}
CreditGrant grant_all(uint64_t total) { return grant_of(Charge{{total, total, total, total}}); }

bool same(const CreditLedger& a, const CreditLedger& b) {
  return a.epoch() == b.epoch() && a.granted() == b.granted() && a.posted_total() == b.posted_total() &&
         a.reserved() == b.reserved() && a.committed() == b.committed();
}

TEST(CreditLedger, ReserveIsAllOrNothing) {
  for (size_t missing = 0; missing < kResources; ++missing) {
    CreditLedger ledger;
    ledger.open(Epoch{1}, kTen);
    ASSERT_EQ(ledger.apply_grant(Epoch{1}, 1, grant_all(5)), Code::kOk);
    Charge charge{{5, 5, 5, 5}};
    charge.v[missing] = 6;
    const CreditLedger before = ledger;
    EXPECT_FALSE(ledger.reserve(charge));
    EXPECT_TRUE(same(ledger, before)) << "a waiting task holds nothing";
    charge.v[missing] = 5;
    EXPECT_TRUE(ledger.reserve(charge));
    EXPECT_FALSE(ledger.reserve(kOne));
    EXPECT_TRUE(ledger.reserve(Charge{})) << "nothing is always there";
  }
}

TEST(CreditLedger, NothingIsThereBeforeAGrant) {
  CreditLedger ledger;
  EXPECT_FALSE(ledger.reserve(kOne));
  ledger.open(Epoch{1}, kTen);
  EXPECT_FALSE(ledger.reserve(kOne));
  EXPECT_EQ(ledger.available(Resource::kBounceSlots), 0u);
}

TEST(CreditLedger, GrantBeyondTheCeilingFences) {
  CreditLedger ledger;
  ledger.open(Epoch{1}, kTen);
  EXPECT_EQ(ledger.apply_grant(Epoch{1}, 1, grant_all(11)), Code::kBadFrame);
  EXPECT_EQ(ledger.apply_grant(Epoch{1}, 1, grant_all(kMax)), Code::kBadFrame);
  EXPECT_EQ(ledger.granted(), Charge{});
  ASSERT_EQ(ledger.apply_grant(Epoch{1}, 1, grant_all(10)), Code::kOk);
  ASSERT_TRUE(ledger.reserve(Charge{{3, 3, 3, 3}}));
  EXPECT_EQ(ledger.apply_grant(Epoch{1}, 2, grant_all(11)), Code::kBadFrame) << "reserved is not posted";
  ledger.posted(Charge{{3, 3, 3, 3}});
  EXPECT_EQ(ledger.apply_grant(Epoch{1}, 2, grant_all(14)), Code::kBadFrame);
  EXPECT_EQ(ledger.apply_grant(Epoch{1}, 2, grant_all(13)), Code::kOk);
  EXPECT_EQ(ledger.available(Resource::kDataBytes), 10u);
}

// P + C is never formed, so it cannot wrap to something small.
TEST(CreditLedger, TotalsAtTheTopDoNotWrap) {
  constexpr Charge kAll{{kMax, kMax, kMax, kMax}};
  CreditLedger ledger;
  ledger.open(Epoch{1}, kAll);
  ASSERT_EQ(ledger.apply_grant(Epoch{1}, 1, grant_all(kMax)), Code::kOk);
  ASSERT_TRUE(ledger.reserve(Charge{{kMax - 1, kMax - 1, kMax - 1, kMax - 1}}));
  ledger.posted(Charge{{kMax - 1, kMax - 1, kMax - 1, kMax - 1}});
  EXPECT_EQ(ledger.apply_grant(Epoch{1}, 2, grant_all(kMax)), Code::kOk) << "P + C would be far beyond 2^64";
  EXPECT_EQ(ledger.apply_grant(Epoch{1}, 3, grant_all(0)), Code::kBadFrame);
  EXPECT_EQ(ledger.available(Resource::kDataBytes), 1u);
  EXPECT_FALSE(ledger.reserve(Charge{{2, 0, 0, 0}}));
  EXPECT_FALSE(ledger.reserve(kAll));
  EXPECT_TRUE(ledger.reserve(kOne));
  EXPECT_FALSE(ledger.reserve(kOne));
}

TEST(CreditLedger, LessInANewerGrantFencesInAnOlderOneIsLate) {
  CreditLedger ledger;
  ledger.open(Epoch{1}, kTen);
  ASSERT_EQ(ledger.apply_grant(Epoch{1}, 5, grant_all(4)), Code::kOk);
  const CreditLedger before = ledger;
  EXPECT_EQ(ledger.apply_grant(Epoch{1}, 4, grant_all(2)), Code::kOk);
  EXPECT_EQ(ledger.apply_grant(Epoch{1}, 5, grant_all(4)), Code::kOk);
  EXPECT_EQ(ledger.apply_grant(Epoch{1}, 6, grant_all(3)), Code::kBadFrame);
  EXPECT_TRUE(same(ledger, before));
  CreditGrant mixed = grant_all(9);
  mixed.entries[3].total = 3;
  EXPECT_EQ(ledger.apply_grant(Epoch{1}, 6, mixed), Code::kBadFrame) << "one bad entry refuses all";
  EXPECT_TRUE(same(ledger, before));
  EXPECT_EQ(ledger.apply_grant(Epoch{1}, 6, grant_all(4)), Code::kOk) << "the refused frame took no seq";
}

TEST(CreditLedger, AResourceThatIsNotNamedKeepsItsTotal) {
  CreditLedger ledger;
  ledger.open(Epoch{1}, kTen);
  ASSERT_EQ(ledger.apply_grant(Epoch{1}, 1, grant_all(4)), Code::kOk);
  const CreditGrant one{1, {{{Resource::kRequestSlots, 6}}}};
  ASSERT_EQ(ledger.apply_grant(Epoch{1}, 2, one), Code::kOk);
  EXPECT_EQ(ledger.granted(), (Charge{{4, 6, 4, 4}}));
  EXPECT_EQ(ledger.apply_grant(Epoch{1}, 3, CreditGrant{0, {}}), Code::kOk);
  EXPECT_EQ(ledger.granted(), (Charge{{4, 6, 4, 4}}));
}

// Credit is good for one epoch only, in both directions of the mistake.
TEST(CreditLedger, OtherEpochsChangeNothing) {
  CreditLedger ledger;
  ledger.open(Epoch{2}, kTen);
  ASSERT_EQ(ledger.apply_grant(Epoch{2}, 3, grant_all(4)), Code::kOk);
  const CreditLedger before = ledger;
  for (uint64_t epoch : {uint64_t{0}, uint64_t{1}, uint64_t{3}, kMax})
    for (uint64_t total : {uint64_t{0}, uint64_t{9}, kMax})
      EXPECT_EQ(ledger.apply_grant(static_cast<Epoch>(epoch), 9, grant_all(total)), Code::kStale);
  EXPECT_TRUE(same(ledger, before));
  ASSERT_TRUE(ledger.reserve(kOne));
  ledger.posted(kOne);
  ledger.open(Epoch{3}, kTen);
  EXPECT_EQ(ledger.available(Resource::kBounceSlots), 0u) << "a new epoch begins with nothing";
  EXPECT_EQ(ledger.posted_total(), Charge{});
  EXPECT_EQ(ledger.apply_grant(Epoch{2}, 99, grant_all(4)), Code::kStale);
  EXPECT_EQ(ledger.apply_grant(Epoch{3}, 1, grant_all(4)), Code::kOk) << "numbers of an old epoch are not in the way";
}

// A burst of ten messages; the device takes only the first k. The tail goes back, what is out stays out.
TEST(CreditLedger, PartialPostGivesBackOnlyTheTail) {
  for (uint64_t k = 0; k <= 10; ++k) {
    CreditLedger ledger;
    ledger.open(Epoch{1}, kTen);
    ASSERT_EQ(ledger.apply_grant(Epoch{1}, 1, grant_all(10)), Code::kOk);
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(ledger.reserve(kOne));
    for (uint64_t i = 0; i < 10; ++i) i < k ? ledger.posted(kOne) : ledger.unreserve(kOne);
    EXPECT_EQ(ledger.posted_total(), (Charge{{k, k, k, k}}));
    EXPECT_EQ(ledger.reserved(), Charge{});
    EXPECT_EQ(ledger.available(Resource::kBounceSlots), 10 - k);
  }
}

TEST(CreditLedger, PermutedAndRepeatedGrantsEndEqual) {
  std::mt19937_64 rng(11);
  for (int round = 0; round < 500; ++round) {
    struct Numbered {
      uint64_t seq;
      Charge totals;
    };
    std::vector<Numbered> frames;
    Charge totals;
    for (uint64_t seq = 1; seq <= 8; ++seq) {
      for (uint64_t& v : totals.v) v += rng() % 5;
      frames.push_back({seq, totals});
    }
    const Charge ceiling{{64, 64, 64, 64}};
    CreditLedger in_order, shuffled;
    in_order.open(Epoch{1}, ceiling), shuffled.open(Epoch{1}, ceiling);
    for (const Numbered& f : frames) ASSERT_EQ(in_order.apply_grant(Epoch{1}, f.seq, grant_of(f.totals)), Code::kOk);
    for (int i = 0; i < 6; ++i) frames.push_back(frames[rng() % 8]);
    std::shuffle(frames.begin(), frames.end(), rng);
    for (const Numbered& f : frames) ASSERT_EQ(shuffled.apply_grant(Epoch{1}, f.seq, grant_of(f.totals)), Code::kOk);
    ASSERT_TRUE(same(in_order, shuffled));
  }
}

TEST(CreditGranter, OverdraftIsRefusedAndChangesNothing) {
  CreditGranter granter;
  granter.open(Epoch{1}, kTen);
  EXPECT_EQ(granter.accept(kOne), Code::kBadFrame);
  ASSERT_TRUE(granter.raise_to(Charge{{4, 4, 4, 4}}));
  EXPECT_EQ(granter.accept(Charge{{4, 4, 5, 4}}), Code::kBadFrame);
  EXPECT_EQ(granter.accept(Charge{{kMax, 0, 0, 0}}), Code::kBadFrame);
  EXPECT_EQ(granter.accepted(), Charge{});
  EXPECT_EQ(granter.accept(Charge{{4, 4, 4, 4}}), Code::kOk);
  EXPECT_EQ(granter.accept(kOne), Code::kBadFrame);
  EXPECT_EQ(granter.release(Charge{{5, 0, 0, 0}}), Code::kInternal);
  EXPECT_EQ(granter.released(), Charge{});
  EXPECT_EQ(granter.release(Charge{{4, 4, 4, 4}}), Code::kOk);
  EXPECT_EQ(granter.release(kOne), Code::kInternal);
  EXPECT_EQ(granter.outstanding(Resource::kBounceSlots), 0u);
}

TEST(CreditGranter, ASmallerWindowRevokesNothing) {
  CreditGranter granter;
  granter.open(Epoch{1}, kTen);
  ASSERT_TRUE(granter.raise_to(kTen));
  EXPECT_FALSE(granter.raise_to(kOne));
  EXPECT_FALSE(granter.raise_to(Charge{}));
  EXPECT_EQ(granter.granted(), kTen);
  EXPECT_EQ(granter.unused(Resource::kBounceSlots), 10u) << "it does not go below zero";
  for (int i = 0; i < 9; ++i) {
    ASSERT_EQ(granter.accept(kOne), Code::kOk);
    ASSERT_EQ(granter.release(kOne), Code::kOk);
    EXPECT_FALSE(granter.raise_to(kOne)) << "still more out than the new window";
  }
  ASSERT_EQ(granter.accept(kOne), Code::kOk);
  ASSERT_EQ(granter.release(kOne), Code::kOk);
  EXPECT_TRUE(granter.raise_to(kOne));
  EXPECT_EQ(granter.granted(), (Charge{{11, 11, 11, 11}}));
}

TEST(CreditGranter, NeverBeyondCommittedAndNeverWraps) {
  CreditGranter granter;
  granter.open(Epoch{1}, kTen);
  EXPECT_TRUE(granter.raise_to(Charge{{kMax, kMax, kMax, kMax}}));
  EXPECT_EQ(granter.granted(), kTen);
  granter.open(Epoch{2}, Charge{{kMax, kMax, kMax, kMax}});
  EXPECT_TRUE(granter.raise_to(Charge{{kMax, kMax, kMax, kMax}}));
  const Charge nearly{{kMax - 2, kMax - 2, kMax - 2, kMax - 2}};
  ASSERT_EQ(granter.accept(nearly), Code::kOk);
  ASSERT_EQ(granter.release(nearly), Code::kOk);
  EXPECT_FALSE(granter.raise_to(kTen)) << "no total above 2^64 - 1";
  EXPECT_EQ(granter.granted().v[0], kMax);
  const CreditGrant totals = granter.totals();
  EXPECT_EQ(totals.count, 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(static_cast<size_t>(totals.entries[i].resource), i + 1);
    EXPECT_EQ(totals.entries[i].total, kMax);
  }
}

}  // namespace
}  // namespace sluice
