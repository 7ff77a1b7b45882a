#include "generator.h"

#include <rte_cycles.h>

namespace sluice::bench {

uint64_t ticks_now() noexcept { return rte_rdtsc(); }
double ticks_per_ns() noexcept { return static_cast<double>(rte_get_tsc_hz()) / 1e9; }

void Generator::give_port(std::unique_ptr<Port> port, uint32_t depth, uint32_t batch) {
  port_ = std::move(port);
  flights_.assign(depth, {});
  batch_ = batch;
  per_ns_ = ticks_per_ns();
}

void Generator::run(const Slice& slice) noexcept {
  slice_ = slice;
  fresh_ = true;
  ending_ = false;
  running_.store(true, std::memory_order_release);
}

void Generator::reset() noexcept { score_ = Score(); }

Code Generator::submit(BatchHandle batch, std::span<const Request> requests) noexcept {
  const uint64_t before = ticks_now();
  const Code code = port_->submit(batch, requests);
  score_.submit_ticks += ticks_now() - before;
  score_.submitted += requests.size();
  return code;
}

uint32_t Generator::turn(uint64_t now) noexcept {
  if (!running_.load(std::memory_order_acquire)) return 0;
  if (fresh_) {
    fresh_ = false;
    score_.first_tick = now;
    until_ = slice_.ticks != 0 ? now + slice_.ticks : UINT64_MAX;
    left_ = slice_.batches != 0 ? slice_.batches : UINT64_MAX;
  }
  uint32_t work = port_->poll();
  if (work != 0) work += reap(now);
  if (now >= until_ || left_ == 0) ending_ = true;
  if (!ending_) work += begin(now);
  if (ending_ && up_ == 0) {
    score_.last_tick = now;
    running_.store(false, std::memory_order_release);
  }
  return work;
}

uint32_t Generator::begin(uint64_t now) noexcept {
  if (up_ == flights_.size()) return 0;
  uint32_t begun = 0;
  for (uint32_t i = 0; i < flights_.size() && left_ != 0; ++i) {
    Flight& flight = flights_[i];
    if (flight.up) continue;
    if (const Code code = start_batch(i, &flight.batch); code != Code::kOk) {
      if (score_.error == Code::kOk) score_.error = code;
      score_.failed += batch_;
      ending_ = true;
      break;
    }
    flight.up = true;
    flight.ended = 0;
    flight.since = now;
    ++up_;
    ++begun;
    --left_;
  }
  return begun;
}

uint32_t Generator::reap(uint64_t now) noexcept {
  uint32_t ended = 0;
  for (uint32_t i = 0; i < flights_.size(); ++i) {
    Flight& flight = flights_[i];
    if (!flight.up) continue;
    BatchStatus status;
    if (port_->status(flight.batch, &status) != Code::kOk) continue;
    const auto ns = static_cast<uint64_t>(static_cast<double>(now - flight.since) / per_ns_);
    for (const uint32_t done = done_of(status); flight.ended < done; ++flight.ended) score_.latency_ns.record(ns);
    if (!status.final) continue;
    end_flight(i, status);
    ++ended;
  }
  return ended;
}

void Generator::end_flight(uint32_t index, const BatchStatus& status) noexcept {
  Flight& flight = flights_[index];
  const uint32_t done = done_of(status);
  score_.tasks += done;
  score_.bytes += done * task_bytes_;
  if (done == batch_) {
    batch_done(index);
  } else {
    score_.failed += batch_ - done;
    ending_ = true;
    TaskStatus task;
    for (uint32_t t = 0; t < status.tasks && score_.error == Code::kOk; ++t)
      if (port_->status(flight.batch, t, &task) == Code::kOk && task.state != TaskState::kDone)
        score_.error = task.code;
    if (score_.error == Code::kOk) score_.error = Code::kPeerRefused;  // a notify: the port does not tell why
  }
  flight.up = false;
  --up_;
  (void)port_->release(flight.batch);
}

}  // namespace sluice::bench
