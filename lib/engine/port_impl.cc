#include "engine/port_impl.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/log.h"

namespace sluice {
namespace {
constexpr uint32_t kPollBurst = 32;
}  // namespace

PortImpl::PortImpl(std::unique_ptr<PortRings> rings, const MemoryTable* memory, SegmentTable* segments,
                   uint32_t max_peers, std::function<bool(PortRings*)> on_close)
    : rings_(std::move(rings)),
      memory_(memory),
      segments_(segments),
      on_close_(std::move(on_close)),
      per_peer_(max_peers, 0),
      staged_(rings_->workers()),
      per_peer_limit_(rings_->max_open() / 4 * 3) {
  for (uint32_t i = rings_->max_open(); i-- > 0;) free_phases_.push_back(static_cast<uint16_t>(i));
  for (uint32_t i = PortRings::kNotifies; i-- > 0;) free_notifies_.push_back(i);
  segments_->add_reader(&reader_);  // last: a constructor that fails has no destructor
}

PortImpl::~PortImpl() {
  segments_->remove_reader(&reader_);
  if (!on_close_(rings_.get())) {
    log_error(
        "port",
        "an agent does not answer (is its lcore blocked?): the port's rings and the memory of its tasks stay in use");
    (void)rings_.release();
    return;
  }
  for (Batch& batch : batches_)
    for (uint32_t i = 0; batch.used && i < batch.count; ++i)
      if (batch.tasks[i].state <= TaskState::kWaiting) uncount(batch.tasks[i]);
}

const PortImpl::Batch* PortImpl::find(BatchHandle handle) const noexcept {
  const auto index = static_cast<uint32_t>(handle);
  if (index >= batches_.size()) return nullptr;
  const Batch& batch = batches_[index];
  return batch.used && batch.generation == static_cast<uint64_t>(handle) >> 32 ? &batch : nullptr;
}

PortImpl::Batch* PortImpl::find(BatchHandle handle) noexcept {
  return const_cast<Batch*>(std::as_const(*this).find(handle));
}

// The released batch that fits best is taken again; only when none fits is memory allocated.
Code PortImpl::allocate_batch(uint32_t max_tasks, BatchHandle* out) noexcept {
  if (max_tasks == 0 || max_tasks >= kMaxBatchTasks) return Code::kBadArgument;
  size_t best = free_batches_.size();
  for (size_t i = free_batches_.size(); i-- > 0;) {
    const uint32_t capacity = batches_[free_batches_[i]].capacity;
    if (capacity < max_tasks) continue;
    if (best == free_batches_.size() || capacity < batches_[free_batches_[best]].capacity) best = i;
    if (capacity < 2 * max_tasks) break;
  }
  uint32_t index;
  if (best != free_batches_.size()) {
    index = free_batches_[best];
    free_batches_[best] = free_batches_.back();
    free_batches_.pop_back();
  } else {
    if (batches_.size() == kMaxBatches) return Code::kLimit;
    index = static_cast<uint32_t>(batches_.size());
    batches_.emplace_back();
    batches_[index].tasks = std::make_unique_for_overwrite<TaskSlot[]>(max_tasks);
    batches_[index].capacity = max_tasks;
    queue_.reserve(batches_.capacity());
    touched_.reserve(batches_.capacity());
    free_batches_.reserve(batches_.capacity());
  }
  Batch& batch = batches_[index];
  batch.limit = max_tasks;
  batch.count = batch.pushed = batch.done = batch.failed = batch.cancelled = 0;
  batch.notify = NotifyState::kNone;
  batch.notify_code = Code::kOk;
  batch.used = true;
  batch.notify_out = batch.cancelling = false;
  *out = BatchHandle{uint64_t{batch.generation} << 32 | index};
  return Code::kOk;
}

const MemorySpan* PortImpl::span_of(const void* addr, uint64_t length) noexcept {
  const auto* at = static_cast<const std::byte*>(addr);
  if (last_span_ != nullptr && at >= last_span_->base &&
      range_ok(static_cast<uint64_t>(at - last_span_->base), length, last_span_->bytes))
    return last_span_;
  const MemorySpan* found = snapshot_->find(at, length);
  if (found != nullptr) last_span_ = found;
  return found;
}

Code PortImpl::check(const Request& r, TaskSlot* slot) noexcept {
  if (r.segment != last_segment_ || last_open_ == nullptr) {
    last_open_ = segments_->find(r.segment);
    last_segment_ = r.segment;
    if (last_open_ == nullptr) return Code::kStale;
    if (!last_open_->alive.load(std::memory_order_relaxed)) return Code::kPeerDead;
    if (last_open_->ended.load(std::memory_order_relaxed)) return Code::kStale;
  }
  const OpenSegment& segment = *last_open_;
  if (r.op != TransferOp::kWrite && r.op != TransferOp::kRead) return Code::kBadArgument;
  if (r.buffer >= segment.buffers.size() || !range_ok(r.offset, r.length, segment.buffers[r.buffer].bytes))
    return Code::kOutOfRange;
  static const MemorySpan nothing{nullptr, 0, std::make_shared<MemoryUse>()};  // of tasks of length 0
  const MemorySpan* span = r.length == 0 ? &nothing : span_of(r.local, r.length);
  if (span == nullptr) return Code::kNotRegistered;
  MemoryUse* const use = span->use.get();
  const OpenSegment::Buffer& buffer = segment.buffers[r.buffer];
  const bool one_sided = buffer.remote.rails != 0;
  *slot = TaskSlot{static_cast<std::byte*>(r.local),
                   r.offset,
                   r.length,
                   use,
                   one_sided ? last_open_ : nullptr,
                   &buffer.remote,
                   buffer.id,
                   segment.peer,
                   segment.peer_generation,
                   segment.lanes,
                   kNoPhase,
                   r.op,
                   TaskState::kPending,
                   Code::kOk};
  return Code::kOk;
}

// Tasks on one registration and segment are counted together; in a batch they mostly are.
void PortImpl::count_uses(Batch& batch, uint32_t first, bool in) noexcept {
  for (uint32_t i = first; i < batch.count;) {
    MemoryUse* use = batch.tasks[i].use;
    OpenSegment* segment = batch.tasks[i].segment;
    uint32_t n = 0;
    for (; i < batch.count && batch.tasks[i].use == use && batch.tasks[i].segment == segment; ++i) ++n;
    use->uses.fetch_add(in ? n : 0u - n);
    if (segment != nullptr) segment->uses.fetch_add(in ? n : 0u - n);
  }
}

void PortImpl::uncount(const TaskSlot& task) noexcept {
  task.use->uses.fetch_sub(1, std::memory_order_release);
  if (task.segment != nullptr) task.segment->uses.fetch_sub(1, std::memory_order_release);
}

Code PortImpl::submit(BatchHandle handle, std::span<const Request> requests, uint32_t* bad) noexcept {
  if (bad != nullptr) *bad = 0;
  Batch* batch = find(handle);
  if (batch == nullptr || batch->cancelling) return Code::kStale;
  if (batch->notify != NotifyState::kNone) return Code::kExists;  // the notify is for what was submitted before it
  if (requests.size() > batch->limit - batch->count) return Code::kLimit;
  if (memory_->version() != snapshot_version_) [[unlikely]] {
    snapshot_version_ = memory_->version();
    snapshot_ = memory_->snapshot();
    last_span_ = nullptr;
  }
  const SegmentReader::Section reading(reader_, *segments_);
  last_open_ = nullptr;  // looked up once in each call
  const uint32_t first = batch->count;
  for (size_t i = 0; i < requests.size(); ++i) {
    const Code code = check(requests[i], &batch->tasks[first + i]);
    if (code == Code::kOk) continue;
    if (bad != nullptr) *bad = static_cast<uint32_t>(i);
    return code;
  }
  batch->count += static_cast<uint32_t>(requests.size());
  count_uses(*batch, first, true);
  for (uint32_t i = first; i < batch->count; ++i) {
    const TaskSlot& task = batch->tasks[i];
    const bool ended = task.segment != nullptr && task.segment->ended.load();
    if (!task.use->closing.load() && !ended) [[likely]]
      continue;
    count_uses(*batch, first, false);  // unregister, or the peer's, came in between
    batch->count = first;
    if (bad != nullptr) *bad = i - first;
    return ended ? Code::kStale : Code::kNotRegistered;
  }
  open_ += batch->count - first;
  const auto index = static_cast<uint32_t>(handle);
  if (!batch->queued) push(index);
  flush_staged();
  return Code::kOk;
}

// Tasks of one batch into the rings, in order, as far as there is room.
void PortImpl::push(uint32_t index) noexcept {
  Batch& batch = batches_[index];
  while (batch.pushed < batch.count && push_one(batch, index)) ++batch.pushed;
  batch.queued = batch.pushed < batch.count;
  if (batch.queued) queue_.push_back(index);
}

bool PortImpl::push_one(Batch& batch, uint32_t batch_index) noexcept {
  TaskSlot& task = batch.tasks[batch.pushed];
  if (task.length == 0) {
    end_task(batch, task, TaskState::kDone, Code::kOk);
    return true;
  }
  if (batch.cancelling) {
    end_task(batch, task, TaskState::kCancelled, Code::kCancelled);
    return true;
  }
  uint32_t& with_peer = per_peer_[raw(task.peer)];
  if (free_phases_.empty() || with_peer >= per_peer_limit_) return false;
  const uint32_t worker = task.lanes == 1 ? 0 : next_worker_ % task.lanes;
  Staged& staged = staged_[worker];
  if (staged.count == staged.items.size()) {
    flush_staged();
    if (staged.count == staged.items.size()) return false;
  }
  ++next_worker_;
  ++with_peer;
  task.phase = free_phases_.back();
  free_phases_.pop_back();
  rings_->set_cancelled(task.phase, false);
  staged.items[staged.count++] = Submission{ref_of(batch_index, batch.generation, batch.pushed),
                                            task.local,
                                            task.offset,
                                            task.length,
                                            task.use->region,
                                            task.remote,
                                            task.buffer,
                                            LaneId{raw(task.peer)},
                                            task.generation,
                                            task.phase,
                                            task.op == TransferOp::kRead ? SubmitOp::kRead : SubmitOp::kWrite,
                                            {}};
  return true;
}

void PortImpl::flush_staged() noexcept {
  for (uint32_t w = 0; w < staged_.size(); ++w) {
    Staged& staged = staged_[w];
    if (staged.count == 0) continue;
    const uint32_t n = rings_->submissions(WorkerId{static_cast<uint16_t>(w)}).put({staged.items.data(), staged.count});
    staged.count -= n;
    std::copy(staged.items.begin() + n, staged.items.begin() + n + staged.count, staged.items.begin());
  }
}

Code PortImpl::attach_notify(BatchHandle handle, SegmentHandle segment, std::string_view name,
                             std::string_view message) noexcept {
  Batch* batch = find(handle);
  const SegmentReader::Section reading(reader_, *segments_);
  const OpenSegment* to = segments_->find(segment);
  if (batch == nullptr || to == nullptr) return Code::kStale;
  if (!to->alive.load(std::memory_order_relaxed)) return Code::kPeerDead;
  if (batch->notify != NotifyState::kNone) return Code::kExists;
  if (name.size() + message.size() > rings_->notify_bytes()) return Code::kLimit;
  if (free_notifies_.empty()) return Code::kAgain;
  batch->notify_index = free_notifies_.back();
  free_notifies_.pop_back();
  char* text = rings_->notify_text(batch->notify_index);
  std::copy(name.begin(), name.end(), text);
  std::copy(message.begin(), message.end(), text + name.size());
  batch->notify_peer = to->peer;
  batch->notify_generation = to->peer_generation;
  batch->notify_name = static_cast<uint16_t>(name.size());
  batch->notify_message = static_cast<uint16_t>(message.size());
  batch->notify = NotifyState::kPending;
  settle(*batch, static_cast<uint32_t>(handle));
  return Code::kOk;
}

uint32_t PortImpl::poll() noexcept {
  uint32_t work = 0;
  std::array<TaskDone, kPollBurst> done;
  for (size_t w = 0; w < staged_.size(); ++w) {
    Mailbox<TaskDone>& ring = rings_->completions(WorkerId{static_cast<uint16_t>(w)});
    if (ring.empty()) continue;
    const uint32_t n = ring.take(done);
    for (uint32_t i = 0; i < n; ++i) on_done(done[i]);
    work += n;
  }
  if (!rings_->notify_results().empty()) {
    const uint32_t n = rings_->notify_results().take(done);
    for (uint32_t i = 0; i < n; ++i) on_notify_done(done[i]);
    work += n;
  }
  for (const uint32_t index : touched_) settle(batches_[index], index);
  touched_.clear();
  for (size_t i = queue_.size(); i-- > 0;) {  // oldest first; each goes back to the end if it is not through
    const uint32_t index = queue_.front();
    queue_.erase(queue_.begin());
    push(index);
  }
  flush_staged();
  return work;
}

void PortImpl::end_task(Batch& batch, TaskSlot& task, TaskState state, Code code) noexcept {
  task.state = state;
  task.code = code;
  ++(state == TaskState::kDone ? batch.done : state == TaskState::kFailed ? batch.failed : batch.cancelled);
  --open_;
  uncount(task);
  if (batch.final_tasks() == batch.count && batch.notify == NotifyState::kPending)
    touched_.push_back(static_cast<uint32_t>(&batch - batches_.data()));
}

void PortImpl::on_done(const TaskDone& d) noexcept {
  const auto index = static_cast<uint32_t>(d.ref >> 40);
  Batch& batch = batches_[index];
  TaskSlot& task = batch.tasks[d.ref & 0xffffff];
  rings_->set_waiting(task.phase, false);
  free_phases_.push_back(task.phase);
  --per_peer_[raw(task.peer)];
  constexpr std::array kStates{TaskState::kDone, TaskState::kFailed, TaskState::kCancelled};
  end_task(batch, task, kStates[static_cast<size_t>(d.end)], d.code);
}

// A batch with a notify, all of whose tasks are final: send the notify if all are done, else say that it failed.
void PortImpl::settle(Batch& batch, uint32_t index) noexcept {
  if (batch.notify != NotifyState::kPending || batch.notify_out || !batch.settled()) return;
  const NotifyOut out{ref_of(index, batch.generation, 0),
                      batch.notify_peer,
                      batch.notify_generation,
                      batch.notify_name,
                      batch.notify_message,
                      batch.notify_index,
                      {}};
  if ((batch.done == batch.count || mutant(Mutant::kNotifyFirst)) &&
      rings_->notifies().put(out)) {  // has a place for each of kNotifies
    batch.notify_out = true;
    return;
  }
  batch.notify = NotifyState::kFailed;
  batch.notify_code = Code::kCancelled;
  free_notifies_.push_back(batch.notify_index);
}

void PortImpl::on_notify_done(const TaskDone& d) noexcept {
  Batch& batch = batches_[static_cast<uint32_t>(d.ref >> 40)];
  batch.notify = d.end == TaskEnd::kDone ? NotifyState::kDelivered : NotifyState::kFailed;
  batch.notify_code = d.code;
  batch.notify_out = false;
  free_notifies_.push_back(batch.notify_index);
}

}  // namespace sluice
