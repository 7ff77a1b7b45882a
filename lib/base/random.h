/// @file random.h
/// Random numbers from the kernel, for session ids, incarnations and nonces.
///
/// Model    One call. Simulators pass their own numbers in instead.
/// Threads  Any.
/// Memory   No heap.
/// Errors   getrandom(2) does not fail for 8 bytes once the kernel has booted.
#pragma once

#include <cstdint>

namespace sluice {

/// A random number that is never 0.
uint64_t random_u64() noexcept;

}  // namespace sluice
