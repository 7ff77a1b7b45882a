// hot: what comes back to a one-sided worker
#include "agent/rma_worker.h"

namespace sluice {
namespace {
constexpr uint8_t kMaxTries = 6;            // posts of one op before its tasks fail
constexpr uint64_t kRetryDelayUs = 20'000;  // before the first that goes the same way again: a death is told by then
}  // namespace

uint32_t RmaWorker::reap(uint16_t r) noexcept {
  Rail& rail = rails_[r];
  if (rail.out == rail.staged_count && !rail.gate.due()) return 0;  // nothing of ours is out: peers' ops need turns too
  std::array<Completion, kMaxBurst> done;
  const uint32_t n = rail.p.queue->poll(done);
  rail.gate.polled(n);
  for (uint32_t i = 0; i < n; ++i) on_home(r, done[i]);
  return n;
}

void RmaWorker::on_home(uint16_t r, const Completion& c) noexcept {
  const auto index = static_cast<uint32_t>(c.cookie);
  if (c.kind != CompletionKind::kOp || index >= ops_.size() ||
      ops_[index].generation != static_cast<uint32_t>(c.cookie >> 32) || ops_[index].state != RmaOp::State::kPosted)
    return;
  RmaOp& op = ops_[index];
  Rail& rail = rails_[r];
  RmaLane& lane = *lanes_[raw(op.lane)];  // it stays as long as an op of it is out
  RmaLane::Path& path = lane.paths[r];
  --rail.out;
  --path.out;
  const bool ok = c.code == Code::kOk;
  rail.cost.home(op.bytes, now_, ok);
  op.code = c.code;
  if (ok) [[likely]] {
    if (!path.monitor.open()) path.monitor.success();
    lane.moved_at = path.moved_at = now_;
  } else if (!rail.down && lane.state == RmaLane::State::kOpen) {
    (void)path.monitor.error(now_, p_.ticks_per_us, op.probe);
    op.failed = static_cast<uint16_t>(op.failed | 1u << r);
  }
  if (op.flush) {
    on_flushed(lane, r, op);
    free_op(index);
    --lane.out;
  } else if (ok && !op.read && !rail.p.placed && lane.state == RmaLane::State::kOpen) {
    op.state = RmaOp::State::kUnplaced;
    push(path.unplaced, index);
  } else {
    if (ok && !op.read && !rail.p.placed) op.code = lane.fail_code;  // nobody will say whether it is placed
    settle(lane, index);
  }
  if (lane.state == RmaLane::State::kOpen) list(lane);
}

// Every write before it on the path is placed, or has to be written again.
void RmaWorker::on_flushed(RmaLane& lane, uint16_t r, const RmaOp& flush) noexcept {
  RmaLane::Path& path = lane.paths[r];
  while (path.flushing.head != kNoOp) {
    const uint32_t index = pop(path.flushing);
    ops_[index].code = flush.code;
    settle(lane, index);
  }
}

// An op is home: its tasks have these bytes, or it is tried again, or its tasks fail.
void RmaWorker::settle(RmaLane& lane, uint32_t index) noexcept {
  RmaOp& op = ops_[index];
  if (op.code == Code::kBadArgument) op.code = Code::kStale;  // the peer's device refused key or range
  const bool again = op.code != Code::kOk && op.code != Code::kStale && lane.state == RmaLane::State::kOpen &&
                     ++op.tries < kMaxTries && tasks_[op.task].why == Code::kOk;
  if (!again) return resolve(lane, index);
  op.state = RmaOp::State::kRetry;
  bool elsewhere = false;
  for (uint16_t r = 0; r < rail_count_; ++r)
    elsewhere = elsewhere || ((op.failed >> r & 1) == 0 && !rails_[r].down && lane.paths[r].monitor.open());
  if (!elsewhere) lane.retry_at = now_ + (kRetryDelayUs << op.tries) / 2 * p_.ticks_per_us;
  push(lane.retry, index);
}

void RmaWorker::resolve(RmaLane& lane, uint32_t index) noexcept {
  RmaOp& op = ops_[index];
  const Code code = lane.state == RmaLane::State::kFailed && op.code != Code::kOk ? lane.fail_code : op.code;
  uint32_t at = op.task;
  for (uint32_t i = 0; i < op.tasks; ++i) {
    RmaTask& task = tasks_[at];
    const uint32_t next = task.next;
    --task.ops;
    if (code != Code::kOk && (task.why == Code::kOk || task.state == RmaTask::State::kQueued)) {
      if (task.state == RmaTask::State::kQueued)
        give_up(lane, at, code);  // no more of it is cut; it ends with its other ops
      else
        task.why = code;
    }
    if (task.state == RmaTask::State::kOut && task.ops == 0) finish(lane, at);
    at = next;
  }
  free_op(index);
  --lane.out;
}

}  // namespace sluice
