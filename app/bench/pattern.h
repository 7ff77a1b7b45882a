/// @file pattern.h
/// What the bench moves: a stream of 64-bit words that any position can be computed of, so that both ends check bytes.
///
/// Model    Word i of a stream is (seed + i) * kStep. A range that is sent in round r is cut out of the stream
///          shift_of(r) bytes further on, so that each byte depends on its address, its task and its round, although
///          the source is filled only once.
/// Threads  Pure.
/// Memory   No heap.
/// Errors   None.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sluice::bench {

inline constexpr uint64_t kStep = 0x9e3779b97f4a7c15;
inline constexpr uint64_t kShiftPad = 4096;  ///< How much longer a source is than what one round sends of it.
inline constexpr uint64_t kNoBadByte = UINT64_MAX;

/// How far round @p round (from 1) is shifted: a multiple of a cache line, below kShiftPad.
constexpr uint64_t shift_of(uint64_t round) noexcept { return 64 * (1 + round % 63); }

/// The seed of a stream of its own for each generator and direction.
constexpr uint64_t seed_of(uint64_t seed, uint64_t generator, bool read) noexcept {
  const uint64_t x = (seed + 2 * generator + (read ? 1 : 0)) * 0xd1342543de82ef95;
  return x ^ x >> 29;
}

inline uint8_t pattern_byte(uint64_t seed, uint64_t position) noexcept {
  return static_cast<uint8_t>((seed + position / 8) * kStep >> position % 8 * 8);
}

/// Fill @p bytes with the stream from its beginning.
inline void fill_pattern(std::byte* at, uint64_t bytes, uint64_t seed) noexcept {
  uint64_t word = seed * kStep;
  const uint64_t whole = bytes / 8;
  for (uint64_t i = 0; i < whole; ++i, word += kStep) std::memcpy(at + i * 8, &word, 8);
  std::memcpy(at + whole * 8, &word, bytes % 8);
}

/// Compare @p bytes with the stream from @p position on. @return the offset of the first that differs, or kNoBadByte.
inline uint64_t check_pattern(const std::byte* at, uint64_t bytes, uint64_t seed, uint64_t position) noexcept {
  const auto slowly = [&](uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; ++i)
      if (static_cast<uint8_t>(at[i]) != pattern_byte(seed, position + i)) return i;
    return kNoBadByte;
  };
  const uint64_t head = std::min(bytes, (8 - position % 8) % 8);
  if (const uint64_t bad = slowly(0, head); bad != kNoBadByte) return bad;
  constexpr uint64_t kStride = 4096;  // differences are gathered, and looked at once for each stride
  uint64_t i = head;
  while (bytes - i >= 8) {
    const uint64_t end = i + std::min(kStride, (bytes - i) / 8 * 8);
    uint64_t word = (seed + (position + i) / 8) * kStep;
    uint64_t differs = 0;
    for (uint64_t j = i; j < end; j += 8, word += kStep) {
      uint64_t got;
      std::memcpy(&got, at + j, 8);
      differs |= got ^ word;
    }
    if (differs != 0) return slowly(i, end);
    i = end;
  }
  return slowly(i, bytes);
}

}  // namespace sluice::bench
