// hot: a one-sided worker's turn, its inbox and tasks
#include "agent/rma_worker.h"

#include <algorithm>
#include <utility>

#include "agent/peer.h"

namespace sluice {
namespace {
constexpr uint32_t kTurnReserve = 256;  // messages to control that one turn may need, at most
constexpr uint32_t kMaxTurnLanes = 64;  // lanes served in one turn
}  // namespace

RmaWorker::RmaWorker(RmaWorkerParams params) : p_(std::move(params)), ends_(p_.id, &stats_) {
  uint32_t depth = 0;
  for (const RmaRail& p : p_.rails) {
    rails_.emplace_back(p.idle_poll_costly);
    Rail& rail = rails_.back();
    rail.p = p;
    rail.depth = p.queue->depth().tx;
    rail.cost.open(p.bits_per_s, p_.ticks_per_us);
    depth += rail.depth;
    p_.op_bytes = std::min(p_.op_bytes, p.max_op_bytes);  // so that an op fits every rail that it may be tried on
  }
  rail_count_ = static_cast<uint16_t>(rails_.size());
  lanes_.assign(p_.max_lanes, nullptr);
  work_.reserve(p_.max_lanes + kMaxTurnLanes);  // a turn puts lanes back before it takes them off the front
  scanned_.reserve(size_t{p_.max_lanes} * 2);
  tasks_.resize(p_.max_tasks);
  for (uint32_t i = p_.max_tasks; i-- > 0;) {
    tasks_[i].next = free_task_;
    free_task_ = i;
  }
  // As many again wait for another try or for their flush; and the flushes must never wait for one of those.
  ops_.resize(size_t{depth} * 2 + rails_.size());
  free_ops_ = static_cast<uint32_t>(ops_.size());
  for (auto i = static_cast<uint32_t>(ops_.size()); i-- > 0;) {
    ops_[i].next = free_op_;
    free_op_ = i;
  }
  ports_.reserve(1024);
  leaving_.reserve(1024);
}

RmaWorker::~RmaWorker() {
  for (RmaLane* lane : lanes_) delete lane;
}

uint32_t RmaWorker::turn(uint64_t now) noexcept {
  now_ = now;
  if (p_.control->room() < kTurnReserve) [[unlikely]]
    return 0;  // control is behind; nothing may be lost
  uint32_t work = 0;
  if (!p_.inbox->empty()) [[unlikely]]
    work += drain_inbox();
  if (now - std::exchange(last_turn_, now) > p_.lease / 2) [[unlikely]]
    wake();
  for (uint16_t r = 0; r < rail_count_; ++r) work += reap(r);  // first: gives room back
  work += take_submissions();
  const auto lanes = static_cast<uint32_t>(std::min<size_t>(work_.size(), kMaxTurnLanes));
  for (uint32_t i = 0; i < lanes; ++i) {  // then: spends it
    RmaLane* lane = lanes_[raw(work_[i])];
    if (lane == nullptr) continue;
    lane->listed = false;
    work += send(*lane);
  }
  work_.erase(work_.begin(), work_.begin() + lanes);
  for (Rail& rail : rails_) work += post(rail);  // one doorbell per rail and turn
  if (now >= next_scan_) [[unlikely]]
    work += scan();
  ends_.flush();
  return work;
}

// This core was away for long. A peer whose lease is over may have reported its tasks FAILED, and what it wrote may
// still lie before us: a queue that is shut down takes none of it. It cannot wait for a renewal that the control core
// may have, since where a provider moves every queue at once, polling the control queue would take it.
void RmaWorker::wake() noexcept {
  const auto over = [this](const RmaLane* lane) {
    return lane != nullptr && lane->lease_until != 0 && lane->lease_until < now_;
  };
  if (std::any_of(lanes_.begin(), lanes_.end(), over))
    for (uint16_t r = 0; r < rail_count_; ++r) reset(r);
}

uint32_t RmaWorker::drain_inbox() noexcept {
  std::array<ToWorker, kMaxBurst> in;
  const uint32_t n = p_.inbox->take(in);
  for (uint32_t i = 0; i < n; ++i) on_message(in[i]);
  return n;
}

void RmaWorker::on_message(const ToWorker& m) noexcept {
  using Kind = ToWorker::Kind;
  ToControl answer{};
  answer.worker = p_.id;
  switch (m.kind) {
    case Kind::kOpenLane: on_open_lane(static_cast<RmaLane*>(m.opened)); return;
    case Kind::kAddPort: ports_.push_back(m.port); return;
    case Kind::kRemovePort: leave_port(m.port); return;
    case Kind::kRailUp: on_rail_up(m); return;
    case Kind::kClearBuffer:  // peers place by themselves: the service thread asks them
      answer.kind = ToControl::Kind::kBufferCleared;
      answer.values.a = m.buffer.token;
      tell(answer);
      return;
    default: break;
  }
  RmaLane* lane = lane_at(m.lane);
  const bool live = lane != nullptr && lane->params.generation == m.generation;
  if (m.kind == Kind::kPath && !live) delete m.address;
  if (!live) return;
  lane->not_carried(m.ctrl_ack);
  if (m.kind == Kind::kLease) lane->lease_until = std::max(lane->lease_until, m.values.a);
  if (m.kind == Kind::kFailLane) on_fail_lane(*lane, m.code, m.values.a);
  if (m.kind == Kind::kPath) on_path(*lane, m.count, m.address);
}

void RmaWorker::on_open_lane(RmaLane* lane) noexcept {
  lanes_[raw(lane->params.id)] = lane;
  for (uint16_t r = 0; r < rail_count_; ++r)
    if (rails_[r].p.paired) (void)usable(*lane, r);
  WorkerStats::set(stats_.lanes, ++lane_count_);
}

uint32_t RmaWorker::take_submissions() noexcept {
  uint32_t work = 0;
  const auto ports = static_cast<uint32_t>(ports_.size());
  std::array<Submission, kMaxBurst> in;
  for (uint32_t i = 0; i < ports; ++i) {
    PortRings* port = ports_[(next_port_ + i) % ports];
    if (!port->cancels(p_.id).empty()) [[unlikely]]
      work += take_cancel(port);
    const uint32_t room = std::min(kMaxBurst, p_.max_tasks - open_tasks_);
    if (room == 0) continue;  // the cancels of the others make room
    const uint32_t n = port->submissions(p_.id).take({in.data(), room});
    for (uint32_t k = 0; k < n; ++k) admit(port, in[k]);
    work += n;
  }
  if (ports != 0) next_port_ = (next_port_ + 1) % ports;
  return work;
}

// One in a turn: each looks at every task of its lane. What of the batch comes later bears the mark of its phase.
uint32_t RmaWorker::take_cancel(PortRings* port) noexcept {
  Cancel cancel{};
  if (port->cancels(p_.id).take({&cancel, 1}) == 0) return 0;
  RmaLane* lane = lane_at(cancel.lane);
  if (lane == nullptr || lane->params.generation != cancel.lane_generation) return 1;
  for (uint32_t index = lane->oldest; index != kNoTask;) {
    const RmaTask& task = tasks_[index];
    const uint32_t next = task.newer;
    if (task.port == port && (task.ref & cancel.ref_mask) == cancel.ref) give_up(*lane, index, Code::kCancelled);
    index = next;
  }
  return 1;
}

void RmaWorker::admit(PortRings* port, const Submission& s) noexcept {
  RmaLane* lane = lane_at(s.lane);
  const bool live = lane != nullptr && lane->params.generation == s.lane_generation;
  if (port->cancelled(s.phase)) [[unlikely]]  // meanwhile, and its cancel may be over
    return ends_.put(port, TaskDone{s.ref, 0, TaskEnd::kCancelled, Code::kCancelled, 0});
  if (!live || lane->state != RmaLane::State::kOpen)
    return ends_.put(port, TaskDone{s.ref, 0, TaskEnd::kFailed, live ? lane->fail_code : Code::kStale, 0});
  const uint32_t index = free_task_;
  RmaTask& task = tasks_[index];
  free_task_ = task.next;
  task.ref = s.ref;
  task.local = s.local;
  task.region = s.region;
  task.remote = s.remote;
  task.offset = s.offset;
  task.length = s.length;
  task.cut = 0;
  task.deadline = now_ + p_.task_timeout;
  task.port = port;
  task.ops = 0;
  task.lane = s.lane;
  task.state = RmaTask::State::kQueued;
  task.read = s.op == SubmitOp::kRead;
  task.why = Code::kOk;
  task.older = lane->newest;
  task.newer = kNoTask;
  (lane->newest == kNoTask ? lane->oldest : tasks_[lane->newest].newer) = index;
  lane->newest = index;
  push(lane->queued, index);
  ++lane->tasks;
  ++open_tasks_;
  watch(*lane);
  list(*lane);
}

// End a task early: at once when no op of it is out, else when they are home.
void RmaWorker::give_up(RmaLane& lane, uint32_t index, Code why) noexcept {
  RmaTask& task = tasks_[index];
  if (task.state == RmaTask::State::kOut && task.why != Code::kOk) return;
  if (task.state == RmaTask::State::kQueued) {
    unlink(lane.queued, index);
    task.state = RmaTask::State::kOut;
    task.why = why;
    if (task.ops == 0) finish(lane, index);
  } else if (task.why == Code::kOk && why != Code::kCancelled) {
    task.why = why;  // a cancelled one that is all on its way may as well be done
  }
}

void RmaWorker::finish(RmaLane& lane, uint32_t index) noexcept {
  RmaTask& task = tasks_[index];
  const TaskEnd end = task.why == Code::kOk          ? TaskEnd::kDone
                      : task.why == Code::kCancelled ? TaskEnd::kCancelled
                                                     : TaskEnd::kFailed;
  ends_.put(task.port, TaskDone{task.ref, 0, end, task.why, 0});
  if (end == TaskEnd::kDone) WorkerStats::add(task.read ? stats_.bytes_received : stats_.bytes_sent, task.length);
  (task.older == kNoTask ? lane.oldest : tasks_[task.older].newer) = task.newer;
  (task.newer == kNoTask ? lane.newest : tasks_[task.newer].older) = task.older;
  --lane.tasks;
  --open_tasks_;
  ++task.generation;
  task.state = RmaTask::State::kFree;
  task.next = free_task_;
  free_task_ = index;
}

void RmaWorker::push(TaskList& list, uint32_t index) noexcept {
  tasks_[index].next = kNoTask;
  tasks_[index].prev = list.tail;
  (list.tail == kNoTask ? list.head : tasks_[list.tail].next) = index;
  list.tail = index;
  ++list.count;
}

void RmaWorker::unlink(TaskList& list, uint32_t index) noexcept {
  const RmaTask& task = tasks_[index];
  (task.prev == kNoTask ? list.head : tasks_[task.prev].next) = task.next;
  (task.next == kNoTask ? list.tail : tasks_[task.next].prev) = task.prev;
  --list.count;
}

void RmaWorker::push(OpList& list, uint32_t index) noexcept {
  ops_[index].next = kNoOp;
  (list.tail == kNoOp ? list.head : ops_[list.tail].next) = index;
  list.tail = index;
}

uint32_t RmaWorker::pop(OpList& list) noexcept {
  const uint32_t index = list.head;
  list.head = ops_[index].next;
  if (list.head == kNoOp) list.tail = kNoOp;
  return index;
}

void RmaWorker::list(RmaLane& lane) noexcept {
  if (lane.listed) return;
  lane.listed = true;
  work_.push_back(lane.params.id);
}

void RmaWorker::watch(RmaLane& lane) noexcept {
  if (lane.scanned) return;
  lane.scanned = true;
  scanned_.push_back(lane.params.id);
}

ToControl RmaWorker::message(ToControl::Kind kind, const RmaLane& lane) const noexcept {
  ToControl m{};
  m.kind = kind;
  m.lane = lane.params.id;
  m.worker = p_.id;
  m.generation = lane.params.generation;
  return m;
}

void RmaWorker::tell(const ToControl& m) noexcept {
  if (!p_.control->put(m)) [[unlikely]]
    WorkerStats::add(stats_.lost_messages, 1);  // turn() keeps the room; see kTurnReserve
}

}  // namespace sluice
