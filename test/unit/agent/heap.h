// How often this program has touched the heap: new and delete are replaced, and malloc and its kin are wrapped at the
// link, so that the static libraries of DPDK count too.
#pragma once
#include <cstdint>

namespace sluice::test {
uint64_t heap_calls() noexcept;
}  // namespace sluice::test
