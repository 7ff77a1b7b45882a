// hot: the sending half of a worker's turn
#include <algorithm>
#include <cstring>

#include "agent/worker.h"
#include "base/mutant.h"

namespace sluice {
namespace {
constexpr uint16_t kMaxTries = 8;  // posts of one message before its peer is given up
}  // namespace

// A write that is small beside a slot shares a message with others.
bool Worker::packs(const Task& task) const noexcept { return !task.read && task.length <= pack_limit_; }

uint64_t Worker::room_in(const Lane& lane) const noexcept {
  return std::min(p_.slot_bytes, lane.params.peer_slot_bytes) - kMsgHeaderBytes;
}

bool Worker::has_work(const Lane& lane) const noexcept {
  return lane.job_count != 0 || lane.aborts.count != 0 || lane.active.count != 0 || lane.queued.count != 0;
}

// Send what credit, slots and depth allow. A lane that can go no further leaves the work list; a grant, a
// completion or a submission lists it again.
uint32_t Worker::send(Lane& lane) noexcept {
  if (lane.state != Lane::State::kOpen || !lane.tx_open) return 0;
  if (!lane.draining && lane.staged_count < kMaxBurst) stage(lane);
  const uint32_t posted = lane.staged_count != 0 ? post_staged(lane) : 0;
  if (lane.draining) check_drained(lane);
  return posted;
}

void Worker::activate(Lane& lane) noexcept {
  const uint32_t index = pop(lane.queued);
  Task& task = tasks_[index];
  task.state = Task::State::kActive;
  task.spread = !task.read && task.length > room_in(lane);
  if (task.spread) ++lane.spread;
  push(lane.active, index);
}

// Whether the peer has room for what is at the head of the queue. It forgets a write of several messages when it has
// all of it, which is known here when it has acknowledged.
bool Worker::may_activate(const Lane& lane) const noexcept {
  const Task& task = tasks_[lane.queued.head];
  return lane.spread < RxTasks::kMaxTasks || task.read || task.length <= room_in(lane);
}

void Worker::stage(Lane& lane) noexcept {
  while (lane.staged_count < kMaxBurst) {
    bool more = false;
    if (lane.job_count != 0) {  // law 13: responses before requests
      more = stage_job(lane);
    } else if (lane.aborts.count != 0) {
      more = stage_abort(lane);
    } else if (lane.queued.count != 0 && packs(tasks_[lane.queued.head]) && (lane.active.count == 0 || !lane.packed)) {
      more = stage_pack(lane);
      lane.packed = true;  // turn about with tasks that take several messages
    } else {
      while (lane.active.count < Lane::kActive && lane.queued.count != 0 && !packs(tasks_[lane.queued.head]) &&
             may_activate(lane))
        activate(lane);
      if (lane.active.count == 0) break;
      more = stage_task(lane, lane.active.head);
      lane.packed = false;
    }
    if (!more) return;
  }
  if (lane.staged_count != 0 && !has_work(lane)) {
    std::byte* last = const_cast<std::byte*>(lane.staged[lane.staged_count - 1].op.addr0);
    last[3] |= std::byte{kMsgAckNow};  // flags: nothing follows, so acknowledge at once
  }
}

// Depth, credit and a slot for one message, or none of them.
bool Worker::take_slot(Lane& lane, const Charge& charge, Slot* slot) noexcept {
  if (!may_take(lane)) {
    WorkerStats::add(stats_.stalls_depth, 1);
    return false;
  }
  if (!lane.ledger.reserve(charge)) {
    start_waiting(lane);
    return false;
  }
  if (spares_ == 0) spares_ = p_.tx_pool->get(spare_);
  if (spares_ == 0) {
    lane.ledger.unreserve(charge);
    WorkerStats::add(stats_.stalls_slot, 1);
    return false;
  }
  if (lane.waiting) stop_waiting(lane);
  *slot = spare_[--spares_];
  return true;
}

// Complete and write the header of a filled slot, and stage it.
void Worker::stage_slot(Lane& lane, MsgHeader& h, const Slot& slot, const Charge& charge) noexcept {
  h.magic = kMsgMagic;
  h.version = kMsgVersion;
  h.lane = lane.params.peer_lane;
  h.ctrl_ack = lane.ctrl_ack;
  lane.ctrl_ack_sent.store(lane.ctrl_ack, std::memory_order_relaxed);
  h.session = lane.params.session;
  h.epoch = static_cast<uint32_t>(raw(lane.ledger.epoch()));
  h.seq = lane.next_seq++;
  if (lane.ledger.available(Resource::kBounceSlots) < kMaxBurst) h.flags |= kMsgLowCredit;
  if (p_.verify_crc && h.length != 0) {
    h.flags |= kMsgHasCrc;
    h.crc = crc32c({slot.addr + kMsgHeaderBytes, h.length});
  }
  encode_message(slot.addr, h);
  const uint32_t bytes = static_cast<uint32_t>(kMsgHeaderBytes) + h.length;
  tx_meta_[raw(slot.handle) & UINT32_MAX] = {lane.params.id, lane.params.generation, 0, bytes};
  Staged& staged = lane.staged[lane.staged_count++];
  staged.op =
      Op{OpKind::kSend, lane.params.path, raw(slot.handle), slot.addr, slot.local_desc, nullptr, 0, bytes, 0, 0, 0};
  staged.charge = charge;
  ++tx_out_;
}

// One message of one piece of payload. false: short of credit, slots or depth; nothing changed.
bool Worker::stage_message(Lane& lane, MsgHeader& h, const std::byte* payload) noexcept {
  const Charge charge = message_charge(h.length, h.type == MsgType::kReadReq, lane.params.peer_slot_bytes);
  Slot slot;
  if (!take_slot(lane, charge, &slot)) return false;
  if (h.length != 0) std::memcpy(slot.addr + kMsgHeaderBytes, payload, h.length);
  stage_slot(lane, h, slot, charge);
  return true;
}

// A place in the task table that stands for a PACK. @pre there is one.
uint32_t Worker::open_pack(Lane& lane, uint64_t bytes) noexcept {
  const uint32_t index = free_task_;
  Task& pack = tasks_[index];
  free_task_ = pack.next;
  pack.state = Task::State::kPack;
  pack.lane = lane.params.id;
  pack.length = bytes;
  pack.read = false;
  pack.older = kNoTask;
  pack.newer = lane.packs;
  if (lane.packs != kNoTask) tasks_[lane.packs].older = index;
  lane.packs = index;
  ++open_tasks_;
  return index;
}

// As many small writes from the head of the queue as one slot holds. @pre the head is one.
bool Worker::stage_pack(Lane& lane) noexcept {
  const uint64_t room = room_in(lane);
  uint64_t bytes = 0;
  uint32_t n = 0;
  for (uint32_t at = lane.queued.head; at != kNoTask && n < kMaxPack; at = tasks_[at].next, ++n) {
    const Task& task = tasks_[at];
    if (!packs(task) || bytes + sizeof(PackRecord) + task.length > room) break;
    bytes += sizeof(PackRecord) + task.length;
  }
  if (n < 2 || free_task_ == kNoTask) {
    if (!may_activate(lane)) return false;
    activate(lane);
    return stage_task(lane, lane.active.head);
  }
  const Charge charge = message_charge(bytes, false, lane.params.peer_slot_bytes);
  Slot slot;
  if (!take_slot(lane, charge, &slot)) return false;
  std::byte* record = slot.addr + kMsgHeaderBytes;
  std::byte* data = record + n * sizeof(PackRecord);
  const uint32_t pack = open_pack(lane, bytes);
  tasks_[pack].next = lane.queued.head;
  uint32_t last = kNoTask;
  for (uint32_t i = 0, index = lane.queued.head; i < n; ++i, record += sizeof(PackRecord)) {
    Task& task = tasks_[index];
    const PackRecord r{task_id(index), task.offset, task.buffer, static_cast<uint32_t>(task.length)};
    std::memcpy(record, &r, sizeof r);
    std::memcpy(data, task.local, task.length);
    data += task.length;
    task.sent = task.length;
    task.state = Task::State::kSent;
    last = index;
    index = task.next;
  }
  lane.queued.head = tasks_[last].next;
  (lane.queued.head == kNoTask ? lane.queued.tail : tasks_[lane.queued.head].prev) = kNoTask;
  lane.queued.count -= n;
  tasks_[last].next = kNoTask;
  MsgHeader h{};
  h.type = MsgType::kPack;
  h.task = task_id(pack);
  h.length = static_cast<uint32_t>(bytes);
  h.total = bytes;
  h.chunk = n;
  stage_slot(lane, h, slot, charge);
  return true;
}

bool Worker::stage_job(Lane& lane) noexcept {
  ReadJob& job = lane.jobs[lane.job_head];
  const uint64_t room = room_in(lane);
  MsgHeader h{};
  h.type = MsgType::kReadResp;
  h.length = static_cast<uint32_t>(std::min(job.total - job.sent, room));
  h.task = job.task;
  h.offset = job.sent;
  h.total = job.total;
  h.chunk = job.chunk;
  if (!stage_message(lane, h, job.base + job.sent)) return false;
  ++job.chunk;
  job.sent += h.length;
  if (job.sent == job.total) release_request(lane);
  return true;
}

bool Worker::stage_abort(Lane& lane) noexcept {
  const uint32_t index = lane.aborts.head;
  Task& task = tasks_[index];
  MsgHeader h{};
  h.type = MsgType::kAbort;
  h.task = task_id(index);
  h.total = task.sent;
  h.chunk = task.chunk;
  if (!stage_message(lane, h, nullptr)) return false;
  pop(lane.aborts);
  task.abort_sent = true;
  return true;
}

// One message of the task at the head of the active list; a task with more to send goes to the list's end.
bool Worker::stage_task(Lane& lane, uint32_t index) noexcept {
  Task& task = tasks_[index];
  const uint64_t room = room_in(lane);
  MsgHeader h{};
  h.task = task_id(index);
  h.total = task.length;
  h.buffer = task.buffer;
  h.chunk = task.chunk;
  h.offset = task.offset;
  if (task.read) {
    h.type = MsgType::kReadReq;
  } else {
    h.type = MsgType::kWrite;
    h.length = static_cast<uint32_t>(std::min(task.length - task.sent, room));
    h.offset += task.sent;
  }
  if (!stage_message(lane, h, task.local + task.sent)) return false;
  ++task.chunk;
  pop(lane.active);
  if (task.read) {
    task.sent = 1;
    task.state = Task::State::kSent;
    return true;
  }
  task.sent += h.length;
  task.state = task.sent == task.length ? Task::State::kSent : Task::State::kActive;
  if (task.state == Task::State::kActive) push(lane.active, index);
  if (mutant(Mutant::kDoneAtPost) && task.state == Task::State::kSent) finish(lane, index, TaskEnd::kDone, Code::kOk);
  return true;
}

// Post the staged prefix that the queue takes; the rest stays staged, in order, with its credit reserved (law 10).
uint32_t Worker::post_staged(Lane& lane) noexcept {
  std::array<Op, kMaxBurst> ops;
  for (uint32_t i = 0; i < lane.staged_count; ++i) ops[i] = lane.staged[i].op;
  const uint32_t n = p_.queue->post({ops.data(), lane.staged_count});
  if (n != lane.staged_count && mutant(Mutant::kFullRollback)) return 0;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < n; ++i) {
    lane.ledger.posted(lane.staged[i].charge);
    bytes += lane.staged[i].op.bytes0 - kMsgHeaderBytes;
  }
  if (n != lane.staged_count) {
    WorkerStats::add(stats_.stalls_depth, 1);
    std::copy(lane.staged.begin() + n, lane.staged.begin() + lane.staged_count, lane.staged.begin());
  }
  lane.staged_count -= n;
  lane.inflight += n;
  if (n != 0) lane.moved_at = now_;
  WorkerStats::add(stats_.messages_sent, n);
  WorkerStats::add(stats_.bytes_sent, bytes);
  return n;
}

// The first task that is not all sent is shown as waiting; when it is given up, the next one is.
void Worker::start_waiting(Lane& lane) noexcept {
  if (!lane.waiting) {
    lane.waiting = true;
    watch(lane);
    lane.wait_since = now_;
    lane.probe_every = p_.probe_first;
    lane.probe_at = now_ + lane.probe_every;
    WorkerStats::add(stats_.waits, 1);
  }
  const uint32_t index = first_unsent(lane);
  if (index == kNoTask || tasks_[index].wait_since != 0) return;
  tasks_[index].wait_since = now_;
  tasks_[index].port->set_waiting(tasks_[index].phase, true);
}

void Worker::stop_waiting(Lane& lane) noexcept {
  lane.waiting = false;
  const uint64_t waited = now_ - lane.wait_since;
  if (waited > stats_.wait_max.load(std::memory_order_relaxed)) WorkerStats::set(stats_.wait_max, waited);
  const uint32_t index = first_unsent(lane);
  if (index != kNoTask) end_wait(tasks_[index]);
}

uint32_t Worker::first_unsent(const Lane& lane) const noexcept {
  return lane.active.head != kNoTask ? lane.active.head : lane.queued.head;
}

void Worker::end_wait(Task& task) noexcept {
  if (task.wait_since == 0) return;
  task.waited_us += static_cast<uint32_t>((now_ - task.wait_since) / p_.ticks_per_us);
  task.wait_since = 0;
  task.port->set_waiting(task.phase, false);
}

// A send came back. A failed one is posted again with the same number, which the receiver drops if it has it.
void Worker::on_sent(const Completion& c) noexcept {
  const auto handle = static_cast<SlotHandle>(c.cookie);
  TxMeta& meta = tx_meta_[c.cookie & UINT32_MAX];
  Lane* lane = lane_at(meta.lane);
  if (lane != nullptr && lane->params.generation != meta.generation) lane = nullptr;
  if (c.code != Code::kOk && lane != nullptr && lane->state == Lane::State::kOpen) [[unlikely]] {
    if (++meta.tries < kMaxTries) {
      resend_.push_back(handle);  // reserved for every tx slot
      return;
    }
    violation(*lane, c.code);
  }
  --tx_out_;
  (void)p_.tx_pool->put(handle);
  if (lane == nullptr) return;
  --lane->inflight;
  if (lane->state == Lane::State::kOpen && (lane->draining || has_work(*lane) || lane->staged_count != 0)) list(*lane);
}

uint32_t Worker::resend() noexcept {
  uint32_t kept = 0, sent = 0;
  for (const SlotHandle handle : resend_) {
    const TxMeta& meta = tx_meta_[raw(handle) & UINT32_MAX];
    Slot slot;
    Lane* lane = lane_at(meta.lane);
    const bool live =
        lane != nullptr && lane->params.generation == meta.generation && lane->state == Lane::State::kOpen;
    if (!live || !p_.tx_pool->find(handle, &slot)) {
      on_sent({raw(handle), 0, CompletionKind::kOp, Code::kOk});
      continue;
    }
    const Op op{
        OpKind::kSend, lane->params.path, raw(handle), slot.addr, slot.local_desc, nullptr, 0, meta.bytes, 0, 0, 0};
    if (p_.queue->post({&op, 1}) == 1) {
      ++sent;
      WorkerStats::add(stats_.resends, 1);
    } else {
      resend_[kept++] = handle;
    }
  }
  resend_.resize(kept);
  return sent;
}

// FENCE: everything posted is home, and nothing is staged: control may send DRAIN_ACK with these totals.
void Worker::check_drained(Lane& lane) noexcept {
  if (lane.drain_told || lane.staged_count != 0 || lane.inflight != 0) return;
  lane.drain_told = true;
  ToControl m = message(ToControl::Kind::kPostsHome, lane);
  m.values.totals = lane.ledger.posted_total().v;
  tell(m);
}

}  // namespace sluice
