#include "engine/memory_table.h"

#include <algorithm>
#include <cstdio>

namespace sluice {
namespace {
constexpr size_t kMaxSegmentName = 255;

std::string range_text(const void* base, uint64_t bytes) {
  char text[64];
  std::snprintf(text, sizeof text, "[%p, +%llu)", base, static_cast<unsigned long long>(bytes));
  return text;
}
}  // namespace

Status MemoryTable::add(std::unique_ptr<Region> region, MemoryHandle* out) {
  const std::byte* base = region->base();
  for (const Entry& entry : entries_) {
    if (entry.region == nullptr) continue;
    const Region& other = *entry.region;
    if (base < other.base() + other.bytes() && other.base() < base + region->bytes())
      return {Code::kExists, "memory " + range_text(base, region->bytes()) + " overlaps the registration " +
                                 range_text(other.base(), other.bytes()) + ": unregister that first"};
  }
  size_t index = 0;
  while (index < entries_.size() && entries_[index].region != nullptr) ++index;
  if (index == entries_.size()) entries_.emplace_back();
  Entry& entry = entries_[index];
  entry.region = std::move(region);
  entry.use = std::make_shared<MemoryUse>();
  *out = MemoryHandle{uint64_t{entry.generation} << 32 | index};
  publish();
  return Code::kOk;
}

MemoryTable::Entry* MemoryTable::find(MemoryHandle handle) {
  const auto index = static_cast<uint32_t>(handle);
  const auto generation = static_cast<uint32_t>(static_cast<uint64_t>(handle) >> 32);
  if (index >= entries_.size() || entries_[index].region == nullptr || entries_[index].generation != generation)
    return nullptr;
  return &entries_[index];
}

// Ports check closing after they have counted themselves in, so a use that this misses refuses itself.
Status MemoryTable::remove(MemoryHandle handle) {
  Entry* entry = find(handle);
  if (entry == nullptr) return {Code::kStale, "unregister: the memory handle is not, or no longer, valid"};
  if (entry->exports != 0)
    return {Code::kBusy, "unregister " + range_text(entry->region->base(), entry->region->bytes()) +
                             ": a segment exports it; withdraw the segment first"};
  entry->use->closing.store(true);
  if (const uint32_t uses = entry->use->uses.load(); uses != 0) {
    entry->use->closing.store(false);
    return {Code::kBusy, "unregister " + range_text(entry->region->base(), entry->region->bytes()) + ": " +
                             std::to_string(uses) + " tasks use it; wait until they are final"};
  }
  entry->use.reset();
  entry->region.reset();
  ++entry->generation;
  publish();
  return Code::kOk;
}

void MemoryTable::publish() {
  auto fresh = std::make_shared<MemorySnapshot>();
  for (const Entry& entry : entries_)
    if (entry.region != nullptr) fresh->push_back({entry.region->base(), entry.region->bytes(), entry.use});
  std::sort(fresh->begin(), fresh->end(), [](const MemorySpan& a, const MemorySpan& b) { return a.base < b.base; });
  const std::lock_guard lock(snapshot_lock_);
  snapshot_ = std::move(fresh);
  version_.fetch_add(1, std::memory_order_release);
}

std::shared_ptr<const MemorySnapshot> MemoryTable::snapshot() const {
  const std::lock_guard lock(snapshot_lock_);
  return snapshot_;
}

Status MemoryTable::export_memory(std::string_view name, MemoryHandle memory, Exported* out) {
  if (name.empty() || name.size() > kMaxSegmentName)
    return {Code::kBadArgument, "segment name of " + std::to_string(name.size()) + " bytes: 1 to 255 are allowed"};
  Entry* entry = find(memory);
  if (entry == nullptr) return {Code::kStale, "export: the memory handle is not, or no longer, valid"};
  uint32_t place = 0;
  while (place < numbers_.size() && numbers_[place].used) ++place;
  if (place >= max_buffers_)
    return {Code::kLimit, "export: " + std::to_string(max_buffers_) + " buffers are exported, which is the most"};
  if (place == numbers_.size()) numbers_.emplace_back();
  Number& number = numbers_[place];
  number.used = true;
  number.entry = static_cast<uint32_t>(entry - entries_.data());
  ++entry->exports;
  *out = {number.uses * places_ + place, entry->region->base(), entry->region->bytes()};
  auto it = segments_.find(name);
  if (it == segments_.end()) it = segments_.emplace(std::string(name), std::vector<Exported>{}).first;
  it->second.push_back(*out);
  return Code::kOk;
}

Status MemoryTable::segment(std::string_view name, std::vector<Exported>* out) const {
  const auto it = segments_.find(name);
  if (it == segments_.end()) return {Code::kNotFound, "no segment '" + std::string(name) + "' is exported here"};
  *out = it->second;
  return Code::kOk;
}

Status MemoryTable::withdraw(std::string_view name, std::vector<Exported>* out) {
  const auto it = segments_.find(name);
  if (it == segments_.end()) return {Code::kNotFound, "no segment '" + std::string(name) + "' is exported here"};
  *out = std::move(it->second);
  segments_.erase(it);
  return Code::kOk;
}

void MemoryTable::forget(uint32_t id) {
  Number& number = numbers_[id % places_];
  --entries_[number.entry].exports;
  number.used = false;
  ++number.uses;
}

}  // namespace sluice
