#include "agent/runner.h"

#include <rte_pause.h>
#include <sched.h>
#include <time.h>

namespace sluice {
namespace {
// How long without work until the next kind of idling begins, and how long it then sleeps.
struct IdleStep {
  uint64_t after_us;
  long sleep_ns;
};
constexpr uint64_t kYieldAfterUs = 20;
constexpr IdleStep kSleeps[] = {{1'000'000, 1'000'000}, {100'000, 400'000}, {20'000, 50'000}};
}  // namespace

uint32_t Runner::turn() noexcept {
  const uint64_t now = ticks_();
  uint32_t work = 0;
  for (Agent* agent : agents_) work += agent->turn(now);
  turns_.store(turns_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (work != 0) {
    busy_.store(busy_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    last_work_ = now;
  } else if (policy_ == IdlePolicy::kAdaptive) {
    idle(now);
  }
  return work;
}

void Runner::run() noexcept {
  last_work_ = ticks_();
  while (!stop_.load(std::memory_order_relaxed)) (void)turn();
}

void Runner::idle(uint64_t now) noexcept {
  const uint64_t idle_us = (now - last_work_) / ticks_per_us_;
  for (const IdleStep& step : kSleeps) {
    if (idle_us < step.after_us) continue;
    const timespec pause{0, step.sleep_ns};
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
    return;
  }
  if (idle_us >= kYieldAfterUs)
    (void)sched_yield();
  else
    rte_pause();
}

}  // namespace sluice
