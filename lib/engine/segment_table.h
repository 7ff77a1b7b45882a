/// @file segment_table.h
/// Open segments of other nodes, as ports see them.
///
/// Model    An entry is immutable once it is published, but for alive, which the service thread clears when the peer is
///          lost. A closed entry's handle is stale; it is freed when no port that may have seen it is still reading.
///          Opening the same segment of the same life of a peer again gives the same entry.
/// Threads  find: under the lock, or in a reader's section: any thread, lock-free. The rest: under the node's lock.
/// Memory   A fixed number of places.
/// Errors   kLimit when all places are taken.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "agent/remote_buffer.h"
#include "base/ids.h"
#include "engine/types.h"

namespace sluice {

struct OpenSegment {
  struct Buffer {
    uint32_t id;
    uint64_t bytes;
    RemoteBuffer remote = {};  ///< One-sided only.
    bool operator==(const Buffer&) const = default;
  };
  std::string node, name;
  PeerId peer{};
  uint16_t peer_generation = 0;
  uint16_t lanes = 0;
  std::vector<Buffer> buffers;
  uint32_t opens = 1;  ///< Under the lock.
  std::atomic<bool> alive{true};
  std::atomic<bool> ended{false};  ///< The peer took a buffer of it back: kStale.
  std::atomic<uint32_t> uses{0};   ///< Open tasks that hold a RemoteBuffer of it.
};

class SegmentTable;

/// A thread that reads entries says since when, while it does.
class SegmentReader {
 public:
  class Section {
   public:
    inline Section(SegmentReader& reader, const SegmentTable& table) noexcept;
    ~Section() { reader_.since_.store(0, std::memory_order_release); }
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;

   private:
    SegmentReader& reader_;
  };

 private:
  friend class SegmentTable;
  std::atomic<uint64_t> since_{0};  // an epoch of the table; 0: not reading
};

class SegmentTable {
 public:
  SegmentTable() = default;
  ~SegmentTable() {
    for (Place& place : places_) delete place.segment.load(std::memory_order_relaxed);
  }
  SegmentTable(const SegmentTable&) = delete;
  SegmentTable& operator=(const SegmentTable&) = delete;

  static constexpr uint32_t kPlaces = 4096;

  OpenSegment* find(SegmentHandle handle) const noexcept {
    const auto index = static_cast<uint32_t>(handle);
    if (index >= kPlaces) return nullptr;
    const uint32_t generation = places_[index].generation.load(std::memory_order_acquire);
    if (generation != static_cast<uint32_t>(static_cast<uint64_t>(handle) >> 32)) return nullptr;
    OpenSegment* found = places_[index].segment.load();
    return places_[index].generation.load(std::memory_order_acquire) == generation ? found : nullptr;
  }

  /// The handle of an entry like @p segment that is open already (opened once more), or of @p segment, taken over.
  Code open(std::unique_ptr<OpenSegment> segment, SegmentHandle* out) {
    reclaim();
    uint32_t free = kPlaces;
    for (uint32_t i = 0; i < kPlaces; ++i) {
      OpenSegment* at = places_[i].segment.load(std::memory_order_relaxed);
      if (at == nullptr) {
        if (free == kPlaces) free = i;
        continue;
      }
      if (at->peer != segment->peer || at->peer_generation != segment->peer_generation || at->name != segment->name ||
          !at->alive.load() || at->ended.load() ||
          at->buffers != segment->buffers)  // the peer may have exported other memory since
        continue;
      ++at->opens;
      *out = handle(i);
      return Code::kOk;
    }
    if (free == kPlaces) return Code::kLimit;
    places_[free].segment.store(segment.release(), std::memory_order_release);
    *out = handle(free);
    return Code::kOk;
  }

  Code close(SegmentHandle which) {
    const OpenSegment* found = find(which);
    if (found == nullptr) return Code::kStale;
    Place& place = places_[static_cast<uint32_t>(which)];
    OpenSegment* segment = place.segment.load(std::memory_order_relaxed);
    if (--segment->opens != 0) return Code::kOk;
    place.generation.fetch_add(1, std::memory_order_acq_rel);
    place.segment.store(nullptr);
    closed_.push_back({std::unique_ptr<OpenSegment>(segment), epoch_.fetch_add(1)});
    reclaim();
    return Code::kOk;
  }

  void peer_lost(PeerId peer, uint16_t generation) noexcept {
    for (const Place& place : places_)
      if (OpenSegment* s = place.segment.load(std::memory_order_relaxed);
          s != nullptr && s->peer == peer && s->peer_generation == generation)
        s->alive.store(false);
  }

  /// The peer takes the buffers @p ids (sorted) back. @return whether no open task uses the segments that they were in.
  bool buffers_ended(PeerId peer, uint16_t generation, const std::vector<uint64_t>& ids) noexcept {
    bool unused = true;
    const auto ends = [&ids](const OpenSegment::Buffer& b) { return std::ranges::binary_search(ids, uint64_t{b.id}); };
    const auto end = [&](OpenSegment& s) {
      if (s.peer != peer || s.peer_generation != generation || std::ranges::none_of(s.buffers, ends)) return;
      s.ended.store(true);
      if (s.uses.load() != 0) unused = false;
    };
    for (const Place& place : places_)
      if (OpenSegment* s = place.segment.load(std::memory_order_relaxed); s != nullptr) end(*s);
    for (const Closed& closed : closed_) end(*closed.segment);
    return unused;
  }

  /// Readers come and go by themselves.
  void add_reader(SegmentReader* reader) {
    const std::lock_guard lock(readers_lock_);
    readers_.push_back(reader);
  }
  void remove_reader(SegmentReader* reader) {
    const std::lock_guard lock(readers_lock_);
    std::erase(readers_, reader);
  }
  size_t kept() const noexcept { return closed_.size(); }  ///< Closed entries that are not freed yet.

 private:
  friend class SegmentReader::Section;
  struct Closed {
    std::unique_ptr<OpenSegment> segment;
    uint64_t epoch;  // readers that began later cannot have seen it
  };
  void reclaim() {
    if (closed_.empty()) return;
    uint64_t oldest = UINT64_MAX;
    {
      const std::lock_guard lock(readers_lock_);
      for (const SegmentReader* reader : readers_)
        if (const uint64_t since = reader->since_.load(); since != 0) oldest = std::min(oldest, since);
    }
    std::erase_if(closed_, [&](const Closed& c) { return c.epoch < oldest && c.segment->uses.load() == 0; });
  }
  struct Place {
    std::atomic<uint32_t> generation{1};
    std::atomic<OpenSegment*> segment{nullptr};
  };
  SegmentHandle handle(uint32_t i) const noexcept {
    return SegmentHandle{uint64_t{places_[i].generation.load(std::memory_order_relaxed)} << 32 | i};
  }
  std::array<Place, kPlaces> places_;
  std::vector<Closed> closed_;
  std::atomic<uint64_t> epoch_{1};
  std::mutex readers_lock_;
  std::vector<SegmentReader*> readers_;
};

inline SegmentReader::Section::Section(SegmentReader& reader, const SegmentTable& table) noexcept : reader_(reader) {
  reader_.since_.store(table.epoch_.load(std::memory_order_relaxed));
}

}  // namespace sluice
