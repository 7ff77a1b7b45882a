/// @file counters.h
/// A block of counters, one for each enumerator of an agent's own enum.
///
/// Model    The enum's last enumerator is kCount. An agent owns one block and only adds.
/// Threads  One writer, its owner's lcore; any thread reads. No locked instruction: an add is a load, an add, a store.
/// Memory   Plain data on cache lines of its own; no heap.
/// Errors   None. A reader sees each counter whole, and different counters at slightly different times.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace sluice {

template <typename Id>
class alignas(kCacheLine) Counters {
 public:
  static constexpr size_t kSize = static_cast<size_t>(Id::kCount);

  void add(Id id, uint64_t n = 1) noexcept {
    uint64_t& value = values_[static_cast<size_t>(id)];
    __atomic_store_n(&value, value + n, __ATOMIC_RELAXED);
  }
  uint64_t get(Id id) const noexcept { return __atomic_load_n(&values_[static_cast<size_t>(id)], __ATOMIC_RELAXED); }

 private:
  std::array<uint64_t, kSize> values_{};
};

}  // namespace sluice
