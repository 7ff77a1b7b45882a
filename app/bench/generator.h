/// @file generator.h
/// What makes the load: batches on a port, always as many in flight as the depth says.
///
/// Model    A generator is idle until it is given a port, and then again between slices. A slice ends by time or by
///          count; then what is in flight ends, and the generator is idle. What a batch holds is the derived class's.
/// Threads  turn(): the worker's lcore or a thread of the bench's. The rest: the main thread while idle().
/// Memory   give_port() allocates; a turn does not.
/// Errors   The first refusal or failure ends the slice and is kept; the tasks in flight still end.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "agent/agent.h"
#include "engine/port.h"
#include "stats/histogram.h"

namespace sluice::bench {

uint64_t ticks_now() noexcept;
double ticks_per_ns() noexcept;  ///< @pre EAL is up.

struct Slice {
  uint64_t ticks = 0;    ///< How long new batches start; 0: by count.
  uint64_t batches = 0;  ///< How many start; 0: by time.
};

/// What a generator did since reset().
struct Score {
  uint64_t tasks = 0, failed = 0, bytes = 0;
  uint64_t first_tick = 0, last_tick = 0;  ///< Of the last slice.
  uint64_t submit_ticks = 0, submitted = 0;
  Code error = Code::kOk;
  Histogram latency_ns;
};

class Generator : public Agent {
 public:
  void give_port(std::unique_ptr<Port> port, uint32_t depth, uint32_t batch);
  void take_port() noexcept { port_.reset(); }

  bool idle() const noexcept { return !running_.load(std::memory_order_acquire); }
  void run(const Slice& slice) noexcept;  ///< @pre idle() and a port was given.
  uint32_t turn(uint64_t now) noexcept final;

  void reset() noexcept;
  const Score& score() const noexcept { return score_; }

 protected:
  struct Flight {
    BatchHandle batch{};
    uint64_t since = 0;
    uint32_t ended = 0;  ///< Tasks of it that are final.
    bool up = false;
  };
  /// Put a batch on its way as flight @p index. @return what refused it; nothing is on its way then.
  virtual Code start_batch(uint32_t index, BatchHandle* batch) noexcept = 0;
  /// Tasks of flight @p index that are done by now; all of them when @p status is final and well.
  virtual uint32_t done_of(const BatchStatus& status) const noexcept = 0;
  /// Flight @p index is final and well.
  virtual void batch_done(uint32_t index) noexcept = 0;

  Code submit(BatchHandle batch, std::span<const Request> requests) noexcept;  ///< On the port, timed.
  Port& port() noexcept { return *port_; }
  uint32_t batch_tasks() const noexcept { return batch_; }
  uint64_t task_bytes_ = 0;

 private:
  uint32_t begin(uint64_t now) noexcept;
  uint32_t reap(uint64_t now) noexcept;
  void end_flight(uint32_t index, const BatchStatus& status) noexcept;

  std::unique_ptr<Port> port_;
  std::vector<Flight> flights_;
  Slice slice_;
  Score score_;
  uint64_t until_ = 0, left_ = 0;
  uint32_t batch_ = 1, up_ = 0;
  double per_ns_ = 1;
  bool fresh_ = false, ending_ = false;
  std::atomic<bool> running_{false};
};

}  // namespace sluice::bench
