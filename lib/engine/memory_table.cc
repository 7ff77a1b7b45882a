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

Status MemoryTable::check(const Region& region) const {
  const std::byte* base = region.base();
  auto it = by_base_.lower_bound(base + region.bytes());  // the first that begins behind it
  if (it == by_base_.begin()) return Code::kOk;
  const Region& other = *entries_[(--it)->second].region;
  if (other.base() + other.bytes() <= base) return Code::kOk;
  if (other.base() == base && other.bytes() == region.bytes())
    return {Code::kExists, "memory " + range_text(base, region.bytes()) + " is registered already"};
  return {Code::kExists, "memory " + range_text(base, region.bytes()) + " overlaps the registration " +
                             range_text(other.base(), other.bytes()) + ": unregister that first"};
}

Status MemoryTable::add(std::unique_ptr<Region>* region, MemoryHandle* out) {
  if (Status s = check(**region); !s.ok()) return s;
  // All that allocates comes first: an entry is there with everything, or not at all.
  auto use = std::make_shared<MemoryUse>();
  use->region = region->get();
  auto fresh = snapshot_->with({(*region)->base(), (*region)->bytes(), use});
  if (free_entries_.empty()) {
    entries_.emplace_back();
    free_entries_.reserve(entries_.capacity());
    free_entries_.push_back(static_cast<uint32_t>(entries_.size() - 1));
  }
  const uint32_t index = free_entries_.back();
  by_base_[(*region)->base()] = index;
  free_entries_.pop_back();
  Entry& entry = entries_[index];
  entry.region = std::move(*region);
  entry.use = std::move(use);
  *out = MemoryHandle{uint64_t{entry.generation} << 32 | index};
  publish(std::move(fresh));
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
Status MemoryTable::remove(MemoryHandle handle, std::unique_ptr<Region>* out) {
  Entry* entry = find(handle);
  if (entry == nullptr) return {Code::kStale, "unregister: the memory handle is not, or no longer, valid"};
  if (entry->exports != 0)
    return {Code::kBusy, "unregister " + range_text(entry->region->base(), entry->region->bytes()) +
                             ": a segment exports it; withdraw the segment first"};
  auto fresh = snapshot_->without(entry->region->base());
  entry->use->closing.store(true);
  if (const uint32_t uses = entry->use->uses.load(); uses != 0) {
    entry->use->closing.store(false);
    return {Code::kBusy, "unregister " + range_text(entry->region->base(), entry->region->bytes()) + ": " +
                             std::to_string(uses) + " tasks use it; wait until they are final"};
  }
  by_base_.erase(entry->region->base());
  free_entries_.push_back(static_cast<uint32_t>(entry - entries_.data()));
  entry->use.reset();
  std::unique_ptr<Region> region = std::move(entry->region);
  if (out != nullptr) *out = std::move(region);
  ++entry->generation;
  publish(std::move(fresh));
  return Code::kOk;
}

void MemoryTable::publish(std::shared_ptr<const MemorySnapshot> fresh) noexcept {
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
  const Exported made{number.uses * places_ + place, entry->region->base(), entry->region->bytes(),
                      entry->region.get()};
  if (const auto it = segments_.find(name); it != segments_.end())
    it->second.push_back(made);
  else
    segments_.emplace(std::string(name), std::vector<Exported>{made});
  number.used = true;  // after all that can fail
  number.entry = static_cast<uint32_t>(entry - entries_.data());
  ++entry->exports;
  *out = made;
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

std::vector<uint32_t> MemoryTable::exported() const {
  std::vector<uint32_t> ids;
  for (const auto& [name, buffers] : segments_)
    for (const Exported& buffer : buffers) ids.push_back(buffer.id);
  return ids;
}

void MemoryTable::forget(uint32_t id) {
  Number& number = numbers_[id % places_];
  --entries_[number.entry].exports;
  number.used = false;
  ++number.uses;
}

}  // namespace sluice
