/// @file worker_stats.h
/// Counters of one worker.
///
/// Model    Plain counters; the names say what they count.
/// Threads  Written by the worker alone, read by any thread (relaxed).
/// Memory   Plain data.
/// Errors   None.
#pragma once

#include <atomic>
#include <cstdint>

namespace sluice {

struct WorkerStats {
  using Counter = std::atomic<uint64_t>;
  Counter tasks_done{}, tasks_failed{}, tasks_cancelled{}, bytes_sent{}, bytes_received{}, messages_sent{},
      messages_received{}, messages_refused{}, lease_refusals{}, stale_messages{}, duplicates{}, waits{}, wait_max{},
      stalls_slot{}, stalls_depth{}, resends{}, tasks_open{}, peer_tasks{}, lanes{}, rx_posted{}, rx_out{}, tx_out{},
      lost_messages{};
  static void add(Counter& c, uint64_t n) noexcept {
    c.store(c.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  static void set(Counter& c, uint64_t n) noexcept { c.store(n, std::memory_order_relaxed); }
};

}  // namespace sluice
