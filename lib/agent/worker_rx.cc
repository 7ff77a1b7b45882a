// hot: the receiving half of a worker's turn
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "agent/mutants.h"
#include "agent/worker.h"

namespace sluice {
namespace {
constexpr uint32_t kFreshLeaseBytes = 4096;  // from here on the clock is read again before each copy
}  // namespace

uint32_t Worker::reap() noexcept {
  if (!gate_.due()) return 0;
  std::array<Completion, kMaxBurst> done;
  const uint32_t n = p_.queue->poll(done);
  gate_.polled(n);
  if (n == 0) return 0;
  rx_now_ = p_.ticks();
  for (uint32_t i = 0; i < n; ++i) {
    if (done[i].kind == CompletionKind::kRecv)
      on_received(done[i]);
    else
      on_sent(done[i]);
  }
  if (!refill_.empty()) refill();
  return n;
}

void Worker::on_received(const Completion& c) noexcept {
  --rx_posted_;
  Refill entry{{}, LaneId{}, 0, false, 0};
  if (!p_.rx_pool->find(static_cast<SlotHandle>(c.cookie), &entry.slot)) [[unlikely]] {
    WorkerStats::add(stats_.messages_refused, 1);
    return;
  }
  MsgHeader h;
  if (c.code == Code::kOk) [[likely]] {
    WorkerStats::add(stats_.messages_received, 1);
    Lane* lane = nullptr;
    if (parse_message({entry.slot.addr, c.bytes}, &h) == Code::kOk) [[likely]]
      lane = judge(h);
    else
      on_bad_message({entry.slot.addr, c.bytes});
    if (lane != nullptr) {
      entry.lane = lane->params.id;
      entry.generation = lane->params.generation;
      entry.counted = true;
      entry.bytes = h.length;
      const std::byte* payload = entry.slot.addr + kMsgHeaderBytes;
      const uint32_t jobs = lane->job_count;
      if (mutant(Mutant::kGrantFirst) || mutant(Mutant::kReleaseFirst)) WorkerMutants::return_early(*this, &entry);
      switch (h.type) {
        case MsgType::kWrite: on_write(*lane, h, payload); break;
        case MsgType::kReadReq: on_read_request(*lane, h); break;
        case MsgType::kReadResp: on_read_response(*lane, h, payload); break;
        case MsgType::kAbort: on_abort(*lane, h); break;
        case MsgType::kPack: on_pack(*lane, h, payload); break;
      }
      if (mutant(Mutant::kReleaseFirst) && entry.slot.addr == nullptr) return;
      if (mutant(Mutant::kSharedPool) && lane->job_count > jobs) return WorkerMutants::hold(*this, entry);
    }
  }
  refill_.push_back(entry);
}

// Whether a message that parses may act: lane, session, epoch, lease, number. Counts it as accepted.
Lane* Worker::judge(const MsgHeader& h) noexcept {
  const auto current = [this, &h]() noexcept {
    Lane* at = lane_at(LaneId{h.lane});
    const bool named = at != nullptr && at->params.session == h.session && at->state == Lane::State::kOpen &&
                       (static_cast<uint32_t>(raw(at->rx_epoch)) == h.epoch || mutant(Mutant::kNoEpochCheck));
    return named ? at : nullptr;
  };
  Lane* lane = current();
  if (lane == nullptr) [[unlikely]] {
    catch_up();
    lane = current();
  }
  if (h.length >= kFreshLeaseBytes) rx_now_ = p_.ticks();
  if (lane != nullptr && rx_now_ >= lane->lease_until) [[unlikely]] {  // a newer one may have come
    catch_up();
    lane = current();
  }
  if (lane == nullptr) [[unlikely]] {
    WorkerStats::add(stats_.stale_messages, 1);
    return nullptr;
  }
  if (rx_now_ >= lane->lease_until) [[unlikely]] {  // law 12: this process may have been stopped and given up
    WorkerStats::add(stats_.lease_refusals, 1);
    if (!std::exchange(lane->lapse_told, true)) violation(*lane, Code::kTimeout);  // its sender will not send it again
    return nullptr;
  }
  const Code code = lane->seen.take(h.seq);
  if (code != Code::kOk) [[unlikely]] {
    WorkerStats::add(stats_.duplicates, 1);
    if (code == Code::kBadFrame) violation(*lane, code);
    return nullptr;
  }
  touch(*lane);
  ++lane->accepted_slots;
  lane->accepted_bytes += h.length;
  lane->ack_seen = h.ctrl_ack;
  lane->has_ack_seen = true;
  if ((h.flags & kMsgLowCredit) != 0) lane->low_credit_seen = true;
  if ((h.flags & kMsgAckNow) != 0) lane->ack_now_seen = true;
  return lane;
}

// Copy into an exported buffer. @return kStale (no such buffer any more), kOutOfRange.
Code Worker::place(uint32_t buffer, uint64_t offset, const std::byte* bytes, uint32_t length) noexcept {
  const Buffer* const to = buffer_of(buffer);
  if (to == nullptr) [[unlikely]]
    return Code::kStale;
  if (!range_ok(offset, length, to->bytes)) [[unlikely]]
    return Code::kOutOfRange;
  std::memcpy(to->base + offset, bytes, length);
  return Code::kOk;
}

void Worker::on_write(Lane& lane, const MsgHeader& h, const std::byte* payload) noexcept {
  uint64_t whole = h.length == h.total ? h.total : 0;  // bytes of the task, when this was the last of it
  const Code placed = place(h.buffer, h.offset, payload, h.length);
  if (placed == Code::kOk) [[likely]]
    WorkerStats::add(stats_.bytes_received, h.length);
  else
    refuse(lane, h.task, placed);
  if (whole == 0 && lane.partial.add(h.task, h.total, h.length, &whole) != Code::kOk) [[unlikely]] {
    violation(lane, Code::kBadFrame);
    return;
  }
  // A task of one message that was refused is settled by the NAK; one of several always ends with an acknowledgement.
  if (whole != 0 && (placed == Code::kOk || h.length != h.total)) acknowledge(lane, h.task, whole);
}

void Worker::on_pack(Lane& lane, const MsgHeader& h, const std::byte* payload) noexcept {
  if (!pack_adds_up(h, payload)) [[unlikely]] {
    violation(lane, Code::kBadFrame);
    return;
  }
  const std::byte* data = payload + h.chunk * sizeof(PackRecord);
  std::array<std::pair<TaskId, Code>, kNaksPerMessage> refused;
  uint32_t refusals = 0;
  for (uint32_t i = 0; i < h.chunk; ++i) {
    const PackRecord r = pack_record(payload, i);
    const Code placed = place(r.buffer, r.offset, data, r.length);
    data += r.length;
    if (placed != Code::kOk) [[unlikely]]
      refused[refusals++ % kNaksPerMessage] = {r.task, placed};
  }
  if (refusals > kNaksPerMessage) [[unlikely]] {
    refuse(lane, h.task, refused[0].second);
    refusals = 0;
  }
  for (uint32_t i = 0; i < refusals; ++i) refuse(lane, refused[i].first, refused[i].second);
  acknowledge(lane, h.task, h.length);  // of all; control sends the refusals first
  WorkerStats::add(stats_.bytes_received, h.length - h.chunk * sizeof(PackRecord));
}

// A message that does not parse costs the session that it names, if it is one of ours.
void Worker::on_bad_message(std::span<const std::byte> bytes) noexcept {
  WorkerStats::add(stats_.messages_refused, 1);
  if (bytes.size() < kMsgHeaderBytes) return;
  MsgHeader h;
  std::memcpy(&h, bytes.data(), sizeof h);
  Lane* lane = lane_at(LaneId{h.lane});
  if (lane != nullptr && lane->params.session == h.session) violation(*lane, Code::kBadFrame);
}

// The request's slot is free again at once; its credit (a request slot) returns when the last response is staged.
void Worker::on_read_request(Lane& lane, const MsgHeader& h) noexcept {
  ++lane.accepted_requests;
  Code refused = Code::kOk;
  const Buffer* const from = buffer_of(h.buffer);
  if (from == nullptr)
    refused = Code::kStale;
  else if (!range_ok(h.offset, h.total, from->bytes))
    refused = Code::kOutOfRange;
  if (refused != Code::kOk) [[unlikely]] {
    refuse(lane, h.task, refused);
    ++lane.released_requests;
    return;
  }
  if (lane.job_count == lane.params.requests) [[unlikely]] {
    violation(lane, Code::kBadFrame);  // more requests than were granted
    return;
  }
  const uint32_t at = (lane.job_head + lane.job_count) % lane.params.requests;
  lane.jobs[at] = ReadJob{h.task, from->base + h.offset, h.total, 0, 0, h.buffer};
  ++lane.job_count;
  list(lane);
}

void Worker::release_request(Lane& lane) noexcept {
  lane.job_head = (lane.job_head + 1) % lane.params.requests;
  --lane.job_count;
  ++lane.released_requests;
  if (mutant(Mutant::kSharedPool)) WorkerMutants::let_go(*this, lane.params.id, 1);
  touch(lane);
}

// Bytes of a read of ours. A task that was given up meanwhile has another generation, and its bytes go nowhere.
void Worker::on_read_response(Lane& lane, const MsgHeader& h, const std::byte* payload) noexcept {
  const auto index = static_cast<uint32_t>(raw(h.task));
  const auto generation = static_cast<uint32_t>(raw(h.task) >> 32);
  const bool known = index < tasks_.size() && (tasks_[index].generation == generation || mutant(Mutant::kNoGeneration));
  if (!known || !tasks_[index].read || tasks_[index].lane != lane.params.id ||
      tasks_[index].state != Task::State::kSent) {
    WorkerStats::add(stats_.stale_messages, 1);
    return;
  }
  Task& task = tasks_[index];
  if (h.total != task.length || !range_ok(h.offset, h.length, task.length) || h.length > task.length - task.received)
      [[unlikely]] {
    violation(lane, Code::kBadFrame);
    return;
  }
  std::memcpy(task.local + h.offset, payload, h.length);
  WorkerStats::add(stats_.bytes_received, h.length);
  task.received += h.length;
  lane.moved_at = now_;
  if (task.received == task.length) finish(lane, index, TaskEnd::kDone, Code::kOk);
}

void Worker::on_abort(Lane& lane, const MsgHeader& h) noexcept {
  uint64_t home = 0;
  if (lane.partial.abort(h.task, h.total, &home) != Code::kOk) [[unlikely]] {
    violation(lane, Code::kBadFrame);
    return;
  }
  if (home != 0) acknowledge(lane, h.task, home);
}

void Worker::acknowledge(Lane& lane, TaskId task, uint64_t bytes) noexcept {
  if (lane.ack_count == lane.acks.size()) {
    ToControl m = message(ToControl::Kind::kAcks, lane);
    m.count = kAcksPerMessage;
    m.acks = lane.acks;
    tell(m);
    lane.ack_count = 0;
  }
  lane.acks[lane.ack_count++] = AckEntry{raw(task), bytes};
}

void Worker::refuse(Lane& lane, TaskId task, Code code) noexcept {
  WorkerStats::add(stats_.messages_refused, 1);
  ToControl m = message(ToControl::Kind::kNak, lane);
  m.count = 1;
  m.acks[0] = AckEntry{raw(task), static_cast<uint64_t>(code)};
  tell(m);
}

// Post receives again; only then does the credit of what they held return (law 5).
void Worker::refill() noexcept {
  std::array<RecvBuf, kMaxBurst> bufs;
  size_t done = 0;
  while (done < refill_.size()) {
    const auto n = static_cast<uint32_t>(std::min<size_t>(kMaxBurst, refill_.size() - done));
    uint32_t live = 0;
    for (uint32_t i = 0; i < n; ++i) {
      const Slot& slot = refill_[done + i].slot;
      if (p_.rx_pool->is_retiring(slot.handle)) break;
      bufs[live++] = RecvBuf{slot.addr, slot.local_desc, raw(slot.handle), p_.slot_bytes};
    }
    const uint32_t taken = live == 0 ? 0 : p_.queue->refill({bufs.data(), live});
    for (uint32_t i = 0; i < taken; ++i) released(refill_[done + i]);
    rx_posted_ += taken;
    done += taken;
    if (taken != live) break;
    if (live != n) {  // stands before a slot of a retiring extent: another takes its place, or it goes home without
      (void)p_.rx_pool->put(refill_[done].slot.handle);
      if (p_.rx_pool->get({&refill_[done].slot, 1}) == 0) released(refill_[done++]);
    }
  }
  refill_.erase(refill_.begin(), refill_.begin() + static_cast<ptrdiff_t>(done));
}

void Worker::released(const Refill& entry) noexcept {
  if (!entry.counted) return;
  Lane* lane = lane_at(entry.lane);
  if (lane == nullptr || lane->params.generation != entry.generation) return;
  ++lane->released_slots;
  lane->released_bytes += entry.bytes;
  touch(*lane);
}

// Post what the queue refused before, and slots that are at home, up to what it takes.
void Worker::top_up() noexcept {
  std::array<Slot, kMaxBurst> slots;
  if (!refill_.empty()) refill();
  while (p_.rx_pool->free_slots() != 0 && rx_posted_ + refill_.size() < rx_limit_) {
    const uint64_t room = rx_limit_ - rx_posted_ - refill_.size();
    const uint32_t n = p_.rx_pool->get({slots.data(), static_cast<size_t>(std::min<uint64_t>(room, kMaxBurst))});
    if (n == 0) break;
    for (uint32_t i = 0; i < n; ++i) refill_.push_back({slots[i], LaneId{}, 0, false, 0});
    const size_t before = refill_.size();
    refill();
    if (refill_.size() == before) break;
  }
  WorkerStats::set(stats_.rx_posted, rx_posted_);
}

// Shrink: ask the device for the extent's posted receives; what it cannot give comes home with messages.
void Worker::retire(ExtentId id) noexcept {
  const uint32_t slots = p_.rx_pool->extent_slots(id);
  if (p_.rx_pool->retire_extent(id) != Code::kOk) return;
  std::array<uint64_t, kMaxBurst> cookies;
  for (uint32_t first = 0; first < slots; first += kMaxBurst) {
    const uint32_t n = std::min(kMaxBurst, slots - first);
    for (uint32_t i = 0; i < n; ++i) cookies[i] = raw(p_.rx_pool->handle_of(id, first + i));
    (void)p_.queue->recall({cookies.data(), n});
  }
  refill();
}

void Worker::return_retired() noexcept {
  std::unique_ptr<Extent> extent = p_.rx_pool->take_retired();
  if (extent == nullptr) return;
  ToControl m{};
  m.kind = ToControl::Kind::kExtentHome;
  m.worker = p_.id;
  m.extent = extent.release();
  tell(m);
}

}  // namespace sluice
