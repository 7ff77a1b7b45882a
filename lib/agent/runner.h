/// @file runner.h
/// Turns a list of agents in a loop on one thread, and idles when none has work.
///
/// Model    Busy: never idles. Adaptive: after a run of empty turns it pauses, then yields, then sleeps, longer the
///          longer nothing comes. Agents do not know.
/// Threads  run() on the lcore; stop() from any thread.
/// Memory   Nothing is allocated after construction.
/// Errors   None.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "agent/agent.h"

namespace sluice {

enum class IdlePolicy : uint8_t { kBusy, kAdaptive };

class Runner {
 public:
  Runner(std::vector<Agent*> agents, IdlePolicy policy, TickSource ticks, uint64_t ticks_per_us)
      : agents_(std::move(agents)), policy_(policy), ticks_(ticks), ticks_per_us_(ticks_per_us) {}

  /// Until stop().
  void run() noexcept;
  void stop() noexcept { stop_.store(true, std::memory_order_relaxed); }
  /// One turn of each agent. @return the work they found.
  uint32_t turn() noexcept;

  /// The share of turns that found work, over the life of the runner: turns with work, and all turns.
  uint64_t busy_turns() const noexcept { return busy_.load(std::memory_order_relaxed); }
  uint64_t turns() const noexcept { return turns_.load(std::memory_order_relaxed); }

 private:
  void idle(uint64_t now) noexcept;

  const std::vector<Agent*> agents_;
  const IdlePolicy policy_;
  const TickSource ticks_;
  const uint64_t ticks_per_us_;
  uint64_t last_work_ = 0;
  std::atomic<uint64_t> busy_{0}, turns_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace sluice
