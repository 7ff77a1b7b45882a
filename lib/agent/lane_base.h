/// @file lane_base.h
/// What the control core and the service thread know of a lane, whatever protocol it speaks.
///
/// Model    A lane is two-sided (lane.h) or one-sided (rma_lane.h); a process has one kind of them.
/// Threads  Made by the service thread, owned by its worker from kOpenLane to kLaneClosed.
/// Memory   Nothing allocates after construction.
/// Errors   None of its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace sluice {

inline constexpr uint32_t kNoTask = UINT32_MAX;

/// A queue of tasks through their next and prev.
struct TaskList {
  uint32_t head = kNoTask, tail = kNoTask, count = 0;
};

struct LaneParams {
  LaneId id;
  uint16_t generation;
  PathId path;
  SessionId session;
  uint16_t peer_lane;        ///< The lane's number at the peer: goes into each header.
  uint32_t peer_slot_bytes;  ///< Of the peer's receives.
  uint32_t requests;         ///< Reads the peer may have open here.
  std::vector<std::byte> peer_address;
};

struct LaneBase {
  explicit LaneBase(LaneParams p) : params(std::move(p)) {}
  virtual ~LaneBase() = default;
  LaneBase(const LaneBase&) = delete;
  LaneBase& operator=(const LaneBase&) = delete;

  LaneParams params;
  /// The last acknowledgement that a message carried; the control core reads it before it sends one itself.
  std::atomic<uint16_t> ctrl_ack_sent{0};

  /// No message carried @p ack yet: half a circle from it is no number of today's.
  void not_carried(uint16_t ack) noexcept {
    ctrl_ack_sent.store(static_cast<uint16_t>(ack + 0x8000), std::memory_order_relaxed);
  }
};

}  // namespace sluice
