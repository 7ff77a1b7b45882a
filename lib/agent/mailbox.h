/// @file mailbox.h
/// A bounded queue of small plain messages between two agents: an SP/SC rte_ring of fixed-size elements.
///
/// Model    One producer, one consumer. A full mailbox takes a prefix: the rest stays with the producer, who tries
///          again in its next turn.
/// Threads  put/room: the producer. take/empty: the consumer.
/// Memory   Allocated by open(); put and take do not allocate. Position-independent: the ring holds no pointers.
/// Errors   open says kNoMemory.
#pragma once

#include <rte_ring.h>
#include <rte_ring_elem.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <type_traits>

#include "base/status.h"

namespace sluice {

template <typename T>
class Mailbox {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 16 == 0);

 public:
  /// Room for @p count messages (a power of two) less one.
  Status open(uint32_t count) {
    const ssize_t bytes = rte_ring_get_memsize_elem(sizeof(T), count);
    if (bytes < 0) return {Code::kBadArgument, "mailbox of " + std::to_string(count) + " messages: not a power of two"};
    void* memory = std::aligned_alloc(RTE_CACHE_LINE_SIZE, static_cast<size_t>((bytes + 63) / 64 * 64));
    if (memory == nullptr) return {Code::kNoMemory, "mailbox of " + std::to_string(bytes) + " bytes"};
    ring_.reset(static_cast<rte_ring*>(memory));
    if (rte_ring_init(ring_.get(), "mailbox", count, RING_F_SP_ENQ | RING_F_SC_DEQ) != 0) return Code::kBadArgument;
    return Code::kOk;
  }

  bool put(const T& message) noexcept {
    return rte_ring_sp_enqueue_bulk_elem(ring_.get(), &message, sizeof(T), 1, nullptr) == 1;
  }
  uint32_t put(std::span<const T> messages) noexcept {
    return rte_ring_sp_enqueue_burst_elem(ring_.get(), messages.data(), sizeof(T),
                                          static_cast<unsigned>(messages.size()), nullptr);
  }
  uint32_t take(std::span<T> out) noexcept {
    return rte_ring_sc_dequeue_burst_elem(ring_.get(), out.data(), sizeof(T), static_cast<unsigned>(out.size()),
                                          nullptr);
  }
  bool empty() const noexcept { return rte_ring_empty(ring_.get()) != 0; }
  uint32_t room() const noexcept { return rte_ring_free_count(ring_.get()); }

 private:
  struct Free {
    void operator()(rte_ring* ring) const noexcept { std::free(ring); }
  };
  std::unique_ptr<rte_ring, Free> ring_;
};

}  // namespace sluice
