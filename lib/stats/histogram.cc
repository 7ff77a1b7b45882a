#include "stats/histogram.h"

#include <cmath>

namespace sluice {

uint64_t Histogram::count() const noexcept {
  uint64_t total = 0;
  for (const uint64_t& bucket : buckets_) total += load(bucket);
  return total;
}

// The largest value of a bucket.
uint64_t Histogram::top_of(uint32_t bucket) noexcept {
  const uint32_t shift = bucket < (2u << kSubBits) ? 0 : (bucket >> kSubBits) - 1;
  const uint64_t lead = bucket - (shift << kSubBits);
  return ((lead + 1) << shift) - 1;
}

uint64_t Histogram::percentile(double fraction) const noexcept {
  const uint64_t total = count();
  if (total == 0) return 0;
  const double share = std::ceil(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(total));
  const uint64_t rank = std::max<uint64_t>(1, static_cast<uint64_t>(share));
  uint64_t seen = 0;
  for (uint32_t i = 0; i + 1 < kBuckets; ++i) {
    seen += load(buckets_[i]);
    if (seen >= rank) return std::min(top_of(i), max());
  }
  return max();
}

void Histogram::merge(const Histogram& other) noexcept {
  for (uint32_t i = 0; i < kBuckets; ++i) bump(buckets_[i], load(other.buckets_[i]));
  bump(sum_, other.sum());
  __atomic_store_n(&max_, std::max(max_, other.max()), __ATOMIC_RELAXED);
}

}  // namespace sluice
