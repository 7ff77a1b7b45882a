/// @file ring.h
/// A ring of message cells in a shared-memory file: one direction between two loop queues.
///
/// Model    One writer, one reader. The reader creates the file and removes it; the writer opens it by name. The
///          writer publishes `tail`, the reader `head`; both count messages and never wrap.
/// Threads  Writer and reader may be different threads or processes; the indices carry acquire and release.
/// Memory   A sparse file in /dev/shm: a page costs memory once a message has touched it. No descriptor stays open.
///          Its mode is 0600. A process of the same user that truncates it ends ours by SIGBUS, as it could by a
///          signal: only a sealed memfd refuses that, and a writer finds one only while its descriptor is open.
/// Errors   create() gives text. Whoever reads an index or a length of the other side's checks it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/status.h"
#include "loop/address.h"

namespace sluice {

enum class RingState : uint32_t {
  kOpen,
  kPathClosed,  ///< The reader gave up the path; it may make a new ring of the same name.
  kQueueGone,   ///< The reader's queue is no more.
};

struct RingHead {
  std::atomic<uint32_t> magic;  ///< Stored last by the creator.
  uint32_t cells;
  uint32_t cell_bytes;
  std::atomic<RingState> state;
  uint64_t owner_start_time;
  alignas(kCacheLine) std::atomic<uint64_t> tail;
  alignas(kCacheLine) std::atomic<uint64_t> head;
};

struct CellHead {
  std::atomic<uint32_t> bytes;
};
inline constexpr size_t kCellHeadBytes = kCacheLine;  // the payload behind it is aligned for wide copies

inline std::byte* payload(CellHead& cell) noexcept { return reinterpret_cast<std::byte*>(&cell) + kCellHeadBytes; }
inline const std::byte* payload(const CellHead& cell) noexcept {
  return reinterpret_cast<const std::byte*>(&cell) + kCellHeadBytes;
}

inline constexpr size_t kRingHeadBytes = 4096;

/// One side's mapping of a ring.
class Ring {
 public:
  Ring() noexcept = default;
  Ring(Ring&& other) noexcept { swap(other); }
  Ring& operator=(Ring&& other) noexcept {
    Ring old(std::move(other));
    swap(old);
    return *this;
  }
  ~Ring();

  /// The file through which @p writer sends to @p reader.
  static std::string name(const LoopAddress& reader, const LoopAddress& writer);
  /// Make the file @p name for messages to @p reader. @return kExists, kNoMemory, kSystemError.
  static Status create(const std::string& name, const LoopAddress& reader, uint32_t cells, Ring* out);
  /// Map the file @p name of @p reader's. @return kNotFound: not there, or not finished yet; kDeviceError.
  static Code open(const std::string& name, const LoopAddress& reader, Ring* out) noexcept;
  /// Remove the files whose owners have ended.
  static void sweep() noexcept;

  explicit operator bool() const noexcept { return head_ != nullptr; }
  RingHead& head() const noexcept { return *head_; }
  uint64_t cells() const noexcept { return mask_ + 1; }
  CellHead& cell(uint64_t index) const noexcept {
    return *reinterpret_cast<CellHead*>(cells_ + (index & mask_) * cell_bytes_);
  }
  /// Tell the writer that nobody reads here any more. @pre this side is the reader.
  void retire(RingState state) const noexcept { head_->state.store(state, std::memory_order_release); }

 private:
  void swap(Ring& other) noexcept;
  bool map(int fd, uint64_t bytes) noexcept;

  RingHead* head_ = nullptr;
  std::byte* cells_ = nullptr;
  uint64_t mask_ = 0;
  uint64_t cell_bytes_ = 0;
  uint64_t mapped_bytes_ = 0;
  std::string owned_name_;  // the reader's; empty at the writer
};

}  // namespace sluice
