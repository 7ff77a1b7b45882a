// hot: deadlines of one-sided lanes, and their end
#include <algorithm>

#include "agent/rma_worker.h"

namespace sluice {
namespace {
constexpr uint32_t kScanLanes = 64;  // lanes looked at in one scan
}  // namespace

uint32_t RmaWorker::scan() noexcept {
  next_scan_ = now_ + p_.scan_every;
  WorkerStats::set(stats_.tasks_open, open_tasks_);
  uint64_t out = 0;
  for (uint16_t r = 0; r < rail_count_; ++r) {
    out += rails_[r].out;
    if (rails_[r].down) check_down(r);
  }
  WorkerStats::set(stats_.tx_out, out);
  if (!leaving_.empty()) check_leaving();
  const auto n = static_cast<uint32_t>(std::min<size_t>(scanned_.size(), kScanLanes));
  for (uint32_t i = 0; i < n; ++i) {
    const LaneId id = scanned_[i];
    RmaLane* lane = lanes_[raw(id)];
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
bool RmaWorker::scan_lane(RmaLane& lane) noexcept {
  if (lane.state == RmaLane::State::kFailed) {
    if (now_ < lane.give_up_at) return true;
    end_all(lane);
    if (lane.out == 0) return !try_close(lane);
    const uint64_t since = now_ - std::max(lane.give_up_at, lane.failed_at);
    for (uint16_t r = 0; r < rail_count_; ++r)
      if (lane.paths[r].out != 0 && since >= rails_[r].p.grace) reset(r);
    return true;
  }
  keep_awake(lane);
  if (rails_.size() > 1) check_stalls(lane);
  if (lane.retry.head != kNoOp) list(lane);  // a pause may be over
  for (uint32_t index = lane.oldest; index != kNoTask && tasks_[index].deadline <= now_;) {
    const uint32_t next = tasks_[index].newer;
    const uint64_t deadline = tasks_[index].deadline;
    if (lane.moved_at != 0 && now_ - lane.moved_at < p_.task_timeout) {
      tasks_[index].deadline = lane.moved_at + p_.task_timeout;  // its turn is still to come
    } else if (tasks_[index].state == RmaTask::State::kQueued || tasks_[index].why == Code::kOk) {
      give_up(lane, index, Code::kTimeout);
    } else if (!lane.stuck_told && now_ - deadline >= p_.lease) {
      lane.stuck_told = true;  // its ops do not come home: give the peer up
      tell(message(ToControl::Kind::kStuck, lane));
    }
    index = next;
  }
  return lane.tasks != 0 || lane.out != 0;
}

// A path that brings nothing home while another to the same peer does: its wire is cut, and whether the provider ever
// says so is its own affair. Its ops come home by a reset of the rail, and go the other way.
void RmaWorker::check_stalls(RmaLane& lane) noexcept {
  for (uint16_t r = 0; r < rail_count_; ++r) {
    RmaLane::Path& path = lane.paths[r];
    if (path.out == 0 || rails_[r].down || now_ - path.moved_at < p_.stall) continue;
    const auto moves = [&path](const RmaLane::Path& other) { return other.moved_at > path.moved_at; };
    if (std::none_of(lane.paths.begin(), lane.paths.end(), moves)) continue;
    if (path.monitor.open()) path.monitor.pause(now_, p_.ticks_per_us);
    reset(r);
  }
}

void RmaWorker::on_fail_lane(RmaLane& lane, Code code, uint64_t give_up_at) noexcept {
  if (lane.state == RmaLane::State::kFailed) {
    lane.give_up_at = std::min(lane.give_up_at, give_up_at);  // the process turned out to be gone
  } else {
    lane.state = RmaLane::State::kFailed;
    lane.fail_code = code;
    lane.failed_at = now_;
    lane.give_up_at = give_up_at;
    unstage(lane);
    fail_list(lane, lane.retry);
    for (uint16_t r = 0; r < rail_count_; ++r) {
      fail_list(lane, lane.paths[r].unplaced);
      if (lane.paths[r].connected) (void)rails_[r].p.queue->close(lane.params.path);
    }
    tell(message(ToControl::Kind::kLaneFenced, lane));
  }
  if (code == Code::kPeerDead)
    for (uint16_t r = 0; r < rail_count_; ++r)
      if (lane.paths[r].connected) rails_[r].p.queue->peer_gone(lane.params.path);
  watch(lane);
  next_scan_ = now_;
}

// What was staged for the lane and not posted does not go out.
void RmaWorker::unstage(RmaLane& lane) noexcept {
  for (uint16_t r = 0; r < rail_count_; ++r) {
    Rail& rail = rails_[r];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < rail.staged_count; ++i) {
      const auto index = static_cast<uint32_t>(rail.staged[i].cookie);
      RmaOp& op = ops_[index];
      if (op.lane != lane.params.id) {
        rail.staged[kept++] = rail.staged[i];
        continue;
      }
      --rail.out;
      --lane.paths[r].out;
      rail.cost.home(op.bytes, now_, false);
      op.code = lane.fail_code;
      if (!op.flush) {
        resolve(lane, index);
        continue;
      }
      on_flushed(lane, r, op);
      free_op(index);
      --lane.out;
    }
    rail.staged_count = kept;
  }
}

void RmaWorker::fail_list(RmaLane& lane, OpList& list) noexcept {
  while (list.head != kNoOp) {
    const uint32_t index = pop(list);
    ops_[index].code = lane.fail_code;
    resolve(lane, index);
  }
}

// Tasks with no op out end; the others end with their ops.
void RmaWorker::end_all(RmaLane& lane) noexcept {
  for (uint32_t index = lane.oldest; index != kNoTask;) {
    const uint32_t next = tasks_[index].newer;
    if (tasks_[index].state == RmaTask::State::kQueued) give_up(lane, index, lane.fail_code);
    index = next;
  }
}

// Hand a lane back that has no tasks and no ops.
bool RmaWorker::try_close(RmaLane& lane) noexcept {
  const uint32_t id = raw(lane.params.id);
  std::erase(work_, lane.params.id);
  ToControl m = message(ToControl::Kind::kLaneClosed, lane);
  m.closed = lanes_[id];
  lanes_[id] = nullptr;
  tell(m);
  WorkerStats::set(stats_.lanes, --lane_count_);
  return true;
}

// The port goes away when no op of its tasks is out: until then the device may touch the application's memory.
void RmaWorker::leave_port(const PortRings* port) noexcept {
  for (const LaneId id : scanned_) {
    RmaLane* lane = lanes_[raw(id)];
    for (uint32_t index = lane == nullptr ? kNoTask : lane->oldest; index != kNoTask;) {
      const uint32_t next = tasks_[index].newer;
      if (tasks_[index].port == port) give_up(*lane, index, Code::kCancelled);
      index = next;
    }
  }
  leaving_.push_back(const_cast<PortRings*>(port));
  next_scan_ = now_;
}

void RmaWorker::check_leaving() noexcept {
  for (size_t i = 0; i < leaving_.size();) {
    PortRings* port = leaving_[i];
    const auto uses = [port](const RmaTask& t) { return t.state != RmaTask::State::kFree && t.port == port; };
    if (std::any_of(tasks_.begin(), tasks_.end(), uses)) {
      ++i;
      continue;
    }
    ends_.flush();
    std::erase(ports_, port);
    leaving_.erase(leaving_.begin() + static_cast<ptrdiff_t>(i));
    ToControl done{};
    done.kind = ToControl::Kind::kPortRemoved;
    done.worker = p_.id;
    done.port = port;
    tell(done);
  }
}

// The last resort: nothing else brings home what a stopped peer holds.
void RmaWorker::reset(uint16_t r) noexcept {
  Rail& rail = rails_[r];
  if (rail.down) return;
  rail.down = true;
  rail.told = false;
  for (uint32_t i = 0; i < rail.staged_count; ++i) {  // never posted: as if they had come back
    ops_[rail.staged[i].cookie & UINT32_MAX].state = RmaOp::State::kPosted;
    on_home(r, {rail.staged[i].cookie, 0, CompletionKind::kOp, Code::kCancelled});
  }
  rail.staged_count = 0;
  rail.p.queue->shutdown();
}

// When every op of a queue that was shut down is home, the service thread may open another in its place.
void RmaWorker::check_down(uint16_t r) noexcept {
  Rail& rail = rails_[r];
  if (rail.told || rail.out != 0) return;
  rail.told = true;
  ToControl m{};
  m.kind = ToControl::Kind::kRailDown;
  m.worker = p_.id;
  m.count = r;
  tell(m);
}

void RmaWorker::on_rail_up(const ToWorker& m) noexcept {
  Rail& rail = rails_[m.count];
  rail.p.queue = m.queue;
  rail.down = false;
  for (RmaLane* lane : lanes_) {
    if (lane == nullptr || lane->state != RmaLane::State::kOpen) continue;
    RmaLane::Path& path = lane->paths[m.count];
    path.connected = false;
    path.broken = rail.p.paired;  // its ends were made for one another: that takes a new connection to the peer
    if (path.broken) tell_if_lost(*lane);
    list(*lane);
  }
}

// The peer opened a queue anew: what is out on the old way fails or comes back, and goes the new one.
void RmaWorker::on_path(RmaLane& lane, uint16_t r, std::vector<std::byte>* address) noexcept {
  RmaLane::Path& path = lane.paths[r];
  path.address.swap(*address);
  delete address;  // as rare as a connect
  if (path.connected && !rails_[r].down) (void)rails_[r].p.queue->close(lane.params.path);
  path.connected = path.broken = false;
  path.monitor.success();
  lane.retry_at = 0;
  if (lane.state == RmaLane::State::kOpen) list(lane);
}

}  // namespace sluice
