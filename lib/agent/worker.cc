// hot: a worker's turn, its inbox, its lanes and tasks
#include "agent/worker.h"

#include <algorithm>
#include <bit>

#include "base/mutant.h"

namespace sluice {
namespace {
constexpr uint32_t kTurnReserve = 1024;  // messages to control that one turn may need, at most
constexpr uint32_t kPackShare = 4;       // a write of up to a quarter of a slot is packed
constexpr uint32_t kLaneReserve = 4;     // of the tx slots, at most a quarter is kept for lanes that have none
constexpr uint32_t kMaxTurnLanes = 64;   // lanes served in one turn
}  // namespace

Worker::Worker(const WorkerParams& params) : p_(params), ends_(params.id, &stats_), gate_(params.idle_poll_costly) {
  lanes_.assign(p_.max_lanes, nullptr);
  work_.reserve(p_.max_lanes + kMaxTurnLanes);  // a turn puts lanes back before it takes them off the front
  touched_.reserve(p_.max_lanes);
  scanned_.reserve(p_.max_lanes + kScanLanes);
  tasks_.resize(p_.max_tasks);
  for (uint32_t i = p_.max_tasks; i-- > 0;) {
    tasks_[i].next = free_task_;
    free_task_ = i;
  }
  buffers_.assign(std::bit_ceil(p_.max_buffers), Buffer{nullptr, 0, 0});
  ports_.reserve(1024);
  tx_meta_.resize(p_.tx_pool->live_slots());
  resend_.reserve(p_.tx_pool->live_slots());
  refill_.reserve(p_.rx_slots_max + kMaxBurst);
  tx_depth_ = std::min(p_.queue->depth().tx, p_.tx_pool->live_slots());
  rx_limit_ = std::min(p_.queue->depth().rx, p_.rx_slots_max);
  pack_limit_ = (p_.slot_bytes - static_cast<uint32_t>(kMsgHeaderBytes)) / kPackShare;
  scan_every_ = std::max<uint64_t>(1, p_.probe_first / 2);
  top_up();
}

Worker::~Worker() {
  for (Lane* lane : lanes_) delete lane;
}

uint32_t Worker::turn(uint64_t now) noexcept {
  now_ = now;
  if (p_.control->room() < kTurnReserve) [[unlikely]]
    return 0;  // control is behind; nothing may be lost
  uint32_t work = 0;
  if (clear_count_ != 0) [[unlikely]]
    work += clear_buffers();  // before more of the inbox, so that they stay few
  else if (!p_.inbox->empty()) [[unlikely]]
    work += drain_inbox();  // lane changes, credit, acknowledgements
  work += reap();           // first: gives room back
  if (!resend_.empty()) [[unlikely]]
    work += resend();
  work += take_submissions();  // ports into lanes, bounded
  const auto lanes = static_cast<uint32_t>(std::min<size_t>(work_.size(), kMaxTurnLanes));
  for (uint32_t i = 0; i < lanes; ++i) {  // then: spends it
    Lane* lane = lanes_[raw(work_[i])];
    if (lane == nullptr) continue;
    lane->listed = false;
    work += send(*lane);
    if (lane->staged_count != 0 || (lane->tx_open && !lane->waiting && !lane->draining && has_work(*lane))) list(*lane);
  }
  work_.erase(work_.begin(), work_.begin() + lanes);
  p_.queue->flush();  // one doorbell per turn
  if (now >= next_scan_) [[unlikely]]
    work += scan();
  ends_.flush();
  if (!touched_.empty()) report_all();
  return work;
}

uint32_t Worker::drain_inbox() noexcept {
  std::array<ToWorker, kMaxBurst> in;
  const uint32_t n = p_.inbox->take(in);
  for (uint32_t i = 0; i < n; ++i) on_message(in[i]);
  return clear_count_ == 0 ? n : n + clear_buffers();
}

// What control said before a peer could know of it (an epoch, a lane) may still lie in the inbox, behind a burst or
// because this core was away: it is read before a message is called stale.
void Worker::catch_up() noexcept {
  while (!p_.inbox->empty() && p_.control->room() >= kTurnReserve) (void)drain_inbox();
}

void Worker::on_message(const ToWorker& m) noexcept {
  using Kind = ToWorker::Kind;
  switch (m.kind) {
    case Kind::kOpenLane: on_open_lane(static_cast<Lane*>(m.opened)); return;
    case Kind::kAddExtent: {
      ExtentId id;
      (void)p_.rx_pool->add_extent(std::unique_ptr<Extent>(m.extent), &id);
      top_up();
      capacity();
      return;
    }
    case Kind::kRetireExtent: {
      ExtentId id;
      if (p_.rx_pool->pick_victim(&id) == Code::kOk) retire(id);
      return;
    }
    case Kind::kSetBuffer:
      buffers_[m.buffer.id & (buffers_.size() - 1)] = {m.buffer.base, m.buffer.bytes,
                                                       static_cast<uint32_t>(m.buffer.id)};
      return;
    case Kind::kClearBuffer:
      buffers_[m.buffer.id & (buffers_.size() - 1)] = {nullptr, 0, 0};
      clears_[clear_count_++] = m.buffer;
      return;
    case Kind::kAddPort: ports_.push_back(m.port); return;
    case Kind::kRemovePort: {
      for (Lane* lane : lanes_)
        if (lane != nullptr) leave_port(*lane, m.port);
      ends_.flush();
      std::erase(ports_, m.port);
      ToControl done{};
      done.kind = ToControl::Kind::kPortRemoved;
      done.worker = p_.id;
      done.port = m.port;
      tell(done);
      return;
    }
    default: break;
  }
  Lane* lane = lane_at(m.lane);
  if (lane == nullptr || lane->params.generation != m.generation) return;
  on_lane_message(*lane, m);
}

void Worker::on_lane_message(Lane& lane, const ToWorker& m) noexcept {
  using Kind = ToWorker::Kind;
  if (m.ctrl_ack != lane.ctrl_ack) {
    lane.ctrl_ack = m.ctrl_ack;
    lane.not_carried(m.ctrl_ack);
  }
  switch (m.kind) {
    case Kind::kOpenTx:
      lane.ledger.open(Epoch{m.values.a}, Charge{m.values.totals});
      lane.tx_open = true;
      lane.draining = lane.drain_told = false;
      lane.next_seq = 1;
      break;
    case Kind::kGrant: {
      CreditGrant grant{};
      for (uint16_t r = 1; r <= kResources; ++r)
        if ((m.count >> r & 1) != 0) grant.entries[grant.count++] = {Resource{r}, m.values.totals[r - 1u]};
      if (lane.ledger.apply_grant(Epoch{m.values.a}, m.values.b, grant) == Code::kBadFrame)
        violation(lane, Code::kBadFrame);
      if (lane.waiting) lane.probe_at = now_ + lane.probe_every;
      break;
    }
    case Kind::kAcks: on_acks(lane, m); break;
    case Kind::kNak: on_nak(lane, m.acks[0]); break;
    case Kind::kLease: lane.lease_until = std::max(lane.lease_until, m.values.a); return;
    case Kind::kStopPosting:
      lane.draining = true;
      lane.drain_told = false;
      break;
    case Kind::kNextRxEpoch:
      lane.rx_epoch = Epoch{m.values.a};
      lane.seen.reset();
      return;
    case Kind::kFailLane: on_fail_lane(lane, m.code, m.values.a); return;
    default: return;
  }
  lane.heard_at = now_;
  if (lane.draining || has_work(lane)) list(lane);
}

void Worker::on_open_lane(Lane* lane) noexcept {
  const uint32_t id = raw(lane->params.id);
  lanes_[id] = lane;
  if (!p_.queue->connect(lane->params.path, lane->params.peer_address).ok()) violation(*lane, Code::kDeviceError);
  count_lanes(1);
}

void Worker::count_lanes(uint32_t change) noexcept {
  lane_count_ += change;
  tx_reserve_ = lane_count_ == 0 ? 0 : std::min(lane_count_ - 1, std::max(1u, tx_depth_ / kLaneReserve));
  WorkerStats::set(stats_.lanes, lane_count_);
}

void Worker::on_acks(Lane& lane, const ToWorker& m) noexcept {
  for (uint32_t i = 0; i < m.count; ++i) {
    const auto index = static_cast<uint32_t>(m.acks[i].task);
    const auto generation = static_cast<uint32_t>(m.acks[i].task >> 32);
    const bool known =
        index < tasks_.size() && (tasks_[index].generation == generation || mutant(Mutant::kNoGeneration));
    if (!known || tasks_[index].lane != lane.params.id || tasks_[index].read) [[unlikely]] {
      WorkerStats::add(stats_.stale_messages, 1);
      continue;
    }
    const Task& task = tasks_[index];
    if (task.state == Task::State::kPack && m.acks[i].acked_bytes == task.length) [[likely]] {
      close_pack(lane, index);
    } else if (task.state == Task::State::kSent && task.chunk != 0 && m.acks[i].acked_bytes == task.length) [[likely]] {
      if (task.why == Code::kOk || task.why == Code::kTimeout || task.why == Code::kCancelled)
        finish(lane, index, TaskEnd::kDone, Code::kOk);
      else
        finish(lane, index, TaskEnd::kFailed, task.why);
    } else if (task.state == Task::State::kAborting && task.abort_sent && m.acks[i].acked_bytes == task.sent) {
      finish(lane, index, task.why == Code::kCancelled ? TaskEnd::kCancelled : TaskEnd::kFailed, task.why);
    } else {
      violation(lane, Code::kBadFrame);  // a task of a PACK (chunk 0) too: it ends with its PACK, whose list it is in
    }
  }
}

// A PACK was placed: every task of it is done, but for those that were refused by a NAK before.
void Worker::close_pack(Lane& lane, uint32_t index) noexcept {
  Task& pack = tasks_[index];
  for (uint32_t at = pack.next; at != kNoTask;) {
    const uint32_t next = tasks_[at].next;
    const Code why = tasks_[at].why;
    finish(lane, at, why == Code::kOk ? TaskEnd::kDone : TaskEnd::kFailed, why);
    at = next;
  }
  (pack.older == kNoTask ? lane.packs : tasks_[pack.older].newer) = pack.newer;
  if (pack.newer != kNoTask) tasks_[pack.newer].older = pack.older;
  free_task(index);
}

// The peer refused a message of a task. A task of one message is over; another ends with its acknowledgement.
void Worker::on_nak(Lane& lane, const AckEntry& nak) noexcept {
  const auto index = static_cast<uint32_t>(nak.task);
  if (index >= tasks_.size() || tasks_[index].generation != static_cast<uint32_t>(nak.task >> 32) ||
      tasks_[index].lane != lane.params.id)
    return;
  Task& task = tasks_[index];
  const bool known = nak.acked_bytes != 0 && nak.acked_bytes < kCodeCount;
  const Code code = known ? static_cast<Code>(nak.acked_bytes) : Code::kPeerRefused;
  if (task.state == Task::State::kPack) {
    for (uint32_t at = task.next; at != kNoTask; at = tasks_[at].next) tasks_[at].why = code;
  } else if (task.state == Task::State::kSent && (task.read || task.chunk == 1)) {
    finish(lane, index, TaskEnd::kFailed, code);
  } else if (task.state == Task::State::kSent) {
    task.why = code;  // an acknowledgement is still to come: of all its chunks, or of its PACK
  } else if (task.state == Task::State::kActive && task.sent != 0) {
    give_up(lane, index, code);
  }
}

uint32_t Worker::take_submissions() noexcept {
  uint32_t work = 0;
  const auto ports = static_cast<uint32_t>(ports_.size());
  std::array<Submission, kMaxBurst> in;
  for (uint32_t i = 0; i < ports; ++i) {
    PortRings* port = ports_[(next_port_ + i) % ports];
    if (!port->cancels(p_.id).empty()) [[unlikely]]
      work += take_cancels(port);
    const uint32_t room = std::min<uint32_t>(kMaxBurst, (p_.max_tasks - open_tasks_) / 2);  // half may be PACKs
    if (room == 0) continue;  // the cancels of the others make room
    const uint32_t n = port->submissions(p_.id).take({in.data(), room});
    for (uint32_t k = 0; k < n; ++k) admit(port, in[k]);
    work += n;
  }
  if (ports != 0) next_port_ = (next_port_ + 1) % ports;
  return work;
}

void Worker::admit(PortRings* port, const Submission& s) noexcept {
  Lane* lane = lane_at(s.lane);
  const bool live = lane != nullptr && lane->params.generation == s.lane_generation;
  if (port->cancelled(s.phase)) [[unlikely]] {  // meanwhile, and its cancel may be over
    (void)port->completions(p_.id).put(TaskDone{s.ref, 0, TaskEnd::kCancelled, Code::kCancelled, 0});
    WorkerStats::add(stats_.tasks_cancelled, 1);
    return;
  }
  if (!live || lane->state != Lane::State::kOpen) {
    (void)port->completions(p_.id).put(TaskDone{s.ref, 0, TaskEnd::kFailed, live ? lane->fail_code : Code::kStale, 0});
    WorkerStats::add(stats_.tasks_failed, 1);
    return;
  }
  const uint32_t index = free_task_;
  Task& task = tasks_[index];
  free_task_ = task.next;
  task.ref = s.ref;
  task.local = s.local;
  task.offset = s.offset;
  task.length = s.length;
  task.sent = task.received = task.wait_since = 0;
  task.deadline = now_ + p_.task_timeout;
  task.port = port;
  task.buffer = s.buffer;
  task.chunk = task.waited_us = 0;
  task.lane = s.lane;
  task.phase = s.phase;
  task.state = Task::State::kQueued;
  task.read = s.op == SubmitOp::kRead;
  task.abort_sent = task.spread = false;
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

// End a task early: at once when nothing of it can move, else when the peer has confirmed that nothing moves any more.
void Worker::give_up(Lane& lane, uint32_t index, Code why) noexcept {
  Task& task = tasks_[index];
  const TaskEnd end = why == Code::kCancelled ? TaskEnd::kCancelled : TaskEnd::kFailed;
  if (task.state == Task::State::kQueued || task.state == Task::State::kActive) list(lane);  // the next one's turn
  switch (task.state) {
    case Task::State::kQueued:
      unlink(lane.queued, index);
      finish(lane, index, end, why);
      break;
    case Task::State::kActive:
      unlink(lane.active, index);
      if (task.sent == 0) {
        finish(lane, index, end, why);
        break;
      }
      task.state = Task::State::kAborting;
      task.why = why;
      push(lane.aborts, index);
      break;
    case Task::State::kSent:
      if (task.read) finish(lane, index, end, why);  // its number ends here, so late bytes go nowhere
      break;
    case Task::State::kAborting:
    case Task::State::kPack:
    case Task::State::kFree: break;
  }
}

void Worker::finish(Lane& lane, uint32_t index, TaskEnd end, Code code) noexcept {
  Task& task = tasks_[index];
  end_wait(task);
  ends_.put(task.port, TaskDone{task.ref, task.waited_us, end, code, 0});
  (task.older == kNoTask ? lane.oldest : tasks_[task.older].newer) = task.newer;
  (task.newer == kNoTask ? lane.newest : tasks_[task.newer].older) = task.older;
  --lane.tasks;
  if (task.spread) --lane.spread;
  free_task(index);
}

void Worker::free_task(uint32_t index) noexcept {
  Task& task = tasks_[index];
  --open_tasks_;
  ++task.generation;
  task.state = Task::State::kFree;
  task.next = free_task_;
  free_task_ = index;
}

}  // namespace sluice
