/// @file memory_table.h
/// Registered memory, and what of it is exported.
///
/// Model    Registrations do not overlap. Ports look addresses up in an immutable, sorted snapshot that is replaced
///          when memory comes or goes. An exported buffer has a number that peers use; it is set at the workers by the
///          owner of this table.
/// Threads  Calls are serialised by the node's lock, except snapshot(), version() and Use counters: any thread.
/// Memory   Owns managed regions; imported ones stay the application's. A snapshot owns the counters that it names, so
///          they go with the last port that has it.
/// Errors   Each text names the range, the handle or the segment.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/memory_snapshot.h"
#include "engine/types.h"
#include "mem/region.h"

namespace sluice {

class MemoryTable {
 public:
  explicit MemoryTable(uint32_t max_buffers) : max_buffers_(max_buffers), places_(std::bit_ceil(max_buffers)) {}

  /// Whether @p region overlaps none. @return kExists.
  Status check(const Region& region) const;
  /// Take @p region over, unless it overlaps another (kExists).
  Status add(std::unique_ptr<Region>* region, MemoryHandle* out);
  /// Hand the region back, or free it. @return kStale, kBusy (in use or exported).
  Status remove(MemoryHandle handle, std::unique_ptr<Region>* out = nullptr);

  struct Exported {
    uint32_t id;
    std::byte* base;
    uint64_t bytes;
    const Region* region;
  };
  /// Make @p memory the next buffer of segment @p name. @return kStale, kBadArgument, kLimit.
  Status export_memory(std::string_view name, MemoryHandle memory, Exported* out);
  /// The buffers of @p name. @return kNotFound.
  Status segment(std::string_view name, std::vector<Exported>* out) const;
  /// The segment answers kNotFound from now on; its buffers stay numbered until forget(). @return kNotFound.
  Status withdraw(std::string_view name, std::vector<Exported>* out);
  void forget(uint32_t id);
  /// The numbers of all that is exported.
  std::vector<uint32_t> exported() const;

  uint64_t version() const noexcept { return version_.load(std::memory_order_acquire); }
  std::shared_ptr<const MemorySnapshot> snapshot() const;

 private:
  struct Entry {
    std::unique_ptr<Region> region;
    std::shared_ptr<MemoryUse> use;
    uint32_t generation = 1;
    uint32_t exports = 0;
  };
  struct Number {
    bool used = false;
    uint32_t entry = 0;
    uint32_t uses = 0;  // ended: the upper part of the next id, so that a peer's old one fits nothing
  };
  Entry* find(MemoryHandle handle);
  void publish(std::shared_ptr<const MemorySnapshot> fresh) noexcept;

  const uint32_t max_buffers_, places_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> free_entries_;
  std::map<const std::byte*, uint32_t> by_base_;  // entries
  std::vector<Number> numbers_;
  std::map<std::string, std::vector<Exported>, std::less<>> segments_;
  std::shared_ptr<const MemorySnapshot> snapshot_ = std::make_shared<MemorySnapshot>();
  mutable std::mutex snapshot_lock_;
  std::atomic<uint64_t> version_{1};
};

}  // namespace sluice
