/// @file segment_table.h
/// Open segments of other nodes, as ports see them.
///
/// Model    An entry is immutable once it is published, but for alive, which the service thread clears when the peer is
///          lost. A closed entry's handle is stale; its memory stays until the table goes, since a port may be reading
///          it.
///          Opening the same segment of the same life of a peer again gives the same entry.
/// Threads  find: any thread, lock-free. The rest: under the node's lock.
/// Memory   A fixed number of places.
/// Errors   kLimit when all places are taken.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "engine/types.h"

namespace sluice {

struct OpenSegment {
  struct Buffer {
    uint32_t id;
    uint64_t bytes;
    bool operator==(const Buffer&) const = default;
  };
  std::string node, name;
  PeerId peer{};
  uint16_t peer_generation = 0;
  uint16_t lanes = 0;
  std::vector<Buffer> buffers;
  uint32_t opens = 1;  ///< Under the lock.
  std::atomic<bool> alive{true};
};

class SegmentTable {
 public:
  static constexpr uint32_t kPlaces = 4096;

  const OpenSegment* find(SegmentHandle handle) const noexcept {
    const auto index = static_cast<uint32_t>(handle);
    if (index >= kPlaces) return nullptr;
    const uint32_t generation = places_[index].generation.load(std::memory_order_acquire);
    if (generation != static_cast<uint32_t>(static_cast<uint64_t>(handle) >> 32)) return nullptr;
    return places_[index].segment.load(std::memory_order_acquire);
  }

  /// The handle of an entry like @p segment that is open already (opened once more), or of @p segment, taken over.
  Code open(std::unique_ptr<OpenSegment> segment, SegmentHandle* out) {
    uint32_t free = kPlaces;
    for (uint32_t i = 0; i < kPlaces; ++i) {
      OpenSegment* at = places_[i].segment.load(std::memory_order_relaxed);
      if (at == nullptr) {
        if (free == kPlaces) free = i;
        continue;
      }
      if (at->peer != segment->peer || at->peer_generation != segment->peer_generation || at->name != segment->name ||
          !at->alive.load() || at->buffers != segment->buffers)  // the peer may have exported other memory since
        continue;
      ++at->opens;
      *out = handle(i);
      return Code::kOk;
    }
    if (free == kPlaces) return Code::kLimit;
    owned_.push_back(std::move(segment));
    places_[free].segment.store(owned_.back().get(), std::memory_order_release);
    *out = handle(free);
    return Code::kOk;
  }

  Code close(SegmentHandle which) {
    const OpenSegment* found = find(which);
    if (found == nullptr) return Code::kStale;
    Place& place = places_[static_cast<uint32_t>(which)];
    if (--place.segment.load(std::memory_order_relaxed)->opens != 0) return Code::kOk;
    place.generation.fetch_add(1, std::memory_order_acq_rel);
    place.segment.store(nullptr, std::memory_order_release);
    return Code::kOk;
  }

  void peer_lost(PeerId peer, uint16_t generation) noexcept {
    for (const auto& segment : owned_)
      if (segment->peer == peer && segment->peer_generation == generation) segment->alive.store(false);
  }

 private:
  struct Place {
    std::atomic<uint32_t> generation{1};
    std::atomic<OpenSegment*> segment{nullptr};
  };
  SegmentHandle handle(uint32_t i) const noexcept {
    return SegmentHandle{uint64_t{places_[i].generation.load(std::memory_order_relaxed)} << 32 | i};
  }
  std::array<Place, kPlaces> places_;
  std::vector<std::unique_ptr<OpenSegment>> owned_;
};

}  // namespace sluice
