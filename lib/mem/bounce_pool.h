/// @file bounce_pool.h
/// Bounce memory: slots of one size, in extents that come and go.
///
/// Model    An extent is one rte_mempool over one region. The pool hands out slots last-in first-out from a small hot
///          stack, so that the slots in use stay in the cache; what overflows it rests in its mempool, and the extent
///          with the lowest id is drawn on first, so that the others fall idle and can go. Grow: another thread makes
///          an extent (Extent::make, milliseconds) and the owner adds it (add_extent). Shrink: the owner retires an
///          extent, which gives out no more of its slots; when its last slot is home, take_retired() hands it back,
///          and the other thread deregisters and frees it. A slot handle names extent, generation and index: a
///          handle of a dead extent is refused.
/// Threads  One owner (a worker or the control core) for everything but Extent::make and ~Extent (service thread).
/// Memory   Nothing but the constructor and Extent::make allocates. The pool counts outstanding slots itself, since
///          rte_mempool_free accepts outstanding objects silently.
/// Errors   get gives fewer than asked when it is short. put refuses a bad, stale or free handle with kStale.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "mem/region.h"

struct rte_mempool;

namespace sluice {

/// extent << 56 | generation << 32 | index. 0 is never a slot: generations start at 1 (and after 2^24 - 1 again).
enum class SlotHandle : uint64_t { kNone = 0 };

struct Slot {
  std::byte* addr;      ///< Cache-line aligned; slot_bytes() long.
  uint64_t local_desc;  ///< The device's local descriptor for it.
  SlotHandle handle;
};

/// One extent: a region, registered or about to be, and the mempool over it.
class Extent {
 public:
  static constexpr uint32_t kMaxSlots = 1u << 20;
  static constexpr uint32_t kMaxSlotBytes = 16u << 20;

  /// Map a region and build a mempool of @p slots objects of @p slot_bytes in it. @pre EAL is up.
  /// @p name must be unique in the process and at most 20 characters. @return kNoMemory, kBadArgument, kLimit.
  static Status make(RegionKind kind, const char* name, uint32_t slots, uint32_t slot_bytes,
                     std::unique_ptr<Extent>* out);
  ~Extent();
  Extent(const Extent&) = delete;
  Extent& operator=(const Extent&) = delete;

  Region& region() noexcept { return *region_; }
  uint32_t slots() const noexcept { return slots_; }
  uint32_t slot_bytes() const noexcept { return slot_bytes_; }
  rte_mempool* mempool() const noexcept { return mempool_; }

 private:
  friend class BouncePool;
  Extent() = default;
  std::unique_ptr<Region> region_;
  rte_mempool* mempool_ = nullptr;
  std::byte* first_ = nullptr;  // slot 0
  uint32_t stride_ = 0;         // from slot to slot: a mempool header, the slot, and padding to the cache line
  uint32_t slots_ = 0;
  uint32_t slot_bytes_ = 0;
  std::unique_ptr<uint8_t[]> out_;  // per slot: 1 while it is out
};

class BouncePool {
 public:
  static constexpr uint32_t kMaxExtents = 64;

  /// @p device selects which device's local descriptors the slots carry.
  BouncePool(uint32_t slot_bytes, uint16_t device);
  ~BouncePool();
  BouncePool(const BouncePool&) = delete;
  BouncePool& operator=(const BouncePool&) = delete;

  /// Take over @p extent. Its region is already registered, as one chunk, where the device asks for that.
  /// @return kLimit; kBadArgument for another slot size, or a region in several chunks. Then @p extent is freed.
  Code add_extent(std::unique_ptr<Extent> extent, ExtentId* id) noexcept;
  /// Give out no more slots of @p id. @return kStale when there is no such extent, kBusy when it is already retiring.
  Code retire_extent(ExtentId id) noexcept;
  /// Take back one retiring extent whose slots are all home; null when there is none.
  std::unique_ptr<Extent> take_retired() noexcept;
  /// The live extent with the most slots at home, for shrinking; kLimit when fewer than two extents are live.
  Code pick_victim(ExtentId* id) const noexcept;

  /// Up to slots.size() slots. @return how many.
  uint32_t get(std::span<Slot> slots) noexcept;
  /// Give one back. @return kStale for a handle of a dead extent or a slot that is already home; nothing changes then.
  Code put(SlotHandle handle) noexcept;
  /// The slot behind a handle that is out. @return false for a stale handle.
  bool find(SlotHandle handle, Slot* slot) const noexcept;

  /// Whether the slot's extent is retiring: it is to be put home, not used again. @pre find() knows it.
  bool is_retiring(SlotHandle handle) const noexcept;
  /// The slots of extent @p id, and the handle of one of them; 0 and kNone when there is no such extent.
  uint32_t extent_slots(ExtentId id) const noexcept;
  SlotHandle handle_of(ExtentId id, uint32_t index) const noexcept;

  uint32_t slot_bytes() const noexcept { return slot_bytes_; }
  uint32_t live_slots() const noexcept { return live_slots_; }  ///< In extents that are not retiring.
  uint32_t free_slots() const noexcept { return free_slots_; }  ///< Of those, at home.
  uint32_t out_slots() const noexcept { return out_slots_; }    ///< Outstanding, over all extents.
  uint32_t extents() const noexcept { return extents_; }        ///< Live and retiring.
  uint32_t retiring() const noexcept { return retiring_; }
  uint64_t stale_puts() const noexcept { return stale_puts_; }

 private:
  static constexpr uint32_t kHotSlots = 64;
  static constexpr uint32_t kMoveSlots = kHotSlots / 2;  // between hot stack and mempool at once

  struct Entry;
  Entry* entry_out(SlotHandle handle) const noexcept;
  static Slot slot_of(const Entry& entry, uint32_t index) noexcept;
  bool warm() noexcept;
  void spill() noexcept;
  void rest(const Slot& slot) noexcept;

  const uint32_t slot_bytes_;
  const uint16_t device_;
  uint32_t live_slots_ = 0, free_slots_ = 0, out_slots_ = 0, extents_ = 0, retiring_ = 0;
  uint64_t stale_puts_ = 0;
  uint64_t cold_mask_ = 0;  // extents that live and have slots in their mempool
  uint64_t retiring_mask_ = 0;
  uint32_t hot_count_ = 0;
  std::array<Slot, kHotSlots> hot_;
  const std::unique_ptr<Entry[]> entries_;
};

}  // namespace sluice
