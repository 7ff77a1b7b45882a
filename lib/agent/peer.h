/// @file peer.h
/// What the control core keeps of a peer: its control path, and one session for each lane.
///
/// Model    A session's frames go through its CtrlChannel; what is still to be said is kept here as flags and latest
///          values, and turned into frames when the channel has room.
/// Threads  Made by the service thread, owned by the control core from kPeerUp to kPeerGone.
/// Memory   Everything is inside; nothing allocates after construction.
/// Errors   None of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/lane.h"
#include "agent/messages.h"
#include "agent/notify_queue.h"
#include "base/ids.h"
#include "proto/credit.h"
#include "proto/ctrl_channel.h"
#include "proto/session.h"

namespace sluice {

/// A fixed ring of plain values.
template <typename T, uint32_t N>
struct Backlog {
  std::array<T, N> items;  // its pages are touched as it fills
  uint32_t head = 0, count = 0;
  bool full() const noexcept { return count == N; }
  void push(const T& item) noexcept { items[(head + count++) % N] = item; }
  T& front() noexcept { return items[head]; }
  T& at(uint32_t i) noexcept { return items[(head + i) % N]; }
  void pop(uint32_t n = 1) noexcept {
    count -= n;
    head = count == 0 ? 0 : (head + n) % N;  // from the front again, which is in the cache
  }
};

/// The same with its size from outside.
template <typename T>
struct SizedBacklog {
  explicit SizedBacklog(uint32_t size) : items(std::make_unique_for_overwrite<T[]>(size)), capacity(size) {}
  std::unique_ptr<T[]> items;
  uint32_t capacity, head = 0, count = 0;
  bool full() const noexcept { return count == capacity; }
  void push(const T& item) noexcept { items[(head + count++) % capacity] = item; }
  T& front() noexcept { return items[head]; }
  void pop() noexcept { head = --count == 0 ? 0 : (head + 1) % capacity; }
};

struct SessionParams {
  PeerId peer;
  uint16_t generation;  ///< Of the peer's and the lane's number.
  WorkerId worker;
  LaneId lane;
  SessionId id;
  uint32_t ceiling_slots;    ///< The most slots it is ever granted: what SESSION_OPEN advertises.
  uint32_t slot_bytes;       ///< Of our receives.
  uint32_t requests;         ///< Reads the peer may have open here.
  uint32_t peer_slot_bytes;  ///< As its offer said.
  uint32_t frame_bytes;      ///< Largest control frame.
  bool naks;                 ///< The peer takes DATA_NAK.
};

struct Session {
  /// Granting stops at half of kAckBacklog and at kNakStop, and no session is ever granted more than kMaxWindow slots.
  static constexpr uint32_t kMaxWindow = 1024;
  static constexpr uint32_t kAckBacklog = 2048, kNakStop = 64;
  struct Kept {  // a frame that is not acknowledged yet
    FrameType type;
    bool refused;
    uint32_t bytes, from;  ///< In frames.
    uint64_t seq;
    PendingNotify notify;
  };

  explicit Session(const SessionParams& p)
      : params(p),
        frames(std::make_unique_for_overwrite<std::byte[]>(frame_room())),
        naks(kNakStop + p.ceiling_slots * kNaksPerMessage + p.requests) {}

  /// Where the next frame is written: behind those that are not acknowledged, or from the front. At most kWindow - 1
  /// are kept and they lie together, so that one of any size finds room. @pre the channel takes one more.
  uint32_t next_frame() noexcept {
    if (channel.unacked() == 0 || frames_end + params.frame_bytes > frame_room()) frames_end = 0;
    return frames_end;
  }
  size_t frame_room() const noexcept { return size_t{CtrlChannel::kWindow + 1} * params.frame_bytes; }

  const SessionParams params;
  PathId path{};             ///< The peer's control path.
  LaneBase* lane = nullptr;  ///< The worker's; only its ctrl_ack_sent is read here.
  TxSession tx;
  RxSession rx;
  CtrlChannel channel;
  CreditGranter granter;
  Epoch tx_epoch{}, rx_epoch{1};
  Charge committed;               ///< The peer's ceiling.
  uint64_t carried_requests = 0;  ///< Accepted in an earlier epoch and not answered yet: not of this one's credit.

  std::array<Kept, CtrlChannel::kWindow> kept{};
  std::unique_ptr<std::byte[]> frames;  ///< Those in kept, each as long as it is: mostly a page or two are in use.
  uint32_t frames_end = 0;
  Backlog<AckEntry, kAckBacklog> acks;
  SizedBacklog<DataNak> naks;  ///< With room for all that messages under credit, and reads, can cause.
  NotifyList notifies;
  Charge drain_totals;   ///< Of the DRAIN_ACK that came.
  Charge posted_totals;  ///< For the DRAIN_ACK that is to go.
  CreditRequest wanted{};
  uint64_t acks_since = 0, last_message = 0;
  uint64_t progress_at = 0;  ///< The oldest frame that waits for its acknowledgement was sent, or one was acknowledged.
  uint64_t fence_at = 0;     ///< When FENCE went out.
  bool open_due = false, grant_due = false, request_due = false, drain_due = false, fence_due = false,
       close_due = false;
  uint32_t next_kept = 1;  ///< The place of the next frame in kept: its seq modulo kWindow.
  uint32_t window_slots = 0;
  bool acks_asked = false, want_credit = false, shared = false, share_due = false, listed = false, closed = false;
  bool granted_once = false, close_sent = false;
  bool heard = false;  ///< A frame of the peer came.
};

struct Peer {
  PeerId id{};
  uint16_t generation = 0;
  std::string name;
  PathId path{};
  std::vector<std::byte> ctrl_address;
  std::vector<std::unique_ptr<Session>> sessions;  ///< One for each worker that has a lane.
  std::vector<std::unique_ptr<LaneBase>> lanes;    ///< Until they are handed to their workers.
  uint32_t lanes_open = 0, lanes_fenced = 0;
  uint32_t ready = 0;                          ///< Sessions whose peer may be sent to.
  uint32_t frames_out = 0, frames_unsent = 0;  ///< Send slots it has, and those of them that the queue refused so far.
  bool failed = false, fault_told = false;
};

}  // namespace sluice
