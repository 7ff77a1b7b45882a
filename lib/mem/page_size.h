/// @file page_size.h
/// The page size of memory that is mapped here.
///
/// Model    The kernel's word, from /proc/self/smaps. Transparent hugepages count as small ones: they may go any time.
/// Threads  Slow calls, any thread.
/// Memory   Allocates lines.
/// Errors   What cannot be read has small pages.
#pragma once

#include <cstdint>
#include <istream>

namespace sluice {

/// The smallest page size within [@p addr, @p addr + @p bytes) as @p smaps tells; 0 when it tells nothing of it.
uint64_t parse_page_bytes(std::istream& smaps, uint64_t addr, uint64_t bytes);

/// The same of this process, never 0.
uint64_t page_bytes_of(const void* addr, uint64_t bytes);

}  // namespace sluice
