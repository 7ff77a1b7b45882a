/// @file port_impl.h
/// The engine's port: batches and tasks in the application's thread, over the rings to the agents.
///
/// Model    A task keeps its request until a ring has room for it. A completion names batch, generation and index, so
///          that it finds its task in O(1). Per batch there are counters; a batch is final when they add up.
/// Threads  One thread at a time.
/// Memory   Batches are kept and reused by size; in the steady state nothing allocates.
/// Errors   As port.h says.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "agent/port_rings.h"
#include "base/mutant.h"
#include "engine/memory_table.h"
#include "engine/port.h"
#include "engine/segment_table.h"

namespace sluice {

class PortImpl final : public Port {
 public:
  /// @p on_close is called by the destructor; it takes the rings out of the agents' hands and returns when they are. If
  /// it says that they are not, the rings are left to them for good.
  PortImpl(std::unique_ptr<PortRings> rings, const MemoryTable* memory, SegmentTable* segments, uint32_t max_peers,
           std::function<bool(PortRings*)> on_close);
  ~PortImpl() override;

  Code allocate_batch(uint32_t max_tasks, BatchHandle* batch) noexcept override;
  Code submit(BatchHandle batch, std::span<const Request> requests, uint32_t* bad) noexcept override;
  Code attach_notify(BatchHandle batch, SegmentHandle segment, std::string_view name,
                     std::string_view message) noexcept override;
  uint32_t poll() noexcept override;
  Code status(BatchHandle batch, uint32_t index, TaskStatus* out) const noexcept override;
  Code status(BatchHandle batch, BatchStatus* out) const noexcept override;
  Code cancel(BatchHandle batch) noexcept override;
  Code release(BatchHandle batch) noexcept override;
  uint32_t open_tasks() const noexcept override { return open_; }

 private:
  static constexpr uint32_t kMaxBatchTasks = 1u << 24;
  static constexpr uint32_t kMaxBatches = 1u << 16;
  static constexpr uint16_t kNoPhase = UINT16_MAX;

  struct TaskSlot {
    std::byte* local;
    uint64_t offset, length;
    MemoryUse* use;
    OpenSegment* segment;        // whose uses count it; null: two-sided
    const RemoteBuffer* remote;  // of the segment
    uint32_t buffer;
    PeerId peer;
    uint16_t generation;
    uint16_t lanes;
    uint16_t phase;
    TransferOp op;
    TaskState state;
    Code code;
  };
  struct Batch {
    std::unique_ptr<TaskSlot[]> tasks;
    uint32_t capacity = 0, limit = 0, count = 0, pushed = 0, done = 0, failed = 0, cancelled = 0;
    uint32_t notify_index = 0;
    PeerId notify_peer{};
    uint16_t notify_generation = 0, notify_name = 0, notify_message = 0;
    uint16_t generation = 1;
    NotifyState notify = NotifyState::kNone;
    Code notify_code = Code::kOk;
    bool used = false, queued = false, notify_out = false, cancelling = false;
    uint32_t final_tasks() const noexcept { return done + failed + cancelled; }
    bool settled() const noexcept { return final_tasks() == count || mutant(Mutant::kNotifyFirst); }
  };

  // A task's number at the agents: batch << 40 | generation of the batch << 24 | task.
  static constexpr uint64_t kBatchBits = ~uint64_t{0xffffff};
  static constexpr uint64_t ref_of(uint32_t batch, uint16_t generation, uint32_t task) noexcept {
    return uint64_t{batch} << 40 | uint64_t{generation} << 24 | task;
  }

  Batch* find(BatchHandle handle) noexcept;
  const Batch* find(BatchHandle handle) const noexcept;
  Code check(const Request& r, TaskSlot* slot) noexcept;
  const MemorySpan* span_of(const void* addr, uint64_t length) noexcept;
  void count_uses(Batch& batch, uint32_t first, bool in) noexcept;
  static void uncount(const TaskSlot& task) noexcept;
  void push(uint32_t index) noexcept;
  bool push_one(Batch& batch, uint32_t batch_index) noexcept;
  void flush_staged() noexcept;
  void end_task(Batch& batch, TaskSlot& task, TaskState state, Code code) noexcept;
  void on_done(const TaskDone& d) noexcept;
  void on_notify_done(const TaskDone& d) noexcept;
  void settle(Batch& batch, uint32_t index) noexcept;

  std::unique_ptr<PortRings> rings_;
  const MemoryTable* memory_;
  SegmentTable* segments_;
  std::function<bool(PortRings*)> on_close_;
  std::shared_ptr<const MemorySnapshot> snapshot_;
  uint64_t snapshot_version_ = 0;
  const MemorySpan* last_span_ = nullptr;
  SegmentReader reader_;
  SegmentHandle last_segment_{};
  OpenSegment* last_open_ = nullptr;

  std::vector<Batch> batches_;
  std::vector<uint32_t> free_batches_;
  std::vector<uint32_t> queue_;  // batches with tasks that no ring had room for yet
  std::vector<uint16_t> free_phases_;
  std::vector<uint32_t> free_notifies_;
  std::vector<uint32_t> per_peer_;  // tasks with workers, by peer
  std::vector<uint32_t> touched_;   // batches to settle at the end of a poll
  struct Staged {
    std::array<Submission, 32> items;
    uint32_t count = 0;
  };
  std::vector<Staged> staged_;  // by worker
  uint32_t open_ = 0, next_worker_ = 0, per_peer_limit_;
};

}  // namespace sluice
