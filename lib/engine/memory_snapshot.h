/// @file memory_snapshot.h
/// Registered memory as ports look it up: immutable, sorted by address.
///
/// Model    Spans lie in pages of at most kPage. A new snapshot shares all pages with the old one but the one that
///          changed, so that a registration costs the same whether there are ten or a hundred thousand.
/// Threads  Immutable after construction: any thread.
/// Memory   A snapshot owns the counters that it names, so they go with the last port that has it.
/// Errors   None.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "mem/region.h"

namespace sluice {

/// One registration as ports see it. uses counts open tasks on it: with one, it is not removed.
struct MemoryUse {
  std::atomic<uint32_t> uses{0};
  std::atomic<bool> closing{false};
  const Region* region = nullptr;  ///< It stays as long as there are uses.
};
struct MemorySpan {
  const std::byte* base;
  uint64_t bytes;
  std::shared_ptr<MemoryUse> use;
};

class MemorySnapshot {
 public:
  static constexpr size_t kPage = 512;

  /// The span that holds [addr, addr + length), or null. It stays as long as the snapshot.
  const MemorySpan* find(const std::byte* addr, uint64_t length) const noexcept;
  /// This and @p span. @pre it overlaps none.
  std::shared_ptr<MemorySnapshot> with(const MemorySpan& span) const;
  /// This without the span at @p base.
  std::shared_ptr<MemorySnapshot> without(const std::byte* base) const;

 private:
  using Spans = std::vector<MemorySpan>;
  struct Page {
    const std::byte* first;
    std::shared_ptr<const Spans> spans;  // not empty
  };
  size_t page_of(const std::byte* addr) const noexcept;
  std::vector<Page> pages_;
};

}  // namespace sluice
