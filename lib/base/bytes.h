/// @file bytes.h
/// Little-endian loads and stores on bytes of any alignment, for everything that has a wire layout.
///
/// Model    Free functions over raw pointers; the caller has checked the range.
/// Threads  Pure.
/// Memory   No heap.
/// Errors   None; @pre the bytes are there.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sluice {

static_assert(std::endian::native == std::endian::little, "wire layouts are little-endian; so are all targets");

template <std::unsigned_integral T>
inline T load_le(const void* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <std::unsigned_integral T>
inline void store_le(void* to, T value) noexcept {
  std::memcpy(to, &value, sizeof value);
}

/// @return whether [offset, offset + length) lies inside [0, size), without overflow.
constexpr bool range_ok(uint64_t offset, uint64_t length, uint64_t size) noexcept {
  return length <= size && offset <= size - length;
}

constexpr uint64_t round_up(uint64_t value, uint64_t multiple) noexcept {
  return (value + multiple - 1) / multiple * multiple;
}

inline constexpr size_t kCacheLine = 64;

}  // namespace sluice
