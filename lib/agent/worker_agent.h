/// @file worker_agent.h
/// What the engine knows of a worker, whichever protocol it speaks.
///
/// Model    A worker owns queues, lanes and their tasks. It is told by ToWorker, tells by ToControl, and takes tasks
///          from ports. TaskEnds gathers the ends of one port's tasks and puts them together.
/// Threads  turn() on its lcore. stats() from any thread (relaxed).
/// Memory   Nothing allocates in a turn.
/// Errors   None of its own.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "agent/agent.h"
#include "agent/port_rings.h"
#include "agent/worker_stats.h"
#include "xport/driver.h"

namespace sluice {

class WorkerAgent : public Agent {
 public:
  const WorkerStats& stats() const noexcept { return stats_; }
  WorkerStats& stats() noexcept { return stats_; }  ///< For who begins anew with the peak in it.

 protected:
  WorkerStats stats_;
};

class TaskEnds {
 public:
  TaskEnds(WorkerId id, WorkerStats* stats) noexcept : id_(id), stats_(stats) {}

  /// @p port: null when the port is gone, and nobody is told.
  void put(PortRings* port, const TaskDone& done) noexcept {
    if (port == nullptr) return;
    if (port != port_ || count_ == done_.size()) flush();
    port_ = port;
    done_[count_++] = done;
  }
  void flush() noexcept {
    if (count_ == 0) return;
    (void)port_->completions(id_).put(std::span<const TaskDone>{done_.data(), count_});  // never full
    uint64_t ends[3] = {};
    for (uint32_t i = 0; i < count_; ++i) ++ends[static_cast<size_t>(done_[i].end)];
    WorkerStats::add(stats_->tasks_done, ends[0]);
    WorkerStats::add(stats_->tasks_failed, ends[1]);
    WorkerStats::add(stats_->tasks_cancelled, ends[2]);
    count_ = 0;
  }

 private:
  const WorkerId id_;
  WorkerStats* const stats_;
  PortRings* port_ = nullptr;  // whose ends are in done_
  std::array<TaskDone, kMaxBurst> done_;
  uint32_t count_ = 0;
};

}  // namespace sluice
