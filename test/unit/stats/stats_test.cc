#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "stats/counters.h"
#include "stats/histogram.h"

namespace sluice {
namespace {
enum class Seen : uint8_t { kSent, kDropped, kCount };

TEST(Counters, EachCountsForItself) {
  Counters<Seen> counters;
  static_assert(sizeof(counters) == 64 && alignof(Counters<Seen>) == 64);
  counters.add(Seen::kSent);
  counters.add(Seen::kSent, 41);
  EXPECT_EQ(counters.get(Seen::kSent), 42u);
  EXPECT_EQ(counters.get(Seen::kDropped), 0u);
}

TEST(Histogram, EmptyAnswersZero) {
  const auto empty = std::make_unique<Histogram>();
  EXPECT_EQ(empty->count(), 0u);
  EXPECT_EQ(empty->percentile(0.5), 0u);
  EXPECT_EQ(empty->max(), 0u);
}

TEST(Histogram, SmallValuesAreExact) {
  auto histogram = std::make_unique<Histogram>();
  for (uint64_t ns = 1; ns <= 100; ++ns) histogram->record(ns);
  EXPECT_EQ(histogram->percentile(0.5), 50u);
  EXPECT_EQ(histogram->percentile(0.99), 99u);
  EXPECT_EQ(histogram->percentile(0), 1u);
  EXPECT_EQ(histogram->percentile(1), 100u);
  EXPECT_EQ(histogram->sum(), 5050u);
}

// A value alone is also the maximum, so a larger one beside it shows the top of its bucket.
TEST(Histogram, EveryValueIsWithinOne64th) {
  for (uint64_t ns = 1; ns < 1ull << 39; ns += 1 + ns / 37) {
    for (uint64_t value : {ns, std::bit_floor(ns), std::bit_floor(ns) * 2 - 1}) {
      auto histogram = std::make_unique<Histogram>();
      histogram->record(value);
      histogram->record(UINT64_MAX);
      const uint64_t told = histogram->percentile(0.5);
      ASSERT_GE(told, value);
      ASSERT_LE(told - value, value / 64) << value;
    }
  }
}

TEST(Histogram, ExtremesKeepTheirMaximum) {
  auto histogram = std::make_unique<Histogram>();
  histogram->record(0);
  histogram->record(UINT64_MAX);
  EXPECT_EQ(histogram->count(), 2u);
  EXPECT_EQ(histogram->percentile(0.5), 0u);
  EXPECT_EQ(histogram->percentile(1), UINT64_MAX);
}

TEST(Histogram, PercentilesFollowASortedReference) {
  std::mt19937_64 rng(7);
  std::lognormal_distribution<double> draw(9, 2);
  auto histogram = std::make_unique<Histogram>();
  auto half = std::make_unique<Histogram>();
  std::vector<uint64_t> values;
  for (int i = 0; i < 20000; ++i) {
    values.push_back(static_cast<uint64_t>(draw(rng)));
    (i % 2 == 0 ? histogram : half)->record(values.back());
  }
  histogram->merge(*half);
  std::ranges::sort(values);
  EXPECT_EQ(histogram->count(), values.size());
  EXPECT_EQ(histogram->max(), values.back());
  for (double fraction : {0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto rank = static_cast<size_t>(std::ceil(fraction * static_cast<double>(values.size())));
    const uint64_t truth = values[rank - 1];
    EXPECT_GE(histogram->percentile(fraction), truth);
    EXPECT_LE(histogram->percentile(fraction), truth + truth / 64);
  }
  histogram->reset();
  EXPECT_EQ(histogram->count(), 0u);
}

}  // namespace
}  // namespace sluice
