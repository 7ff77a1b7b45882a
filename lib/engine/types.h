/// @file types.h
/// The plain types of the public API: handles, requests, statuses.
///
/// Model    A handle is an index and a generation: one that outlived its object answers kStale. A segment is the
///          buffers that a node exports under one name; a remote place is (segment, buffer index, offset), never a
///          pointer.
/// Threads  Plain data.
/// Memory   No heap.
/// Errors   None.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace sluice {

enum class MemoryHandle : uint64_t { kNone = 0 };
enum class SegmentHandle : uint64_t { kNone = 0 };
enum class BatchHandle : uint64_t { kNone = 0 };

enum class TransferOp : uint8_t { kWrite, kRead };

/// One task: move @p length bytes between local memory and (segment, buffer, offset).
struct Request {
  TransferOp op = TransferOp::kWrite;
  uint32_t buffer = 0;    ///< Index of the buffer in its segment.
  void* local = nullptr;  ///< Inside registered or managed memory.
  SegmentHandle segment{};
  uint64_t offset = 0;  ///< In the remote buffer, in bytes.
  uint64_t length = 0;  ///< In bytes; 0 completes at once.
};

enum class TaskState : uint8_t {
  kPending,    ///< Accepted; on its way.
  kWaiting,    ///< Accepted; short of the peer's credit.
  kDone,       ///< Write: placed at the peer. Read: in local memory.
  kFailed,     ///< No byte of it moves any more.
  kCancelled,  ///< No byte of it moves any more.
};

struct TaskStatus {
  TaskState state = TaskState::kPending;
  Code code = Code::kOk;  ///< Why, for kFailed.
  uint64_t bytes = 0;     ///< Done: the whole length.
};

enum class NotifyState : uint8_t { kNone, kPending, kDelivered, kFailed };

struct BatchStatus {
  uint32_t tasks = 0, done = 0, failed = 0, cancelled = 0;
  NotifyState notify = NotifyState::kNone;
  Code notify_code = Code::kOk;  ///< Why, for NotifyState::kFailed; kCancelled: a task of the batch was not done.
  bool final = false;            ///< Every task has its final status, and the notify too.
  bool ok() const noexcept { return final && done == tasks && notify != NotifyState::kFailed; }
};

/// A notification that came in.
struct NotifyMessage {
  std::string peer;  ///< The sending node's name.
  std::string name;
  std::string message;
};

/// Memory that the engine allocated and registered.
struct ManagedBuffer {
  void* addr = nullptr;
  uint64_t bytes = 0;
  MemoryHandle memory{};
};

/// What a segment looks like from here.
struct SegmentInfo {
  std::string node, name;
  std::vector<uint64_t> buffer_bytes;
};

/// A device that a node could be opened on, or that was left out.
struct DeviceEntry {
  std::string name, provider, address;  ///< Without a name: a provider that has no device here.
  int numa_node = -1;
  uint64_t bits_per_s = 0;  ///< 0: unknown.
  std::string pci;          ///< Empty: unknown.
  std::string left_out;     ///< Why it is not taken unless it is asked for; empty: it is.
};

/// What is really in use.
struct TransportInfo {
  std::string transport, provider, device;
  std::string device_address;  ///< Where data goes; another than listen_address. As the driver writes it, or empty.
  std::string listen_address;  ///< Where peers connect.
  uint32_t workers = 0, tx_depth = 0, rx_depth = 0, slot_bytes = 0;
  bool hugepages = false;
};

/// Counters of a node; they only grow, but for the gauges and what Engine::restart_peaks() begins anew.
struct NodeStats {
  uint64_t tasks_done = 0, tasks_failed = 0, tasks_cancelled = 0;
  uint64_t bytes_sent = 0, bytes_received = 0, messages_sent = 0, messages_received = 0;
  uint64_t waits = 0, wait_max_ns = 0;  ///< Tasks that had to wait for credit, and the longest wait (a peak).
  uint64_t stalls_slot = 0, stalls_depth = 0;
  uint64_t frames_sent = 0, frames_received = 0, frames_refused = 0, frame_repeats = 0;
  uint64_t messages_refused = 0, lease_refusals = 0, stale_messages = 0, violations = 0;
  uint64_t resends = 0, duplicates = 0;   ///< Messages posted again after a failed send; such that came twice.
  uint64_t fences = 0, frames_stale = 0;  ///< Of us as receiver; frames of another epoch or session.
  uint64_t lost_messages = 0;             ///< Between agents, for want of room: 0, or a bug.
  uint64_t notifies_sent = 0, notifies_received = 0, notifies_refused = 0;
  uint64_t notifies_failed = 0;  ///< Given up: the peer is gone, or refused them.
  uint32_t peer_tasks = 0;       ///< Of peers: partly received writes, and reads that are not answered in full.
  uint32_t peers = 0, lanes = 0, tasks_open = 0;           ///< Gauges.
  uint32_t extents = 0, extents_min = 0, extents_max = 0;  ///< Now, and the fewest and most (peaks).
  uint32_t rx_slots = 0;                                   ///< Posted as receives.
  uint32_t rx_slots_out = 0;  ///< Out of their pool and not posted: the device had no room for them.
  uint32_t tx_slots_out = 0;  ///< With the device.
};

}  // namespace sluice
