/// @file histogram.h
/// A histogram of times in nanoseconds: exact below 128, then 64 buckets for each power of two.
///
/// Model    A value is in its bucket by its highest seven bits, so a percentile is at most 1/64 above the truth and
///          never below it. Values beyond 2^40 ns (18 minutes) share the last bucket; max() stays exact.
/// Threads  One writer; any thread reads, merges from it or asks for percentiles while it is written.
/// Memory   18 KiB of plain data; no heap.
/// Errors   None. An empty histogram answers 0.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace sluice {

class Histogram {
 public:
  void record(uint64_t ns) noexcept {
    bump(buckets_[bucket_of(ns)], 1);
    bump(sum_, ns);
    if (ns > max_) __atomic_store_n(&max_, ns, __ATOMIC_RELAXED);
  }

  uint64_t count() const noexcept;
  uint64_t max() const noexcept { return load(max_); }
  uint64_t sum() const noexcept { return load(sum_); }
  /// The least value that @p fraction (0 to 1) of the values do not exceed, at most 1/64 above it.
  uint64_t percentile(double fraction) const noexcept;
  /// Add what @p other holds. This one's writer calls it.
  void merge(const Histogram& other) noexcept;
  void reset() noexcept { *this = Histogram(); }

 private:
  static constexpr uint32_t kSubBits = 6;
  static constexpr uint32_t kMaxBits = 40;
  static constexpr uint32_t kBuckets = (kMaxBits - kSubBits + 1) << kSubBits;

  static uint32_t bucket_of(uint64_t ns) noexcept {
    ns = std::min<uint64_t>(ns, (1ull << kMaxBits) - 1);
    const auto width = static_cast<uint32_t>(std::bit_width(ns));
    const uint32_t shift = width > kSubBits + 1 ? width - kSubBits - 1 : 0;
    return (shift << kSubBits) + static_cast<uint32_t>(ns >> shift);
  }
  static uint64_t top_of(uint32_t bucket) noexcept;
  static uint64_t load(const uint64_t& from) noexcept { return __atomic_load_n(&from, __ATOMIC_RELAXED); }
  static void bump(uint64_t& value, uint64_t n) noexcept { __atomic_store_n(&value, value + n, __ATOMIC_RELAXED); }

  std::array<uint64_t, kBuckets> buckets_{};
  uint64_t max_ = 0;
  uint64_t sum_ = 0;
};

}  // namespace sluice
