/// @file messages.h
/// What agents and the service thread tell one another: one 64-byte struct for each direction.
///
/// Model    Plain messages over mailboxes. A pointer in a message hands its object over: the receiver owns it until it
///          hands it back with the message that says so.
/// Threads  Each mailbox has one producer and one consumer (mailbox.h).
/// Memory   Plain data.
/// Errors   None.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "proto/credit.h"
#include "proto/ctrl_frame.h"

namespace sluice {

class Extent;
class Queue;
class PortRings;
struct LaneBase;
struct Peer;

inline constexpr uint32_t kAcksPerMessage = 3;
/// Refusals that one data message can cause, at most: more writes of a PACK are refused with all of it.
inline constexpr uint32_t kNaksPerMessage = 4;

/// Control core to worker.
struct ToWorker {
  enum class Kind : uint8_t {
    kOpenLane,      ///< opened: handed over; connect its path.
    kOpenTx,        ///< The peer is open: begin epoch values.a with ceiling values.totals.
    kGrant,         ///< New totals values.totals (those whose bit is in count) in epoch values.a, seq values.b.
    kAcks,          ///< count entries of acks: the peer placed these tasks.
    kNak,           ///< acks[0].task was refused with code acks[0].acked_bytes.
    kLease,         ///< Messages may be placed until tick values.a.
    kStopPosting,   ///< FENCE: let posted messages complete, then say kPostsHome.
    kNextRxEpoch,   ///< Messages of epoch values.a from now on.
    kFailLane,      ///< Give the lane up; its tasks end with code from tick values.a on.
    kAddExtent,     ///< extent: handed over, for receives.
    kRetireExtent,  ///< Give up one extent.
    kSetBuffer,     ///< buffer
    kClearBuffer,   ///< buffer.id ends; answer kBufferCleared with buffer.token.
    kAddPort,
    kRemovePort,
    kRailUp,  ///< Rail count has a new queue (the worker's until the node ends).
    kPath,    ///< The peer's end of rail count is at address now, which is handed over.
    kAwake,   ///< The peer is at work on our memory: poll.
  };
  struct Values {
    uint64_t a, b;
    std::array<uint64_t, kResources> totals;  ///< Of a Charge.
  };
  struct Buffer {
    uint64_t id;
    std::byte* base;
    uint64_t bytes, token;
  };
  Kind kind;
  Code code;
  uint16_t count;
  LaneId lane;
  uint16_t generation;  ///< Of the lane.
  uint16_t ctrl_ack;    ///< What the lane's messages carry from now on.
  uint32_t pad;
  union {
    std::array<AckEntry, kAcksPerMessage> acks;
    Values values;
    Buffer buffer;
    LaneBase* opened;
    Extent* extent;
    PortRings* port;
    Queue* queue;
    std::vector<std::byte>* address;
  };
};
static_assert(sizeof(ToWorker) == 64);

/// Worker to control core.
struct ToControl {
  enum class Kind : uint8_t {
    kReport,         ///< report: messages of a lane.
    kAcks,           ///< count tasks are placed.
    kNak,            ///< acks[0].task is refused with code acks[0].acked_bytes.
    kWaiting,        ///< The lane waits for credit: values.a bytes, values.b slots wanted. One-sided: stay awake.
    kPostsHome,      ///< Answer to kStopPosting: posted totals in values.totals.
    kViolation,      ///< The peer broke a law: code.
    kStuck,          ///< A task could not be brought to an end: give the peer up.
    kLaneFenced,     ///< The lane was given up: nothing is placed for it any more.
    kLaneClosed,     ///< closed: handed back.
    kCapacity,       ///< values.a receives are posted or in hand now.
    kExtentHome,     ///< extent: handed back, empty.
    kBufferCleared,  ///< Answer to kClearBuffer; values.a: the token.
    kPortRemoved,    ///< Answer to kRemovePort.
    kRailDown,       ///< The queue of rail count is shut down and empty: open another.
  };
  struct Report {
    uint32_t accepted_slots, released_slots;
    uint64_t accepted_bytes, released_bytes;
    uint16_t accepted_requests, released_requests;
    uint16_t ctrl_ack;  ///< With has_ack: low 16 bits, as the last message carried them.
    bool has_ack, low_credit, ack_now;
  };
  using Values = ToWorker::Values;
  Kind kind;
  Code code;
  uint16_t count;
  LaneId lane;
  uint16_t generation;  ///< Of the lane.
  WorkerId worker;
  uint32_t pad;
  union {
    std::array<AckEntry, kAcksPerMessage> acks;
    Values values;
    Report report;
    LaneBase* closed;
    Extent* extent;
    PortRings* port;
  };
};
static_assert(sizeof(ToControl) == 64);

/// Service thread to control core.
struct FromService {
  enum class Kind : uint8_t {
    kPeerUp,       ///< peer_object: handed over.
    kPeerLost,     ///< Peer is given up: tasks end with code from tick a on (0: at once, the process is gone).
    kPeerLease,    ///< Messages of this peer may be placed until tick a.
    kExtent,       ///< A finished extent of receives for worker.
    kCtrlExtent,   ///< A finished extent of control receives.
    kNoExtent,     ///< The extent that was asked for could not be made.
    kSetBuffer,    ///< Buffer a: base, b bytes.
    kClearBuffer,  ///< Buffer a; b: token.
    kAddPort,
    kRemovePort,
    kDrain,   ///< Tell all peers SESSION_CLOSE when everything is sent.
    kRailUp,  ///< Rail a of worker has a new queue.
    kPath,    ///< The end of peer at rail a of worker is at address now, which is handed over.
  };
  Kind kind;
  Code code;
  WorkerId worker;
  PeerId peer;
  uint64_t a, b;
  union {
    Peer* peer_object;
    Extent* extent;
    PortRings* port;
    std::byte* base;
    Queue* queue;
    std::vector<std::byte>* address;
  };
  uint64_t pad[4];
};
static_assert(sizeof(FromService) == 64);

/// Control core to service thread.
struct ToService {
  enum class Kind : uint8_t {
    kPeerReady,      ///< Every lane of the peer has credit.
    kPeerFault,      ///< The peer broke a law or is stuck: close its connection.
    kPeerClosedBy,   ///< The peer said SESSION_CLOSE.
    kPeerFenced,     ///< After kPeerLost: nothing is placed for the peer any more.
    kPeerGone,       ///< Answer to kPeerLost: everything of it is final; peer_object: handed back.
    kWantExtent,     ///< worker needs another extent.
    kFreeExtent,     ///< extent handed back: deregister and free.
    kBufferCleared,  ///< Every worker cleared it; b echoed.
    kPortRemoved,    ///< Every worker has let go of port.
    kDrained,        ///< Answer to kDrain.
    kRailDown,       ///< Rail a of worker is shut down and empty: open another queue.
  };
  Kind kind;
  Code code;
  WorkerId worker;
  PeerId peer;
  uint64_t a, b;
  union {
    Peer* peer_object;
    Extent* extent;
    PortRings* port;
  };
  uint64_t pad[4];
};
static_assert(sizeof(ToService) == 64);

}  // namespace sluice
