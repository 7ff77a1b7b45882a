/// @file rma_worker.h
/// The one-sided worker agent: it moves tasks by writes and reads into and out of peers' memory, over every rail.
///
/// Model    A turn reads the inbox, reaps completions, takes submissions, cuts tasks into ops at the seams of both
///          sides, spreads them over rails, and posts them. rma_worker.cc is the turn, inbox and tasks; rma_send.cc
///          cuts and posts; rma_done.cc is what comes back; rma_lane.cc deadlines and the end of lanes.
///          A task is final when all of its ops are home and, for a write, known to be placed.
///          Where a provider moves bytes only while the target polls, its node is told to stay awake (by
///          CREDIT_REQUEST, which asks for nothing) as long as it has tasks of ours.
///          A rail whose ops do not come home although their peer was given up is reset: its queue is shut down, which
///          brings every op home, and the service thread opens it anew.
/// Threads  turn() on its lcore; constructed and destroyed while it is not turned. stats() from any thread (relaxed).
/// Memory   Tables are sized at construction. A turn does not allocate, except when a path is connected.
/// Errors   An op that fails is tried again, on another rail if there is one; one that the peer's device refuses for
///          its key or range ends its tasks with kStale.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "agent/mailbox.h"
#include "agent/messages.h"
#include "agent/rma_lane.h"
#include "agent/worker_agent.h"

namespace sluice {

struct RmaRail {
  Queue* queue = nullptr;
  uint64_t max_op_bytes = 0;
  uint64_t bits_per_s = 0;
  bool placed = false;  ///< A write completes once it is placed (DeviceCaps::delivery_complete).
  bool idle_poll_costly = false;
  uint64_t grace = 0;   ///< Ticks for ops of a lane that was given up to come home by themselves.
  bool paired = false;  ///< DeviceCaps::paired: both ends connect when the lane opens, else the one that writes.
  /// By NUMA node of the memory: what its distance costs, 1 or more (env/plan.h). A node beyond the end: 1.
  std::vector<uint32_t> penalty;
  /// Registered with the rail: where the reads behind writes go.
  std::byte* scratch = nullptr;
  uint64_t scratch_desc = 0;
};

struct RmaWorkerParams {
  WorkerId id{};
  std::vector<RmaRail> rails;
  Mailbox<ToWorker>* inbox = nullptr;
  Mailbox<ToControl>* control = nullptr;
  uint32_t max_lanes = 0, max_tasks = 0;
  uint64_t op_bytes = 0;    ///< The most that one op moves.
  bool peers_poll = false;  ///< DeviceCaps::target_polls of any rail.
  uint64_t ticks_per_us = 1, task_timeout = 0, lease = 0, stall = 0, scan_every = 1;  ///< Times in ticks.
};

class RmaWorker final : public WorkerAgent {
 public:
  static constexpr uint32_t kMaxRails = 16;

  explicit RmaWorker(RmaWorkerParams params);
  ~RmaWorker() override;
  uint32_t turn(uint64_t now) noexcept override;

 private:
  friend struct RmaPeek;  // tests look, and change nothing
  struct Rail {
    explicit Rail(bool costly) : gate(costly) {}
    RmaRail p;
    std::array<Op, kMaxBurst> staged;
    uint32_t staged_count = 0;
    uint32_t depth = 0, out = 0;  // ops staged or posted
    bool down = false;            // shut down; a new queue is on its way
    bool told = false;            // that it is down and empty
    RailCost cost;
    PollGate gate;
  };

  // rma_worker.cc
  void wake() noexcept;
  uint32_t drain_inbox() noexcept;
  void on_message(const ToWorker& m) noexcept;
  void on_open_lane(RmaLane* lane) noexcept;
  uint32_t take_submissions() noexcept;
  uint32_t take_cancel(PortRings* port) noexcept;
  void admit(PortRings* port, const Submission& s) noexcept;
  void give_up(RmaLane& lane, uint32_t index, Code why) noexcept;
  void finish(RmaLane& lane, uint32_t index) noexcept;
  void push(TaskList& list, uint32_t index) noexcept;
  void unlink(TaskList& list, uint32_t index) noexcept;
  void push(OpList& list, uint32_t index) noexcept;
  uint32_t pop(OpList& list) noexcept;
  void list(RmaLane& lane) noexcept;
  void watch(RmaLane& lane) noexcept;
  RmaLane* lane_at(LaneId id) noexcept { return raw(id) < lanes_.size() ? lanes_[raw(id)] : nullptr; }
  void tell(const ToControl& m) noexcept;
  ToControl message(ToControl::Kind kind, const RmaLane& lane) const noexcept;

  // rma_send.cc
  uint32_t send(RmaLane& lane) noexcept;
  void keep_awake(RmaLane& lane) noexcept;
  bool stage_retry(RmaLane& lane) noexcept;
  bool stage_next(RmaLane& lane) noexcept;
  void merge(RmaLane& lane, RmaOp& op, const ChunkKey& chunk) noexcept;
  uint16_t choose(RmaLane& lane, const RmaTask& task, uint64_t bytes, uint16_t failed, bool* probe) noexcept;
  bool usable(RmaLane& lane, uint16_t rail) noexcept;
  void tell_if_lost(const RmaLane& lane) noexcept;
  uint32_t penalty(uint16_t rail, const Region& region) const noexcept;
  void stage(RmaLane& lane, uint32_t index, uint16_t rail, bool probe) noexcept;
  void stage_flush(RmaLane& lane, uint16_t rail) noexcept;
  uint32_t post(Rail& rail) noexcept;
  uint32_t take_op() noexcept;
  void free_op(uint32_t index) noexcept;

  // rma_done.cc
  uint32_t reap(uint16_t rail) noexcept;
  void on_home(uint16_t rail, const Completion& c) noexcept;
  void on_flushed(RmaLane& lane, uint16_t rail, const RmaOp& flush) noexcept;
  void settle(RmaLane& lane, uint32_t index) noexcept;
  void resolve(RmaLane& lane, uint32_t index) noexcept;

  // rma_lane.cc
  uint32_t scan() noexcept;
  bool scan_lane(RmaLane& lane) noexcept;
  void check_stalls(RmaLane& lane) noexcept;
  void on_fail_lane(RmaLane& lane, Code code, uint64_t give_up_at) noexcept;
  void unstage(RmaLane& lane) noexcept;
  void fail_list(RmaLane& lane, OpList& list) noexcept;
  void end_all(RmaLane& lane) noexcept;
  bool try_close(RmaLane& lane) noexcept;
  void leave_port(const PortRings* port) noexcept;
  void check_leaving() noexcept;
  void reset(uint16_t rail) noexcept;
  void check_down(uint16_t rail) noexcept;
  void on_rail_up(const ToWorker& m) noexcept;
  void on_path(RmaLane& lane, uint16_t rail, std::vector<std::byte>* address) noexcept;

  RmaWorkerParams p_;
  uint64_t now_ = 0, last_turn_ = 0, next_scan_ = 0;
  std::vector<Rail> rails_;
  uint16_t rail_count_ = 0;
  std::vector<RmaLane*> lanes_;
  std::vector<LaneId> work_;     // lanes with something to send
  std::vector<LaneId> scanned_;  // lanes with deadlines
  std::vector<RmaTask> tasks_;
  uint32_t free_task_ = kNoTask;
  uint32_t open_tasks_ = 0, next_port_ = 0, lane_count_ = 0;
  std::vector<RmaOp> ops_;
  uint32_t free_op_ = kNoOp, free_ops_ = 0;
  uint32_t probe_turn_ = 0;
  std::vector<PortRings*> ports_;
  std::vector<PortRings*> leaving_;  // whose ops are not home yet
  TaskEnds ends_;
};

}  // namespace sluice
