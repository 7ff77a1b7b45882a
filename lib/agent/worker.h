/// @file worker.h
/// The worker agent: it owns one queue, its lanes, their tasks and its bounce memory.
///
/// Model    A turn reads the inbox, reaps completions and received messages, takes submissions, sends what credit and
///          room allow, and tells the control core. worker_rx.cc is the receiving half, worker_tx.cc the sending
///          half, worker_lane.cc lists, deadlines and the end of lanes, worker.cc the turn, inbox and tasks.
/// Threads  turn() on its lcore; constructed and destroyed while it is not turned. stats() from any thread (relaxed).
/// Memory   Tables are sized at construction. A turn does not allocate, except when a path is connected.
/// Errors   Whatever a peer does costs its own session: the worker tells control, which ends it.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "agent/lane.h"
#include "agent/mailbox.h"
#include "agent/messages.h"
#include "agent/worker_agent.h"
#include "mem/bounce_pool.h"
#include "proto/msg_header.h"
#include "xport/driver.h"

namespace sluice {

struct WorkerParams {
  WorkerId id{};
  Queue* queue = nullptr;
  BouncePool* rx_pool = nullptr;
  BouncePool* tx_pool = nullptr;  ///< One extent, so that a slot's index names it.
  Mailbox<ToWorker>* inbox = nullptr;
  Mailbox<ToControl>* control = nullptr;
  TickSource ticks = nullptr;  ///< For the lease, just before bytes are placed.
  uint32_t slot_bytes = 0, max_lanes = 0, max_tasks = 0, max_buffers = 0, rx_slots_max = 0;
  uint64_t ticks_per_us = 1, task_timeout = 0, probe_first = 0, probe_max = 0, lease = 0;  ///< Times in ticks.
  bool verify_crc = false, idle_poll_costly = false;
};

class Worker final : public WorkerAgent {
 public:
  explicit Worker(const WorkerParams& params);
  ~Worker() override;
  uint32_t turn(uint64_t now) noexcept override;

 private:
  friend struct SimPeek;        // test/sim: the simulator looks, and changes nothing
  friend struct WorkerMutants;  // mutants.h: only in tests of the tests
  struct Buffer {
    std::byte* base;
    uint64_t bytes;
    uint32_t id;  // all of the number; its place in the table is the lower part
  };
  struct TxMeta {  // of a tx slot that is out
    LaneId lane;
    uint16_t generation;
    uint16_t tries;
    uint32_t bytes;
  };

  struct Refill {  // an rx slot on its way back to the queue, and whose credit returns with it
    Slot slot;
    LaneId lane;
    uint16_t generation;
    bool counted;
    uint32_t bytes;
  };

  // worker.cc: inbox, lanes, tasks
  uint32_t drain_inbox() noexcept;
  void catch_up() noexcept;
  void on_message(const ToWorker& m) noexcept;
  void on_lane_message(Lane& lane, const ToWorker& m) noexcept;
  void on_open_lane(Lane* lane) noexcept;
  void count_lanes(uint32_t change) noexcept;
  void capacity() noexcept;
  void on_fail_lane(Lane& lane, Code code, uint64_t give_up_at) noexcept;
  void on_acks(Lane& lane, const ToWorker& m) noexcept;
  void close_pack(Lane& lane, uint32_t index) noexcept;
  void on_nak(Lane& lane, const AckEntry& nak) noexcept;
  uint32_t clear_buffers() noexcept;
  uint32_t clear_jobs(Lane& lane, uint64_t buffer, uint32_t most) noexcept;
  uint32_t take_submissions() noexcept;
  void admit(PortRings* port, const Submission& s) noexcept;
  uint32_t take_cancels(PortRings* port) noexcept;
  void leave_port(Lane& lane, const PortRings* port) noexcept;
  void give_up(Lane& lane, uint32_t index, Code why) noexcept;
  void free_task(uint32_t index) noexcept;
  void finish(Lane& lane, uint32_t index, TaskEnd end, Code code) noexcept;
  uint32_t scan() noexcept;
  bool scan_lane(Lane& lane) noexcept;
  void end_all(Lane& lane) noexcept;
  bool try_close(Lane& lane) noexcept;
  void report(Lane& lane) noexcept;
  void report_all() noexcept;
  void list(Lane& lane) noexcept;
  void touch(Lane& lane) noexcept;
  void watch(Lane& lane) noexcept;
  void violation(Lane& lane, Code code) noexcept;
  Lane* lane_at(LaneId id) noexcept { return raw(id) < lanes_.size() ? lanes_[raw(id)] : nullptr; }
  void push(TaskList& list, uint32_t index) noexcept;
  uint32_t pop(TaskList& list) noexcept;
  void unlink(TaskList& list, uint32_t index) noexcept;
  void tell(const ToControl& m) noexcept;
  ToControl message(ToControl::Kind kind, const Lane& lane) const noexcept;

  // worker_tx.cc
  uint32_t send(Lane& lane) noexcept;
  bool packs(const Task& task) const noexcept;
  uint64_t room_in(const Lane& lane) const noexcept;
  TaskId task_id(uint32_t index) const noexcept { return TaskId{uint64_t{tasks_[index].generation} << 32 | index}; }
  void activate(Lane& lane) noexcept;
  bool may_activate(const Lane& lane) const noexcept;
  void stage(Lane& lane) noexcept;
  bool stage_message(Lane& lane, MsgHeader& header, const std::byte* payload) noexcept;
  bool stage_job(Lane& lane) noexcept;
  bool stage_task(Lane& lane, uint32_t index) noexcept;
  uint32_t open_pack(Lane& lane, uint64_t bytes) noexcept;
  bool stage_pack(Lane& lane) noexcept;
  bool stage_abort(Lane& lane) noexcept;
  /// A lane may always have one tx slot out, and more as long as it has less than three times what is left free: one
  /// lane gets three quarters, n lanes get 3 / (3n + 1) each, and stopped peers leave one for each other lane (for a
  /// quarter of the slots at most).
  bool may_take(const Lane& lane) const noexcept {
    const uint32_t held = lane.inflight + lane.staged_count, free = tx_depth_ - tx_out_;
    return free != 0 && (held == 0 || (held < 3 * free && free > tx_reserve_));
  }
  bool take_slot(Lane& lane, const Charge& charge, Slot* slot) noexcept;
  void stage_slot(Lane& lane, MsgHeader& header, const Slot& slot, const Charge& charge) noexcept;
  uint32_t post_staged(Lane& lane) noexcept;
  void start_waiting(Lane& lane) noexcept;
  void stop_waiting(Lane& lane) noexcept;
  uint32_t first_unsent(const Lane& lane) const noexcept;
  void end_wait(Task& task) noexcept;
  void on_sent(const Completion& c) noexcept;
  uint32_t resend() noexcept;
  void check_drained(Lane& lane) noexcept;
  bool has_work(const Lane& lane) const noexcept;

  // worker_rx.cc
  uint32_t reap() noexcept;
  void on_received(const Completion& c) noexcept;
  Lane* judge(const MsgHeader& h) noexcept;
  void on_write(Lane& lane, const MsgHeader& h, const std::byte* payload) noexcept;
  const Buffer* buffer_of(uint32_t id) const noexcept {
    const Buffer& buffer = buffers_[id & (buffers_.size() - 1)];
    return buffer.base != nullptr && buffer.id == id ? &buffer : nullptr;
  }
  Code place(uint32_t buffer, uint64_t offset, const std::byte* bytes, uint32_t length) noexcept;
  void on_pack(Lane& lane, const MsgHeader& h, const std::byte* payload) noexcept;
  void on_bad_message(std::span<const std::byte> bytes) noexcept;
  void on_read_request(Lane& lane, const MsgHeader& h) noexcept;
  void on_read_response(Lane& lane, const MsgHeader& h, const std::byte* payload) noexcept;
  void on_abort(Lane& lane, const MsgHeader& h) noexcept;
  void acknowledge(Lane& lane, TaskId task, uint64_t bytes) noexcept;
  void refuse(Lane& lane, TaskId task, Code code) noexcept;
  void release_request(Lane& lane) noexcept;
  void refill() noexcept;
  void top_up() noexcept;
  void released(const Refill& entry) noexcept;
  void retire(ExtentId id) noexcept;
  void return_retired() noexcept;

  static constexpr uint32_t kScanLanes = 64;  // lanes looked at in one scan
  WorkerParams p_;
  uint64_t now_ = 0, rx_now_ = 0, next_scan_ = 0, scan_every_;
  std::vector<Lane*> lanes_;
  std::vector<LaneId> work_;     // lanes with something to send
  std::vector<LaneId> touched_;  // lanes with something to report
  std::vector<LaneId> scanned_;  // lanes with deadlines
  std::vector<Task> tasks_;
  uint32_t free_task_ = kNoTask;
  uint32_t open_tasks_ = 0, next_port_ = 0;
  std::vector<Buffer> buffers_;                       // 2^n
  std::array<ToWorker::Buffer, kMaxBurst> clears_{};  // buffers that end, and whose reads are being refused
  uint32_t clear_count_ = 0;
  LaneId clear_lane_{};  // where the first of them goes on
  std::vector<PortRings*> ports_;
  std::vector<TxMeta> tx_meta_;
  std::vector<SlotHandle> resend_;            // tx slots whose op failed and may be tried again
  std::vector<Refill> refill_;                // rx slots to post
  uint32_t pack_limit_ = 0;                   // bytes up to which a write is packed
  uint32_t lane_count_ = 0, tx_reserve_ = 0;  // lanes, and tx slots kept for those of them that have none out
  uint32_t tx_out_ = 0, tx_depth_ = 0, rx_posted_ = 0, rx_limit_ = 0;
  TaskEnds ends_;
  std::array<Slot, kMaxBurst> spare_;  // tx slots taken in a burst and not used yet
  uint32_t spares_ = 0;
  PollGate gate_;
};

}  // namespace sluice
