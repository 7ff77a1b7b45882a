// The heap of this program: the n-th allocation of a thread that asks fails, and what that thread leaves is counted.
#pragma once

#include <cstdint>

namespace sluice::test {

/// From now on this thread's allocations are counted; number @p n (from 1) fails, once. 0: none fails.
void arm(uint64_t n) noexcept;
struct Tally {
  uint64_t allocations;  ///< Since arm(), the failed one too.
  int64_t left;          ///< Allocated less freed.
  bool failed;
};
Tally disarm() noexcept;

}  // namespace sluice::test
