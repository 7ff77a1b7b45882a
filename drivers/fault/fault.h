/// @file fault.h
/// A decorator that makes any device's queues misbehave by a seeded plan. For tests, simulators and trials.
///
/// Model    Each op that is offered draws at most one fault: by its number on the queue, or by chance. The same seed
///          and the same calls give the same faults; an op that the inner queue refuses draws the same fault again.
///          Time is counted in polls.
/// Threads  As the inner device and queue.
/// Memory   Tables are sized at open_queue(). Op buffers stay the caller's, also while an op is held back.
/// Errors   The law of one completion per accepted op holds for every fault. A swallowed op has its completion when
///          its path is closed or the queue shut down.
/// Order    kDelay holds back what follows on the path too; kReorder lets it pass.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "xport/driver.h"

namespace sluice {

enum class Fault : uint8_t {
  kDrop,     ///< Completes with kOk and is never delivered.
  kSwallow,  ///< Is never delivered and does not complete by itself.
  kFail,     ///< Completes with kDeviceError and is never delivered.
  kRefuse,   ///< The burst ends before this op.
  kDelay,    ///< Reaches the inner queue `polls` polls later, and so does all that follows on its path.
  kReorder,  ///< Reaches the inner queue `polls` polls later; what follows goes first.
  kLate,     ///< Delivered at once; its completion is withheld for `polls` polls.
};
inline constexpr size_t kFaultCount = 7;

struct FaultRule {
  uint32_t per_million = 0;  ///< Chance of an op; 0: never by chance.
  uint64_t at_op = 0;        ///< The op's number on its queue, from 1; 0: none.
  uint32_t polls = 0;        ///< For kDelay, kReorder, kLate.
};

struct FaultPlan {
  uint64_t seed = 1;
  std::array<FaultRule, kFaultCount> rules{};

  FaultRule& operator[](Fault fault) noexcept { return rules[static_cast<size_t>(fault)]; }
};

struct FaultCounts {
  std::array<uint64_t, kFaultCount> counts{};

  uint64_t operator[](Fault fault) const noexcept { return counts[static_cast<size_t>(fault)]; }
};

/// Wrap @p inner: each queue it opens follows @p plan, the n-th queue with seed + n.
std::unique_ptr<Device> make_fault_device(std::unique_ptr<Device> inner, const FaultPlan& plan);

/// Follow another plan from the next op on. @pre @p queue was opened by a fault device.
void set_fault_plan(Queue& queue, const FaultPlan& plan) noexcept;
/// How often each fault struck. @pre @p queue was opened by a fault device.
const FaultCounts& fault_counts(const Queue& queue) noexcept;

}  // namespace sluice
