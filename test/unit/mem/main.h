#pragma once
#include <cstdint>

/// Calls of new and delete in this process so far.
uint64_t heap_calls() noexcept;
