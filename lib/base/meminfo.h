/// @file meminfo.h
/// How much memory the machine has left, for checks before a start and for texts of errors.
///
/// Model    One reading of /proc/meminfo. Both env (start of EAL) and mem (regions) need it.
/// Threads  Any; slow.
/// Memory   No heap.
/// Errors   What cannot be read stays 0.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

struct MemInfo {
  uint64_t available_bytes = 0;
  uint64_t hugepages_total = 0;
  uint64_t hugepages_free = 0;  ///< Less those that are reserved and not yet touched.
  uint64_t hugepage_bytes = 0;  ///< The default size.
};

/// The text of /proc/meminfo as numbers.
MemInfo parse_meminfo(std::string_view text) noexcept;
MemInfo read_meminfo() noexcept;

/// RLIMIT_MEMLOCK; UINT64_MAX: no limit, or the right to pass it.
uint64_t memlock_bytes() noexcept;

}  // namespace sluice
