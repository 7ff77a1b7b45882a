#include "mem/bounce_pool.h"

#include <rte_mempool.h>

#include <bit>
#include <cassert>
#include <cstring>

#include "base/bytes.h"

namespace sluice {
namespace {
constexpr uint32_t kGenerationMask = (1u << 24) - 1;

constexpr uint32_t extent_of(SlotHandle handle) noexcept { return static_cast<uint32_t>(raw(handle) >> 56); }
constexpr uint32_t tag_of(SlotHandle handle) noexcept { return static_cast<uint32_t>(raw(handle) >> 32); }
constexpr uint32_t index_of(SlotHandle handle) noexcept { return static_cast<uint32_t>(raw(handle)); }
}  // namespace

/// What a get or put needs to know of an extent, in one cache line. An entry outlives its extents; while it has none,
/// it has no slots, and so no handle fits it.
struct alignas(kCacheLine) BouncePool::Entry {
  std::byte* first = nullptr;
  uint8_t* out_map = nullptr;
  uint64_t desc = 0;
  uint32_t tag = 0;  ///< The upper half of its handles: id << 24 | generation.
  uint32_t stride = 0;
  uint32_t slots = 0;
  uint32_t out = 0;
  uint32_t cold = 0;  ///< Slots in the mempool; the other slots at home are in the hot stack.
  bool retiring = false;
  std::unique_ptr<Extent> extent;
};

BouncePool::BouncePool(uint32_t slot_bytes, uint16_t device)
    : slot_bytes_(slot_bytes), device_(device), hot_{}, entries_(std::make_unique<Entry[]>(kMaxExtents)) {
  static_assert(sizeof(Entry) == kCacheLine);
  for (uint32_t id = 0; id < kMaxExtents; ++id) entries_[id].tag = id << 24;
}

BouncePool::~BouncePool() = default;

Code BouncePool::add_extent(std::unique_ptr<Extent> extent, ExtentId* id) noexcept {
  if (extent == nullptr || extent->slot_bytes() != slot_bytes_) return Code::kBadArgument;
  const std::vector<ChunkKey>& keys = std::as_const(extent->region()).keys(device_);
  if (keys.size() > 1) return Code::kBadArgument;
  for (uint32_t i = 0; i < kMaxExtents; ++i) {
    Entry& entry = entries_[i];
    if (entry.extent != nullptr) continue;
    const uint32_t last = entry.tag & kGenerationMask;
    entry.tag = i << 24 | (last == kGenerationMask ? 1 : last + 1);
    entry.first = extent->first_;
    entry.out_map = extent->out_.get();
    entry.desc = keys.empty() ? 0 : keys.front().local_desc;
    entry.stride = extent->stride_;
    entry.slots = entry.cold = extent->slots_;
    entry.out = 0;
    entry.retiring = false;
    entry.extent = std::move(extent);
    live_slots_ += entry.slots;
    free_slots_ += entry.slots;
    ++extents_;
    cold_mask_ |= 1ull << i;
    *id = static_cast<ExtentId>(i);
    return Code::kOk;
  }
  return Code::kLimit;
}

Code BouncePool::retire_extent(ExtentId id) noexcept {
  const uint32_t i = raw(id);
  if (i >= kMaxExtents || entries_[i].extent == nullptr) return Code::kStale;
  Entry& entry = entries_[i];
  if (entry.retiring) return Code::kBusy;
  entry.retiring = true;
  ++retiring_;
  retiring_mask_ |= 1ull << i;
  live_slots_ -= entry.slots;
  free_slots_ -= entry.slots - entry.out;
  uint32_t kept = 0;
  for (uint32_t at = 0; at < hot_count_; ++at) {
    if (extent_of(hot_[at].handle) == i) {
      rest(hot_[at]);
    } else {
      hot_[kept++] = hot_[at];
    }
  }
  hot_count_ = kept;
  cold_mask_ &= ~(1ull << i);
  return Code::kOk;
}

std::unique_ptr<Extent> BouncePool::take_retired() noexcept {
  for (uint64_t mask = retiring_mask_; mask != 0; mask &= mask - 1) {
    const int i = std::countr_zero(mask);
    Entry& entry = entries_[i];
    if (entry.out != 0) continue;
    assert(entry.cold == entry.slots && rte_mempool_full(entry.extent->mempool()));
    entry.slots = 0;
    --extents_;
    --retiring_;
    retiring_mask_ &= ~(1ull << i);
    return std::move(entry.extent);
  }
  return nullptr;
}

Code BouncePool::pick_victim(ExtentId* id) const noexcept {
  if (extents_ - retiring_ < 2) return Code::kLimit;
  uint32_t best = kMaxExtents;
  uint32_t most = 0;
  for (uint32_t i = 0; i < kMaxExtents; ++i) {
    const Entry& entry = entries_[i];
    if (entry.extent == nullptr || entry.retiring || (best != kMaxExtents && entry.slots - entry.out < most)) continue;
    best = i;  // of equals the highest id, which is drawn on last
    most = entry.slots - entry.out;
  }
  *id = static_cast<ExtentId>(best);
  return Code::kOk;
}

uint32_t BouncePool::get(std::span<Slot> slots) noexcept {
  uint32_t n = 0;
  while (n < slots.size() && (hot_count_ != 0 || warm())) {
    const Slot& slot = hot_[--hot_count_];
    Entry& entry = entries_[extent_of(slot.handle)];
    entry.out_map[index_of(slot.handle)] = 1;
    ++entry.out;
    slots[n++] = slot;
  }
  free_slots_ -= n;
  out_slots_ += n;
  return n;
}

Code BouncePool::put(SlotHandle handle) noexcept {
  Entry* const entry = entry_out(handle);
  if (entry == nullptr) {
    ++stale_puts_;
    return Code::kStale;
  }
  const uint32_t index = index_of(handle);
  entry->out_map[index] = 0;
  --entry->out;
  --out_slots_;
  const Slot slot = slot_of(*entry, index);
  if (entry->retiring) {
    rest(slot);
    return Code::kOk;
  }
  if (hot_count_ == kHotSlots) spill();
  hot_[hot_count_++] = slot;
  ++free_slots_;
  return Code::kOk;
}

bool BouncePool::find(SlotHandle handle, Slot* slot) const noexcept {
  const Entry* const entry = entry_out(handle);
  if (entry == nullptr) return false;
  *slot = slot_of(*entry, index_of(handle));
  return true;
}

bool BouncePool::is_retiring(SlotHandle handle) const noexcept {
  return (retiring_mask_ >> (extent_of(handle) % kMaxExtents) & 1) != 0;
}

uint32_t BouncePool::extent_slots(ExtentId id) const noexcept {
  return raw(id) < kMaxExtents ? entries_[raw(id)].slots : 0;
}

SlotHandle BouncePool::handle_of(ExtentId id, uint32_t index) const noexcept {
  if (index >= extent_slots(id)) return SlotHandle::kNone;
  return static_cast<SlotHandle>(uint64_t{entries_[raw(id)].tag} << 32 | index);
}

// The entry of a slot that is out; null for any other handle.
BouncePool::Entry* BouncePool::entry_out(SlotHandle handle) const noexcept {
  const uint32_t id = extent_of(handle);
  if (id >= kMaxExtents) return nullptr;
  Entry& entry = entries_[id];
  const uint32_t index = index_of(handle);
  const bool out = entry.tag == tag_of(handle) && index < entry.slots && entry.out_map[index] != 0;
  return out ? &entry : nullptr;
}

Slot BouncePool::slot_of(const Entry& entry, uint32_t index) noexcept {
  return {entry.first + uint64_t{index} * entry.stride, entry.desc,
          static_cast<SlotHandle>(uint64_t{entry.tag} << 32 | index)};
}

// Bring slots from a mempool to the empty hot stack. The division is here, and so once in many gets.
bool BouncePool::warm() noexcept {
  if (cold_mask_ == 0) return false;
  const int id = std::countr_zero(cold_mask_);
  Entry& entry = entries_[id];
  std::array<void*, kMoveSlots> objects;
  const uint32_t n = entry.cold < kMoveSlots ? entry.cold : kMoveSlots;
  [[maybe_unused]] const int got = rte_mempool_generic_get(entry.extent->mempool(), objects.data(), n, nullptr);
  assert(got == 0);
  entry.cold -= n;
  if (entry.cold == 0) cold_mask_ &= ~(1ull << id);
  for (uint32_t i = 0; i < n; ++i) {
    const auto offset = static_cast<uint64_t>(static_cast<std::byte*>(objects[i]) - entry.first);
    hot_[hot_count_++] = slot_of(entry, static_cast<uint32_t>(offset / entry.stride));
  }
  return true;
}

// Send the coldest half of the full hot stack home.
void BouncePool::spill() noexcept {
  for (uint32_t i = 0; i < kMoveSlots; ++i) rest(hot_[i]);
  std::memmove(hot_.data(), hot_.data() + kMoveSlots, sizeof(Slot) * (kHotSlots - kMoveSlots));
  hot_count_ = kHotSlots - kMoveSlots;
}

void BouncePool::rest(const Slot& slot) noexcept {
  const uint32_t id = extent_of(slot.handle);
  Entry& entry = entries_[id];
  void* const object = slot.addr;
  rte_mempool_generic_put(entry.extent->mempool(), &object, 1, nullptr);
  ++entry.cold;
  if (!entry.retiring) cold_mask_ |= 1ull << id;
}

}  // namespace sluice
