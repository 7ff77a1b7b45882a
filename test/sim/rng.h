// Seeded numbers; the same on every machine.
#pragma once

#include <cstdint>

namespace sluice::sim {

inline uint64_t mix(uint64_t z) noexcept {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

class Rng {
 public:
  Rng(uint64_t seed, uint64_t stream) noexcept : state_(mix(seed * 0x9e3779b97f4a7c15ull + stream)) {}
  uint64_t next() noexcept { return mix(state_ += 0x9e3779b97f4a7c15ull); }
  /// In [0, n). @pre n != 0.
  uint64_t below(uint64_t n) noexcept { return next() % n; }
  /// In [low, high].
  uint64_t range(uint64_t low, uint64_t high) noexcept { return low + below(high - low + 1); }
  uint32_t small(uint32_t low, uint32_t high) noexcept { return static_cast<uint32_t>(range(low, high)); }
  /// True @p in_million times in a million.
  bool chance(uint64_t in_million) noexcept { return in_million != 0 && below(1'000'000) < in_million; }
  /// Spread over the orders of magnitude between low and high.
  uint64_t wide(uint64_t low, uint64_t high) noexcept {
    uint64_t top = low;
    while (top < high && below(3) != 0) top *= 2;
    return range(low, top < high ? top : high);
  }

 private:
  uint64_t state_;
};

}  // namespace sluice::sim
