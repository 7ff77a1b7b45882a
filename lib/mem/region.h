/// @file region.h
/// A span of memory and the keys that devices gave for it.
///
/// Model    A region is hugepage memory, plain memory, or memory an application lent, of the host or of a GPU. Each
///          device that needs it gets its own registration, in chunks where the device caps a region's size. Keys are
///          64 bits.
/// Threads  Slow calls: the service thread, or before the data plane runs. Reads of a finished region: any lcore.
/// Memory   Owns its mapping unless imported; unmaps in the destructor. Touches every page at creation, so that no
///          turn takes a page fault. Registrations must be gone before the memory goes.
/// Errors   kNoMemory names what is needed, what there is and how to raise it. kBadArgument for size 0 or overflow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"

namespace sluice {

class DeviceMemory;

enum class RegionKind : uint8_t {
  kHuge,      ///< 2 MiB hugepages, or an error.
  kPlain,     ///< Small pages.
  kBest,      ///< Hugepages when there are enough of them, else small pages; the text of kind() says which.
  kImported,  ///< The application's; never unmapped here.
  kDevice,    ///< The application's, on a GPU: no processor may touch it.
};

/// One device's registration of one chunk of a region.
struct ChunkKey {
  uint64_t offset;       ///< From the region's base, in bytes.
  uint64_t length;       ///< In bytes.
  uint64_t local_desc;   ///< What a local operation hands to the device (a pointer or an lkey); 0 when none is needed.
  uint64_t remote_key;   ///< What a peer needs for one-sided access; 0 when none was asked for, or not on this device.
  uint64_t remote_addr;  ///< What a peer's op names for the chunk's first byte: an address or 0, as the device counts.
  void* handle;          ///< The driver's own, to deregister.
};

class Region {
 public:
  /// Map and touch @p bytes (rounded up to the page size). @return kNoMemory, kBadArgument.
  static Status create(RegionKind kind, uint64_t bytes, std::unique_ptr<Region>* out);
  /// Wrap memory of the application's. @p base must stay mapped while the region lives. @return kBadArgument.
  static Status import(void* base, uint64_t bytes, std::unique_ptr<Region>* out);
  /// Wrap memory of a GPU, which @p memory knows and outlives. @return kBadArgument when it is none.
  static Status import_device(const DeviceMemory& memory, void* base, uint64_t bytes, std::unique_ptr<Region>* out);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  std::byte* base() const noexcept { return base_; }
  uint64_t bytes() const noexcept { return bytes_; }
  RegionKind kind() const noexcept { return kind_; }
  /// The GPU of a region of kind kDevice; else -1.
  int device() const noexcept { return device_; }
  /// Run @p work as calls about this memory must be run: of kind kDevice in its GPU's context. @return what it returns.
  Status in_context(const std::function<Status()>& work) const;
  /// The page size of the memory; of imported memory the kernel is asked, each time.
  uint64_t page_bytes() const;
  /// Chunks of registrations from now on are no larger than this: one grid for all devices. 0: each device's own.
  void set_chunk_bytes(uint64_t bytes) noexcept { chunk_bytes_ = bytes; }
  uint64_t chunk_bytes() const noexcept { return chunk_bytes_; }
  /// The NUMA node of the first page, looked up when the region was made; -1: unknown.
  int numa_node() const noexcept { return numa_; }
  /// Device @p device registers from now on only each @p parts-th chunk, beginning with number @p part; the keys of its
  /// others stay 0. For memory that is more than one device can map. 1: all of them.
  void set_part(uint16_t device, uint32_t part, uint32_t parts);
  /// Whether device @p device registers chunk number @p chunk.
  bool takes(uint16_t device, uint64_t chunk) const noexcept;
  /// Whether [addr, addr + length) lies inside, without overflow.
  bool contains(const void* addr, uint64_t length) const noexcept;

  /// The keys of device @p device (its index in the process), in order of offset. Filled by Device::reg.
  std::vector<ChunkKey>& keys(uint16_t device);
  const std::vector<ChunkKey>& keys(uint16_t device) const noexcept;

 private:
  Region() = default;
  std::byte* base_ = nullptr;
  uint64_t bytes_ = 0;         // as asked for
  uint64_t mapped_bytes_ = 0;  // as mapped
  uint64_t chunk_bytes_ = 0;
  const DeviceMemory* device_memory_ = nullptr;
  int device_ = -1;
  RegionKind kind_ = RegionKind::kPlain;
  int numa_ = -1;
  struct Part {
    uint32_t part = 0, parts = 1;
  };
  std::vector<Part> parts_;
  std::vector<std::vector<ChunkKey>> keys_;
};

/// How large a chunk of @p region may be on a device that takes regions of at most @p max_region_bytes and maps at most
/// @p page_entries pages (0: no such limit), within the region's own grid: a multiple of the page size, or all of it.
uint64_t largest_chunk(const Region& region, uint64_t max_region_bytes, uint64_t page_entries);

}  // namespace sluice
