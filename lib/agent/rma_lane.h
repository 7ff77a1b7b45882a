/// @file rma_lane.h
/// A one-sided lane: the way to a peer's memory over every rail, and the tasks that take it.
///
/// Model    A task waits in the lane's queue until all of it is cut into ops. An op is one write or read on one rail: a
///          piece of one task, or several tasks whose places follow one another on both sides. An op that failed
///          waits to be posted again, on another rail if there is one.
/// Threads  Made by the service thread, owned by its worker from kOpenLane to kLaneClosed.
/// Memory   Nothing allocates after construction.
/// Errors   None of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "agent/lane_base.h"
#include "agent/rail.h"
#include "agent/remote_buffer.h"
#include "base/status.h"
#include "mem/region.h"
#include "xport/driver.h"

namespace sluice {

class PortRings;

inline constexpr uint32_t kNoOp = UINT32_MAX;
inline constexpr uint16_t kNoRail = UINT16_MAX;

struct RmaTask {
  enum class State : uint8_t {
    kFree,
    kQueued,  ///< In the lane's queue: not all of it is cut into ops.
    kOut,     ///< It ends when its ops are home.
  };
  uint64_t ref = 0;
  std::byte* local = nullptr;
  const Region* region = nullptr;
  const RemoteBuffer* remote = nullptr;
  uint64_t offset = 0, length = 0;
  uint64_t cut = 0;  ///< Bytes that ops have or had.
  uint64_t deadline = 0;
  PortRings* port = nullptr;
  uint32_t generation = 1;
  uint32_t ops = 0;                           ///< That are not home.
  uint32_t next = kNoTask, prev = kNoTask;    ///< In the queue; next also among the tasks of one op.
  uint32_t older = kNoTask, newer = kNoTask;  ///< All tasks of the lane, by age.
  LaneId lane{};
  State state = State::kFree;
  bool read = false;
  Code why = Code::kOk;  ///< What it ends with.
};

struct RmaOp {
  enum class State : uint8_t { kFree, kStaged, kPosted, kRetry, kUnplaced };
  uint64_t offset = 0;  ///< In its first task.
  uint64_t bytes = 0;
  uint32_t task = kNoTask, tasks = 0;  ///< The first, and how many.
  uint32_t next = kNoOp;
  uint32_t generation = 1;
  LaneId lane{};
  uint16_t rail = 0;
  uint16_t failed = 0;  ///< A bit for each rail on which it failed.
  uint8_t tries = 0;
  State state = State::kFree;
  bool read = false;
  bool probe = false;
  bool flush = false;  ///< No bytes of a task: a read behind writes, which are placed when it is home.
  Code code = Code::kOk;
};

struct OpList {
  uint32_t head = kNoOp, tail = kNoOp;
};

struct RmaLane : LaneBase {
  enum class State : uint8_t { kOpen, kFailed };
  struct Path {
    std::vector<std::byte> address;  ///< Of the peer's queue that it leads to.
    PathMonitor monitor;
    OpList unplaced;        ///< Writes that the device has completed, and that may not be placed yet.
    OpList flushing;        ///< Those of them that the flush under way is for.
    uint32_t out = 0;       ///< Ops staged or posted.
    uint64_t moved_at = 0;  ///< When one last came home well, or the first of them went out.
    uint16_t peer_rail = 0;
    bool connected = false;
    bool broken = false;  ///< The address means nothing to the device.
  };

  RmaLane(LaneParams p, std::vector<Path> ways) : LaneBase(std::move(p)), paths(std::move(ways)) {}

  State state = State::kOpen;
  bool listed = false;   ///< In the worker's list of lanes with work.
  bool scanned = false;  ///< In the worker's list of lanes that have deadlines.
  bool stuck_told = false;
  std::vector<Path> paths;  ///< By rail of ours.
  TaskList queued;
  OpList retry;
  uint64_t retry_at = 0;  ///< Not before then.
  uint32_t oldest = kNoTask, newest = kNoTask, tasks = 0;
  uint32_t out = 0;       ///< Ops staged, posted or not known to be placed.
  uint64_t hint_at = 0;   ///< When the peer is next told to stay awake.
  uint64_t moved_at = 0;  ///< When an op last came home well.
  Code fail_code = Code::kOk;
  uint64_t failed_at = 0, give_up_at = 0;
  uint64_t lease_until = 0;  ///< Until then the peer has not given us up.
};

}  // namespace sluice
