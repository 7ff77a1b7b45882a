// hot: what a worker keeps about its lanes: lists, deadlines, reports, their end
#include <algorithm>

#include "agent/mutants.h"
#include "agent/worker.h"

namespace sluice {
namespace {
constexpr uint32_t kClearBurst = 64;  // reads refused in one turn: each is a message to control

void count_peer_tasks(Lane& lane, WorkerStats& stats) noexcept {
  const uint32_t now = lane.partial.open_tasks() + lane.job_count;
  WorkerStats::add(stats.peer_tasks, uint64_t{now} - lane.peer_tasks);
  lane.peer_tasks = now;
}
}  // namespace

void Worker::push(TaskList& list, uint32_t index) noexcept {
  tasks_[index].next = kNoTask;
  tasks_[index].prev = list.tail;
  (list.tail == kNoTask ? list.head : tasks_[list.tail].next) = index;
  list.tail = index;
  ++list.count;
}

uint32_t Worker::pop(TaskList& list) noexcept {
  const uint32_t index = list.head;
  unlink(list, index);
  return index;
}

void Worker::unlink(TaskList& list, uint32_t index) noexcept {
  const Task& task = tasks_[index];
  (task.prev == kNoTask ? list.head : tasks_[task.prev].next) = task.next;
  (task.next == kNoTask ? list.tail : tasks_[task.next].prev) = task.prev;
  --list.count;
}

void Worker::list(Lane& lane) noexcept {
  if (lane.listed) return;
  lane.listed = true;
  work_.push_back(lane.params.id);
}

void Worker::touch(Lane& lane) noexcept {
  if (lane.touched) return;
  lane.touched = true;
  touched_.push_back(lane.params.id);
}

void Worker::watch(Lane& lane) noexcept {
  if (lane.scanned) return;
  lane.scanned = true;
  scanned_.push_back(lane.params.id);
}

// Deadlines and credit probes of the lanes that have any; a lane without leaves the list.
uint32_t Worker::scan() noexcept {
  next_scan_ = now_ + scan_every_;
  WorkerStats::set(stats_.tasks_open, open_tasks_);
  WorkerStats::set(stats_.tx_out, tx_out_);
  if (p_.rx_pool->retiring() != 0) return_retired();
  if (p_.rx_pool->free_slots() != 0 || !refill_.empty()) top_up();
  WorkerStats::set(stats_.rx_out, refill_.size());
  const auto n = static_cast<uint32_t>(std::min<size_t>(scanned_.size(), kScanLanes));
  for (uint32_t i = 0; i < n; ++i) {
    const LaneId id = scanned_[i];
    Lane* lane = lanes_[raw(id)];
    if (lane == nullptr) continue;
    if (scan_lane(*lane))
      scanned_.push_back(id);
    else if (lanes_[raw(id)] != nullptr)
      lane->scanned = false;
  }
  scanned_.erase(scanned_.begin(), scanned_.begin() + n);
  if (scanned_.size() > n) next_scan_ = now_;  // more than one portion: go on next turn
  return 0;
}

// @return whether the lane still has something to watch.
bool Worker::scan_lane(Lane& lane) noexcept {
  if (lane.state == Lane::State::kFailed) {
    if (now_ < lane.give_up_at) return true;
    end_all(lane);
    return !try_close(lane);
  }
  const bool silent = now_ - lane.heard_at >= std::min(p_.lease, p_.task_timeout);
  for (uint32_t index = lane.oldest; index != kNoTask && tasks_[index].deadline <= now_;) {
    const uint32_t next = tasks_[index].newer;
    const Task::State state = tasks_[index].state;
    const bool held = state == Task::State::kAborting || (state == Task::State::kSent && !tasks_[index].read);
    if (!held && lane.moved_at != 0 && now_ - lane.moved_at < p_.task_timeout) {
      tasks_[index].deadline = lane.moved_at + p_.task_timeout;  // its turn is still to come
    } else if (!held) {
      give_up(lane, index, Code::kTimeout);
    } else if (!lane.stuck_told && (silent || now_ - tasks_[index].deadline >= p_.lease)) {
      lane.stuck_told = true;  // only the peer could end it, and it does not: give the peer up
      tell(message(ToControl::Kind::kStuck, lane));
    }
    index = next;
  }
  if (lane.waiting && !has_work(lane)) stop_waiting(lane);
  if (lane.waiting && now_ >= lane.probe_at && !mutant(Mutant::kNoRequestTimer)) {
    lane.probe_every = std::min(lane.probe_every * 2, p_.probe_max);
    lane.probe_at = now_ + lane.probe_every;
    ToControl m = message(ToControl::Kind::kWaiting, lane);
    m.values.a = p_.slot_bytes;
    m.values.b = lane.active.count + lane.queued.count;
    tell(m);
  }
  return lane.tasks != 0 || lane.waiting;
}

void Worker::on_fail_lane(Lane& lane, Code code, uint64_t give_up_at) noexcept {
  if (lane.state == Lane::State::kFailed) {
    lane.give_up_at = std::min(lane.give_up_at, give_up_at);  // the process turned out to be gone
  } else {
    lane.state = Lane::State::kFailed;
    lane.fail_code = code;
    lane.give_up_at = give_up_at;
    for (uint32_t i = 0; i < lane.staged_count; ++i) {
      (void)p_.tx_pool->put(static_cast<SlotHandle>(lane.staged[i].op.cookie));
      --tx_out_;
    }
    lane.staged_count = 0;
    lane.job_count = 0;
    if (mutant(Mutant::kSharedPool)) WorkerMutants::let_go(*this, lane.params.id, UINT32_MAX);
    lane.partial.reset();
    count_peer_tasks(lane, stats_);
    if (lane.waiting) stop_waiting(lane);
    (void)p_.queue->close(lane.params.path);
    tell(message(ToControl::Kind::kLaneFenced, lane));
  }
  if (code == Code::kPeerDead) p_.queue->peer_gone(lane.params.path);  // else its slots might stay out for ever
  watch(lane);
  next_scan_ = now_;
}

// Every open task of a lane that was given up ends now: law 12 says that nothing of it can move any more.
void Worker::end_all(Lane& lane) noexcept {
  lane.queued = lane.active = lane.aborts = TaskList{};
  while (lane.oldest != kNoTask) {
    const Task& task = tasks_[lane.oldest];
    const bool cancelled = task.why == Code::kCancelled;
    finish(lane, lane.oldest, cancelled ? TaskEnd::kCancelled : TaskEnd::kFailed,
           cancelled ? Code::kCancelled : lane.fail_code);
  }
  while (lane.packs != kNoTask) {
    const uint32_t pack = lane.packs;
    lane.packs = tasks_[pack].newer;
    free_task(pack);
  }
}

// One in a turn: each looks at every task of its lane. What of the batch comes later bears the mark of its phase.
uint32_t Worker::take_cancels(PortRings* port) noexcept {
  Cancel cancel{};
  if (port->cancels(p_.id).take({&cancel, 1}) == 0) return 0;
  Lane* lane = lane_at(cancel.lane);
  if (lane == nullptr || lane->params.generation != cancel.lane_generation) return 1;
  for (uint32_t index = lane->oldest; index != kNoTask;) {
    const Task& task = tasks_[index];
    const uint32_t next = task.newer;
    if (task.port == port && (task.ref & cancel.ref_mask) == cancel.ref) give_up(*lane, index, Code::kCancelled);
    index = next;
  }
  return 1;
}

// The port goes away: its tasks are given up, and those that cannot end yet end without telling anybody. Their bytes
// were copied when they were staged, so nothing reads the application's memory any more.
void Worker::leave_port(Lane& lane, const PortRings* port) noexcept {
  for (uint32_t index = lane.oldest; index != kNoTask;) {
    const uint32_t next = tasks_[index].newer;
    if (tasks_[index].port == port) {
      const uint32_t generation = tasks_[index].generation;
      give_up(lane, index, Code::kCancelled);
      if (tasks_[index].generation == generation) {
        end_wait(tasks_[index]);
        tasks_[index].port = nullptr;
      }
    }
    index = next;
  }
}

// Refuse the reads of buffers that end, so many in a turn; when one has none left, control is told.
uint32_t Worker::clear_buffers() noexcept {
  uint32_t refused = 0;
  while (refused < kClearBurst && clear_count_ != 0) {
    if (raw(clear_lane_) < lanes_.size()) {
      Lane* lane = lanes_[raw(clear_lane_)];
      if (lane != nullptr) refused += clear_jobs(*lane, clears_[0].id, kClearBurst - refused);
      if (refused < kClearBurst) clear_lane_ = LaneId{raw(clear_lane_) + 1};
      continue;
    }
    ToControl m{};
    m.kind = ToControl::Kind::kBufferCleared;
    m.worker = p_.id;
    m.values.a = clears_[0].token;
    tell(m);
    std::copy(clears_.begin() + 1, clears_.begin() + clear_count_, clears_.begin());
    --clear_count_;
    clear_lane_ = LaneId{};
  }
  return refused + 1;
}

// @return how many reads of @p buffer were refused; less than @p most: there are no more of them.
uint32_t Worker::clear_jobs(Lane& lane, uint64_t buffer, uint32_t most) noexcept {
  const uint32_t count = lane.job_count;
  uint32_t kept = 0, refused = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const ReadJob job = lane.jobs[(lane.job_head + i) % lane.params.requests];
    if (job.buffer != buffer || refused == most) {
      lane.jobs[(lane.job_head + kept++) % lane.params.requests] = job;
      continue;
    }
    ++refused;
    refuse(lane, job.task, Code::kStale);
    ++lane.released_requests;
    touch(lane);
  }
  lane.job_count = kept;
  return refused;
}

// Hand a lane without tasks back. Its operations that are still out come back to nobody: their slots go home.
bool Worker::try_close(Lane& lane) noexcept {
  if (lane.touched) return false;  // reported at the end of this turn
  const uint32_t id = raw(lane.params.id);
  std::erase(work_, lane.params.id);
  ToControl m = message(ToControl::Kind::kLaneClosed, lane);
  m.closed = lanes_[id];
  lanes_[id] = nullptr;
  tell(m);
  count_lanes(~0u);
  return true;
}

void Worker::report_all() noexcept {
  for (const LaneId id : touched_) {
    if (lanes_[raw(id)] == nullptr) continue;
    lanes_[raw(id)]->touched = false;
    report(*lanes_[raw(id)]);
  }
  touched_.clear();
}

void Worker::report(Lane& lane) noexcept {
  if (lane.ack_count != 0) {
    ToControl m = message(ToControl::Kind::kAcks, lane);
    m.count = static_cast<uint16_t>(lane.ack_count);
    m.acks = lane.acks;
    tell(m);
    lane.ack_count = 0;
  }
  if (lane.accepted_slots != 0) lane.heard_at = now_;
  count_peer_tasks(lane, stats_);
  ToControl m = message(ToControl::Kind::kReport, lane);
  m.report = {lane.accepted_slots,    lane.released_slots,    lane.accepted_bytes, lane.released_bytes,
              lane.accepted_requests, lane.released_requests, lane.ack_seen,       lane.has_ack_seen,
              lane.low_credit_seen,   lane.ack_now_seen};
  lane.accepted_slots = lane.released_slots = 0;
  lane.accepted_bytes = lane.released_bytes = 0;
  lane.accepted_requests = lane.released_requests = 0;
  lane.has_ack_seen = lane.low_credit_seen = lane.ack_now_seen = false;
  tell(m);
}

void Worker::violation(Lane& lane, Code code) noexcept {
  ToControl m = message(ToControl::Kind::kViolation, lane);
  m.code = code;
  tell(m);
}

void Worker::capacity() noexcept {
  ToControl m{};
  m.kind = ToControl::Kind::kCapacity;
  m.worker = p_.id;
  m.values.a = std::min<uint64_t>(rx_limit_, p_.rx_pool->live_slots());
  tell(m);
}

ToControl Worker::message(ToControl::Kind kind, const Lane& lane) const noexcept {
  ToControl m{};
  m.kind = kind;
  m.lane = lane.params.id;
  m.worker = p_.id;
  m.generation = lane.params.generation;
  return m;
}

void Worker::tell(const ToControl& m) noexcept {
  if (!p_.control->put(m)) [[unlikely]]
    WorkerStats::add(stats_.lost_messages, 1);  // turn() keeps the room; see kTurnReserve
}

}  // namespace sluice
