// What an application asks of a batch that it has submitted: its status, its early end, its release.
#include <algorithm>
#include <array>

#include "engine/port_impl.h"

namespace sluice {

Code PortImpl::status(BatchHandle handle, uint32_t index, TaskStatus* out) const noexcept {
  const Batch* batch = find(handle);
  if (batch == nullptr) return Code::kStale;
  if (index >= batch->count) return Code::kOutOfRange;
  const TaskSlot& task = batch->tasks[index];
  out->state = task.state;
  if (task.state == TaskState::kPending && task.phase != kNoPhase && rings_->waiting(task.phase))
    out->state = TaskState::kWaiting;
  out->code = task.code;
  out->bytes = task.state == TaskState::kDone ? task.length : 0;
  return Code::kOk;
}

Code PortImpl::status(BatchHandle handle, BatchStatus* out) const noexcept {
  const Batch* batch = find(handle);
  if (batch == nullptr) return Code::kStale;
  *out = {batch->count,
          batch->done,
          batch->failed,
          batch->cancelled,
          batch->notify,
          batch->notify_code,
          batch->final_tasks() == batch->count && batch->notify != NotifyState::kPending};
  return Code::kOk;
}

Code PortImpl::cancel(BatchHandle handle) noexcept {
  Batch* batch = find(handle);
  if (batch == nullptr) return Code::kStale;
  const auto index = static_cast<uint32_t>(handle);
  batch->cancelling = true;
  if (batch->queued) {  // what no ring has yet ends here
    std::erase(queue_, index);
    push(index);
  }
  // One message to each lane that has tasks of the batch, after a mark on each task that may not be there yet.
  std::array<const TaskSlot*, 64> lanes;
  size_t count = 0;
  Code code = Code::kOk;
  for (uint32_t i = 0; i < batch->pushed; ++i) {
    const TaskSlot& task = batch->tasks[i];
    if (task.state > TaskState::kWaiting) continue;
    rings_->set_cancelled(task.phase, true);
    const auto same = [&](const TaskSlot* t) { return t->peer == task.peer && t->generation == task.generation; };
    if (std::any_of(lanes.begin(), lanes.begin() + count, same)) continue;
    if (count == lanes.size())
      code = Code::kAgain;
    else
      lanes[count++] = &task;
  }
  for (size_t i = 0; i < count; ++i) {
    const Cancel c{
        ref_of(index, batch->generation, 0), kBatchBits, LaneId{raw(lanes[i]->peer)}, lanes[i]->generation, {}};
    for (uint16_t w = 0; w < lanes[i]->lanes; ++w)
      if (!rings_->cancels(WorkerId{w}).put(c)) code = Code::kAgain;
  }
  return code;
}

Code PortImpl::release(BatchHandle handle) noexcept {
  Batch* batch = find(handle);
  if (batch == nullptr) return Code::kStale;
  if (batch->final_tasks() != batch->count || batch->notify == NotifyState::kPending) return Code::kBusy;
  batch->used = false;
  if (++batch->generation == 0) batch->generation = 1;
  free_batches_.push_back(static_cast<uint32_t>(handle));
  return Code::kOk;
}

}  // namespace sluice
