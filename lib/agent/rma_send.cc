// hot: the sending half of a one-sided worker's turn: tasks into ops, ops onto rails
#include <algorithm>

#include "agent/rma_worker.h"

namespace sluice {
namespace {
constexpr uint32_t kLaneBurst = 64;    // ops that one lane stages in a turn, so that others have theirs
constexpr uint64_t kHintUs = 5000;     // between two hints to a peer
constexpr uint32_t kProbeEvery = 100;  // one op in so many takes a rail that is not the cheapest

// The chunk of a registration that holds byte @p offset. They are in order and without gaps.
const ChunkKey& chunk_of(const std::vector<ChunkKey>& keys, uint64_t offset) noexcept {
  if (keys.size() == 1) [[likely]]
    return keys[0];
  const auto behind = std::upper_bound(keys.begin(), keys.end(), offset,
                                       [](uint64_t at, const ChunkKey& key) { return at < key.offset; });
  return *(behind - 1);
}
}  // namespace

// @pre there is one.
uint32_t RmaWorker::take_op() noexcept {
  const uint32_t index = free_op_;
  free_op_ = ops_[index].next;
  --free_ops_;
  return index;
}

void RmaWorker::free_op(uint32_t index) noexcept {
  RmaOp& op = ops_[index];
  op.state = RmaOp::State::kFree;
  ++op.generation;
  op.next = free_op_;
  free_op_ = index;
  ++free_ops_;
}

// Cut and stage what the rails have room for. A lane that can go no further is listed again by what comes home.
uint32_t RmaWorker::send(RmaLane& lane) noexcept {
  if (lane.state != RmaLane::State::kOpen) return 0;
  keep_awake(lane);
  uint32_t staged = 0;
  for (uint16_t r = 0; r < rail_count_; ++r) {
    const RmaLane::Path& path = lane.paths[r];
    if (path.unplaced.head == kNoOp || path.flushing.head != kNoOp || free_op_ == kNoOp) continue;
    if (!usable(lane, r)) continue;
    stage_flush(lane, r);
    ++staged;
  }
  bool more = true;
  for (uint32_t i = 0; i < kLaneBurst && more; ++i) {
    const bool again = lane.retry.head != kNoOp && now_ >= lane.retry_at;
    if (!again && lane.queued.head == kNoTask) return staged;
    more = again ? stage_retry(lane) : stage_next(lane);
    staged += more ? 1 : 0;
  }
  list(lane);
  return staged;
}

// Adaptive idling sleeps only after more time than this without work (runner.cc), and a frame is work.
void RmaWorker::keep_awake(RmaLane& lane) noexcept {
  if (!p_.peers_poll || lane.tasks == 0 || now_ < lane.hint_at) return;
  lane.hint_at = now_ + kHintUs * p_.ticks_per_us;
  tell(message(ToControl::Kind::kWaiting, lane));
}

// Whether @p rail takes another op of this lane. A lane may always have one op on a rail, and more as long as it has
// less than three times what is left free: peers that answer nothing cannot take all of it.
bool RmaWorker::usable(RmaLane& lane, uint16_t rail) noexcept {
  Rail& r = rails_[rail];
  RmaLane::Path& path = lane.paths[rail];
  if (r.down || r.staged_count == r.staged.size() || r.out == r.depth) return false;
  const uint32_t free = r.depth - r.out;
  if (path.out != 0 && lane_count_ > 1 && path.out >= 3 * free) return false;
  if (path.connected) [[likely]]
    return true;
  if (path.broken) return false;
  path.connected = r.p.queue->connect(lane.params.path, path.address).ok();
  path.broken = !path.connected;
  if (path.broken) tell_if_lost(lane);
  return path.connected;
}

// Without any path the peer is given up; whoever needs it connects anew.
void RmaWorker::tell_if_lost(const RmaLane& lane) noexcept {
  if (!std::all_of(lane.paths.begin(), lane.paths.end(), [](const auto& p) { return p.broken; })) return;
  ToControl m = message(ToControl::Kind::kViolation, lane);
  m.code = Code::kDeviceError;
  tell(m);
}

// The rail that is expected to be through first; in one of a hundred, any that works, to learn how it is by now. A path
// that is paused gets one probe when its pause is over. One that is paused, or on which the op failed before, is taken
// only when there is no other.
// @return kNoRail: no rail has room.
uint16_t RmaWorker::choose(RmaLane& lane, const RmaTask& task, uint64_t bytes, uint16_t failed, bool* probe) noexcept {
  const auto rails = static_cast<uint16_t>(rails_.size());
  *probe = false;
  if (rails == 1) [[likely]]
    return usable(lane, 0) ? 0 : kNoRail;
  const bool look = ++probe_turn_ % kProbeEvery == 0;
  const auto first = static_cast<uint16_t>(look ? probe_turn_ / kProbeEvery % rails : 0);
  uint16_t best = kNoRail, spare = kNoRail;
  bool any = false;  // even if it has no room now: worth waiting for
  double least = 0;
  for (uint16_t i = 0; i < rails && !(look && best != kNoRail); ++i) {
    const auto r = static_cast<uint16_t>((first + i) % rails);
    const PathMonitor& monitor = lane.paths[r].monitor;
    if (rails_[r].down || lane.paths[r].broken) continue;
    if (monitor.may_probe(now_) && usable(lane, r)) {
      *probe = true;
      return r;
    }
    if (!monitor.open() || (failed >> r & 1) != 0) {
      if (spare == kNoRail || monitor.paused_until() < lane.paths[spare].monitor.paused_until()) spare = r;
      continue;
    }
    any = true;
    if (!usable(lane, r)) continue;
    const double cost = rails_[r].cost.of(bytes, penalty(r, *task.region));
    if (best != kNoRail && cost >= least) continue;
    best = r;
    least = cost;
  }
  if (any || spare == kNoRail) return best;
  return usable(lane, spare) ? spare : kNoRail;
}

uint32_t RmaWorker::penalty(uint16_t rail, const Region& region) const noexcept {
  const auto& penalties = rails_[rail].p.penalty;
  const auto numa = static_cast<size_t>(region.numa_node());  // -1, unknown, is beyond every end
  return numa < penalties.size() ? penalties[numa] : 1;
}

bool RmaWorker::stage_retry(RmaLane& lane) noexcept {
  RmaOp& op = ops_[lane.retry.head];
  const RmaTask& task = tasks_[op.task];
  bool probe = false;
  const uint16_t rail = choose(lane, task, op.bytes, op.failed, &probe);
  if (rail == kNoRail) {
    WorkerStats::add(stats_.stalls_depth, 1);
    return false;
  }
  stage(lane, pop(lane.retry), rail, probe);
  WorkerStats::add(stats_.resends, 1);
  return true;
}

// One op from the head of the queue, up to the nearest seam of either side.
bool RmaWorker::stage_next(RmaLane& lane) noexcept {
  RmaTask& task = tasks_[lane.queued.head];
  const uint64_t at = task.offset + task.cut;
  const RemoteBuffer::Chunk& there = task.remote->chunks[task.remote->chunk_at(at)];
  uint64_t bytes = std::min({task.length - task.cut, p_.op_bytes, there.offset + there.length - at});
  bool probe = false;
  const uint16_t rail = free_ops_ <= rails_.size() ? kNoRail : choose(lane, task, bytes, 0, &probe);
  if (rail == kNoRail) {
    WorkerStats::add(stats_.stalls_depth, 1);
    return false;
  }
  const auto from = static_cast<uint64_t>(task.local + task.cut - task.region->base());
  const ChunkKey& here = chunk_of(task.region->keys(rail), from);
  bytes = std::min(bytes, here.offset + here.length - from);
  const uint32_t index = take_op();
  RmaOp& op = ops_[index];
  op.offset = task.cut;
  op.bytes = bytes;
  op.task = lane.queued.head;
  op.tasks = 1;
  op.lane = lane.params.id;
  op.failed = 0;
  op.tries = 0;
  op.read = task.read;
  op.flush = false;
  op.code = Code::kOk;
  const bool whole = bytes == task.length;
  task.cut += bytes;
  ++task.ops;
  if (task.cut == task.length) {
    unlink(lane.queued, op.task);
    task.state = RmaTask::State::kOut;
    task.next = kNoTask;
    if (whole) merge(lane, op, here);
  }
  ++lane.out;
  stage(lane, index, rail, probe);
  return true;
}

// Whole tasks that follow the one of @p op, in the queue and in memory on both sides, go with it.
void RmaWorker::merge(RmaLane& lane, RmaOp& op, const ChunkKey& chunk) noexcept {
  uint32_t last = op.task;
  while (lane.queued.head != kNoTask) {
    const uint32_t index = lane.queued.head;
    RmaTask& next = tasks_[index];
    const RmaTask& before = tasks_[last];
    if (next.local != before.local + before.length || next.offset != before.offset + before.length ||
        next.read != before.read || next.remote != before.remote || next.region != before.region || next.cut != 0 ||
        op.bytes + next.length > p_.op_bytes)
      return;
    const RemoteBuffer::Chunk& there = next.remote->chunks[next.remote->chunk_at(before.offset)];
    const auto from = static_cast<uint64_t>(next.local - next.region->base());
    if (next.offset + next.length > there.offset + there.length || from + next.length > chunk.offset + chunk.length)
      return;
    unlink(lane.queued, index);
    next.state = RmaTask::State::kOut;
    next.next = kNoTask;
    next.cut = next.length;
    ++next.ops;
    tasks_[last].next = index;
    last = index;
    op.bytes += next.length;
    ++op.tasks;
  }
}

void RmaWorker::stage(RmaLane& lane, uint32_t index, uint16_t rail, bool probe) noexcept {
  Rail& r = rails_[rail];
  RmaLane::Path& path = lane.paths[rail];
  RmaOp& op = ops_[index];
  const RmaTask& task = tasks_[op.task];
  const uint64_t at = task.offset + op.offset;
  const uint32_t there = task.remote->chunk_at(at);
  const RemoteBuffer::Key& key = task.remote->key(there, path.peer_rail);
  const auto from = static_cast<uint64_t>(task.local + op.offset - task.region->base());
  op.rail = rail;
  op.state = RmaOp::State::kStaged;
  op.probe = probe;
  if (probe) path.monitor.probe_sent();
  const auto& keys = task.region->keys(rail);
  r.staged[r.staged_count++] = Op{op.read ? OpKind::kRead : OpKind::kWrite,
                                  lane.params.path,
                                  uint64_t{op.generation} << 32 | index,
                                  task.local + op.offset,
                                  keys.empty() ? 0 : chunk_of(keys, from).local_desc,
                                  nullptr,
                                  0,
                                  static_cast<uint32_t>(op.bytes),
                                  0,
                                  key.addr + (at - task.remote->chunks[there].offset),
                                  key.key};
  ++r.out;
  if (path.out++ == 0) path.moved_at = now_;
  r.cost.sent(op.bytes, now_);
}

// A read of one byte behind the writes that the device has completed: they are placed when it is home.
void RmaWorker::stage_flush(RmaLane& lane, uint16_t rail) noexcept {
  Rail& r = rails_[rail];
  RmaLane::Path& path = lane.paths[rail];
  path.flushing = path.unplaced;
  path.unplaced = {};
  const RmaOp& write = ops_[path.flushing.head];
  const RmaTask& task = tasks_[write.task];
  const uint64_t at = task.offset + write.offset;
  const uint32_t there = task.remote->chunk_at(at);
  const RemoteBuffer::Key& key = task.remote->key(there, path.peer_rail);
  const uint32_t index = take_op();
  RmaOp& op = ops_[index];
  op.task = kNoTask;
  op.tasks = 0;
  op.bytes = 1;
  op.lane = lane.params.id;
  op.rail = rail;
  op.state = RmaOp::State::kStaged;
  op.read = op.flush = true;
  op.probe = false;
  r.staged[r.staged_count++] = Op{OpKind::kRead,
                                  lane.params.path,
                                  uint64_t{op.generation} << 32 | index,
                                  r.p.scratch,
                                  r.p.scratch_desc,
                                  nullptr,
                                  0,
                                  1,
                                  0,
                                  key.addr + (at - task.remote->chunks[there].offset),
                                  key.key};
  ++lane.out;
  ++r.out;
  if (path.out++ == 0) path.moved_at = now_;
  r.cost.sent(1, now_);
}

// Post the staged prefix that the queue takes; the rest stays staged, in order.
uint32_t RmaWorker::post(Rail& rail) noexcept {
  if (rail.staged_count == 0) return 0;
  const uint32_t n = rail.p.queue->post({rail.staged.data(), rail.staged_count});
  rail.p.queue->flush();
  for (uint32_t i = 0; i < n; ++i) ops_[rail.staged[i].cookie & UINT32_MAX].state = RmaOp::State::kPosted;
  if (n != rail.staged_count) {
    WorkerStats::add(stats_.stalls_depth, 1);
    std::copy(rail.staged.begin() + n, rail.staged.begin() + rail.staged_count, rail.staged.begin());
  }
  rail.staged_count -= n;
  WorkerStats::add(stats_.messages_sent, n);
  return n;
}

}  // namespace sluice
