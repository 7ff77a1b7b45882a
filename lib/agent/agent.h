/// @file agent.h
/// An agent: something that is turned in a loop on a lcore.
///
/// Model    turn(now) does a bounded amount of work and returns how much it found. Agents that share a lcore are
///          turned one after another by a runner; they know neither each other's threads nor their own.
/// Threads  turn() is called by one thread at a time.
/// Memory   A turn does not allocate, lock, make system calls or read a clock. (Placing checks the lease against a
///          TickSource that is handed in, so that a simulator can hand in its own.)
/// Errors   None.
#pragma once

#include <cstdint>

namespace sluice {

/// Reads the clock that turn(now) is given: TSC ticks in production, virtual ticks in a simulator.
using TickSource = uint64_t (*)() noexcept;

class Agent {
 public:
  virtual ~Agent() = default;
  /// @return how much work was done; 0: idle.
  virtual uint32_t turn(uint64_t now) noexcept = 0;
};

/// Thins out the polling of a queue whose empty poll is expensive: after a run of empty polls it skips turns.
class PollGate {
 public:
  explicit PollGate(bool costly) noexcept : costly_(costly) {}
  /// Whether this turn should poll.
  bool due() noexcept {
    if (skip_ == 0) return true;
    --skip_;
    return false;
  }
  void polled(uint32_t found) noexcept {
    if (found != 0) {
      empty_ = 0;
    } else if (costly_ && ++empty_ >= kPatience) {
      skip_ = empty_ < kLazy ? 1 : kMaxSkip;
      if (empty_ > kLazy) empty_ = kLazy;
    }
  }

 private:
  static constexpr uint32_t kPatience = 64, kLazy = 4096, kMaxSkip = 7;
  uint32_t empty_ = 0, skip_ = 0;
  const bool costly_;
};

}  // namespace sluice
