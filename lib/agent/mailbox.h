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

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <type_traits>

#include "base/status.h"

// TSan does not see the barriers of rte_ring (test/tsan.supp): it is told what they order.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SLUICE_TSAN 1
extern "C" void __tsan_acquire(void* at);
extern "C" void __tsan_release(void* at);
#endif
#endif

namespace sluice {

template <typename T>
class Mailbox {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 16 == 0);

 public:
  /// Room for @p count messages (a power of two) less one.
  Status open(uint32_t count) {
    if (!std::has_single_bit(count) || uint64_t{count} * kUnits > RTE_RING_SZ_MASK)
      return {Code::kBadArgument, "mailbox of " + std::to_string(count) + " messages: not a power of two, or too many"};
    // The ring's head, and its elements behind it. (rte_ring_get_memsize_elem has no C linkage in DPDK 24.11.)
    const size_t bytes = (sizeof(rte_ring) + size_t{count} * sizeof(T) + RTE_CACHE_LINE_SIZE - 1) /
                         RTE_CACHE_LINE_SIZE * RTE_CACHE_LINE_SIZE;
    void* memory = std::aligned_alloc(RTE_CACHE_LINE_SIZE, bytes);
    if (memory == nullptr) return {Code::kNoMemory, "mailbox of " + std::to_string(bytes) + " bytes"};
    ring_.reset(static_cast<rte_ring*>(memory));
    if (rte_ring_init(ring_.get(), "mailbox", count * kUnits, RING_F_SP_ENQ | RING_F_SC_DEQ) != 0)
      return Code::kBadArgument;
    return Code::kOk;
  }

  bool put(const T& message) noexcept {
    before_put();
    return rte_ring_sp_enqueue_bulk_elem(ring_.get(), &message, kUnit, kUnits, nullptr) != 0;
  }
  uint32_t put(std::span<const T> messages) noexcept {
    before_put();
    const uint32_t n = std::min(static_cast<uint32_t>(messages.size()), room());
    return n == 0 ? 0
                  : rte_ring_sp_enqueue_bulk_elem(ring_.get(), messages.data(), kUnit, n * kUnits, nullptr) / kUnits;
  }
  uint32_t take(std::span<T> out) noexcept {
    const uint32_t n = std::min(static_cast<uint32_t>(out.size()), rte_ring_count(ring_.get()) / kUnits);
    if (n == 0) return 0;
    const uint32_t taken = rte_ring_sc_dequeue_bulk_elem(ring_.get(), out.data(), kUnit, n * kUnits, nullptr) / kUnits;
    after_take();
    return taken;
  }
  bool empty() const noexcept { return rte_ring_empty(ring_.get()) != 0; }
  uint32_t room() const noexcept { return rte_ring_free_count(ring_.get()) / kUnits; }

 private:
  // rte_ring copies elements of 16 bytes four times faster than longer ones, so a message is several of them; a
  // message is put and taken whole, since each side moves by multiples.
  static constexpr uint32_t kUnit = 16, kUnits = sizeof(T) / kUnit;
  void before_put() noexcept {
#ifdef SLUICE_TSAN
    __tsan_release(ring_.get());
#endif
  }
  void after_take() noexcept {
#ifdef SLUICE_TSAN
    __tsan_acquire(ring_.get());
#endif
  }
  struct Free {
    void operator()(rte_ring* ring) const noexcept { std::free(ring); }
  };
  std::unique_ptr<rte_ring, Free> ring_;
};

}  // namespace sluice
