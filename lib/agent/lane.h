/// @file lane.h
/// A lane: one path to a peer's worker, with its session, credit and tasks, and what the peer may place through it.
///
/// Model    Tasks wait in submission order, at most kActive of them partly sent at a time, served round robin.
///          At most RxTasks::kMaxTasks writes of several messages are not final: the peer has room for so many.
///          Responses to the peer's reads are served before tasks. Messages are staged (slot filled, credit reserved)
///          and then posted; what a post refuses stays staged, in order.
/// Threads  Made by the service thread, owned by its worker from kOpenLane to kLaneClosed.
/// Memory   Everything is inside; nothing allocates after construction.
/// Errors   None of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "agent/lane_base.h"
#include "base/ids.h"
#include "base/status.h"
#include "mem/bounce_pool.h"
#include "proto/credit.h"
#include "proto/rx_track.h"
#include "xport/driver.h"

namespace sluice {

class PortRings;

/// A task in a worker's table.
struct Task {
  enum class State : uint8_t {
    kFree,
    kQueued,    ///< Nothing of it was sent.
    kActive,    ///< In the active list; maybe partly sent.
    kSent,      ///< All sent; waits for the acknowledgement (write) or the bytes (read).
    kAborting,  ///< Given up partly sent: ABORT goes out, then its acknowledgement ends it.
    kPack,      ///< Not a task: a PACK that was sent. next leads to its tasks; its acknowledgement ends them all.
  };
  uint64_t ref = 0;
  std::byte* local = nullptr;
  uint64_t offset = 0, length = 0;
  uint64_t sent = 0;      ///< Write: bytes staged. Read: 1 when the request is staged.
  uint64_t received = 0;  ///< Read: bytes placed.
  uint64_t deadline = 0;
  uint64_t wait_since = 0;
  PortRings* port = nullptr;
  uint32_t generation = 1;
  uint32_t buffer = 0, chunk = 0;
  uint32_t next = kNoTask, prev = kNoTask;    ///< In the queued, active or abort list.
  uint32_t older = kNoTask, newer = kNoTask;  ///< All tasks of the lane, by age.
  uint32_t waited_us = 0;
  LaneId lane{};
  uint16_t phase = 0;
  State state = State::kFree;
  bool read = false;
  bool abort_sent = false;
  bool spread = false;   ///< Counted in Lane::spread.
  Code why = Code::kOk;  ///< The code it will end with, when it is being given up.
};

/// A peer's read that is being answered.
struct ReadJob {
  TaskId task;
  const std::byte* base;
  uint64_t total, sent;
  uint32_t chunk;
  uint32_t buffer;
};

/// A message that is ready to post.
struct Staged {
  Op op;
  Charge charge;
};

struct Lane : LaneBase {
  enum class State : uint8_t { kOpen, kFailed };
  static constexpr uint32_t kActive = RxTasks::kMaxTasks / 2;

  explicit Lane(LaneParams p) : LaneBase(std::move(p)), jobs(std::make_unique<ReadJob[]>(params.requests)) {}

  State state = State::kOpen;
  bool tx_open = false;   ///< The peer's SESSION_OPEN came.
  bool draining = false;  ///< FENCE came: stage nothing.
  bool drain_told = false;
  bool waiting = false;  ///< Something is to be sent and credit is short.
  bool listed = false;   ///< In the worker's list of lanes with work.
  bool touched = false;  ///< In the worker's list of lanes to report.
  bool packed = false;   ///< The last message was a PACK.
  bool scanned = false;  ///< In the worker's list of lanes that have deadlines.
  bool stuck_told = false;
  bool lapse_told = false;  ///< A message was refused for want of a lease: the session has lost it, and ends.

  // Sending.
  CreditLedger ledger;
  uint32_t next_seq = 1;
  uint32_t inflight = 0;  ///< Posted, completion not yet seen.
  TaskList queued, active, aborts;
  uint32_t packs = kNoTask;  ///< Sent and not acknowledged; linked through older and newer.
  uint32_t oldest = kNoTask, newest = kNoTask, tasks = 0;
  uint32_t spread = 0;  ///< Writes of several messages from the first on; the peer keeps an entry for each (RxTasks).
  std::array<Staged, kMaxBurst> staged;
  uint32_t staged_count = 0;
  uint64_t wait_since = 0, probe_at = 0, probe_every = 0;
  uint64_t moved_at = 0;  ///< When a message last went out under credit, or brought bytes of a read.
  uint64_t heard_at = 0;  ///< When the peer last said or sent something for this lane.
  uint16_t ctrl_ack = 0;  ///< Carried by each message.

  // Receiving.
  Epoch rx_epoch{1};
  SeqWindow seen;
  RxTasks partial;
  std::unique_ptr<ReadJob[]> jobs;
  uint32_t job_head = 0, job_count = 0;
  uint32_t peer_tasks = 0;  ///< Of the peer's, begun and not at their end: as counted in the worker's stats.
  uint64_t lease_until = 0;
  // What control is to be told at the end of the turn.
  uint32_t accepted_slots = 0, released_slots = 0;
  uint64_t accepted_bytes = 0, released_bytes = 0;
  uint16_t accepted_requests = 0, released_requests = 0;
  uint16_t ack_seen = 0;
  bool has_ack_seen = false, low_credit_seen = false, ack_now_seen = false;
  std::array<AckEntry, 3> acks;
  uint32_t ack_count = 0;

  // Ending.
  Code fail_code = Code::kOk;
  uint64_t give_up_at = 0;
};

}  // namespace sluice
