/// @file control.h
/// The control agent: control paths, sessions, grants, notifies, and the life of extents.
///
/// Model    It stands between the service thread (peers come and go, memory is made), the workers (messages were
///          placed, credit is short) and the peers' control agents (frames). control.cc: turn and messages;
///          control_peers.cc: peers come and go; control_map.cc: tables and neighbours; control_frames.cc: frames in;
///          control_send.cc: frames out; control_credit.cc: sharing of receives, growth and shrinking.
/// Threads  turn() on its lcore. stats() from any thread (relaxed).
/// Memory   Tables are sized at construction. A turn does not allocate, except when a path is connected.
/// Errors   A frame that breaks a law costs its peer the session: the service thread is told and closes the connection.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "agent/agent.h"
#include "agent/mailbox.h"
#include "agent/messages.h"
#include "agent/notify_inbox.h"
#include "agent/peer.h"
#include "base/mutant.h"
#include "mem/bounce_pool.h"
#include "proto/grant_share.h"
#include "xport/driver.h"

namespace sluice {

struct ControlParams {
  Queue* queue = nullptr;
  BouncePool* rx_pool = nullptr;
  BouncePool* tx_pool = nullptr;
  Mailbox<FromService>* from_service = nullptr;
  Mailbox<ToService>* to_service = nullptr;
  std::vector<Mailbox<ToWorker>*> to_worker;
  std::vector<Mailbox<ToControl>*> from_worker;
  NotifyInbox* notifies = nullptr;
  uint32_t max_peers = 0, frame_bytes = 0, session_floor = 0, slot_bytes = 0;
  uint32_t extent_slots = 0, rx_slots = 0, rx_slots_min = 0, rx_slots_max = 0;  ///< Per worker; rx_slots at start.
  uint64_t ack_delay = 0, ctrl_ack_delay = 0, retry = 0, retry_max = 0, shrink_idle = 0, fence_idle = 0;  ///< Ticks.
  uint64_t first_answer = 0;  ///< A new peer that answers nothing for so long is given up.
  uint64_t answer = 0;        ///< The same for one that did answer before.
  bool idle_poll_costly = false;
  bool wakes_workers = false;  ///< A peer's CREDIT_REQUEST is told to the worker (one-sided: see RmaWorker).
};

struct ControlStats {
  using Counter = std::atomic<uint64_t>;
  Counter frames_sent{}, frames_received{}, frames_refused{}, frames_stale{}, frame_repeats{}, notifies_sent{},
      notifies_received{}, notifies_refused{}, notifies_failed{}, violations{}, fences{}, grows{}, shrinks{}, peers{},
      lost_messages{};
  Counter extents{}, extents_min{}, extents_max{};
  static void add(Counter& c, uint64_t n) noexcept {
    c.store(c.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
};

class Control final : public Agent {
 public:
  explicit Control(const ControlParams& params);
  ~Control() override;
  uint32_t turn(uint64_t now) noexcept override;
  const ControlStats& stats() const noexcept { return stats_; }
  ControlStats& stats() noexcept { return stats_; }  ///< For who begins anew with the peaks in it.

 private:
  friend struct SimPeek;  // test/sim: the simulator looks, and changes nothing
  struct Pool {           // the receives of one worker
    explicit Pool(uint32_t max_sessions) : share(max_sessions) {}
    GrantShare share;
    uint32_t worker = 0, capacity = 0, extents = 0;
    uint32_t reserved = 0;  ///< Of capacity, for sessions that wait for their floor.
    uint64_t last_used = 0, next_try = 0;
    uint64_t accepted = 0;  ///< Messages since manage() looked.
    bool growing = false, shrinking = false, dirty = false;
    bool starved = false;  ///< A session waits for its floor.
    bool hungry = false;   ///< A peer said that it waits for credit.
  };
  struct MapEntry {
    SessionId id;
    Session* session;
  };
  static constexpr uint32_t kAckFrame = 255;  // acknowledgements in one frame, at most
  struct FrameOwner {                         // of a send slot that is out
    PeerId peer;
    uint16_t generation;
  };
  struct Unsent {
    Slot slot;
    PathId path;
    uint32_t bytes;
  };

  // control.cc
  uint32_t drain_service() noexcept;
  uint32_t drain_workers() noexcept;
  uint32_t take_notifies() noexcept;
  void on_service(const FromService& m) noexcept;
  void on_worker(const ToControl& m) noexcept;
  void on_lane(Session& s, const ToControl& m) noexcept;
  void on_report(Session& s, const ToControl::Report& r) noexcept;
  void change_port(const FromService& m) noexcept;
  void change_rail(const FromService& m) noexcept;
  void change_buffer(const FromService& m) noexcept;
  void forget_port(Session& s, const PortRings* port) noexcept;
  void answered(uint64_t key, ToService::Kind kind, PortRings* port) noexcept;

  // control_peers.cc
  void on_peer_up(Peer* peer) noexcept;
  void on_peer_lost(PeerId id, Code code, uint64_t give_up_at) noexcept;
  void on_lane_fenced(const ToControl& m) noexcept;
  void on_lane_closed(const ToControl& m) noexcept;
  void end_session(Session& s, Code code) noexcept;
  void fault(Session& s, Code code) noexcept;

  // control_map.cc
  void to_all_workers(const ToWorker& m) noexcept;
  void tell_worker(const Session& s, ToWorker m) noexcept;
  void tell_service(const ToService& m) noexcept;
  void list(Session& s) noexcept;
  Session* find(SessionId id) noexcept;
  bool map_insert(Session* session) noexcept;
  void map_erase(SessionId id) noexcept;
  Session* session_of(WorkerId worker, LaneId lane, uint16_t generation) noexcept;

  // control_frames.cc
  uint32_t poll_frames() noexcept;
  uint32_t frames_to_take() const noexcept;
  void on_frame(std::span<const std::byte> bytes) noexcept;
  void deliver(Session& s, const Frame& f) noexcept;
  void take_acked(Session& s) noexcept;
  void on_grant(Session& s, const Frame& f) noexcept;
  void on_data_ack(Session& s, const Frame& f) noexcept;
  void on_nak(Session& s, const Frame& f) noexcept;
  void on_session_open(Session& s, const Frame& f) noexcept;
  void on_drain_ack(Session& s, const Frame& f) noexcept;
  void on_notify(Session& s, const Frame& f) noexcept;
  void notify_done(const PendingNotify& n, TaskEnd end, Code code) noexcept;
  void post_receives() noexcept;

  // control_send.cc
  uint32_t pump_all() noexcept;
  bool pump(Session& s) noexcept;
  bool has_room(const Session& s) const noexcept;
  bool may_send(const Session& s, FrameType type) const noexcept;
  void pump_state(Session& s) noexcept;
  void pump_acks(Session& s) noexcept;
  void pump_notifies(Session& s) noexcept;
  template <typename Encode>
  bool send(Session& s, FrameType type, bool needs_ack, Epoch epoch, Encode encode) noexcept;
  bool send_nak(Session& s, const DataNak& nak) noexcept;
  void transmit(Session& s, std::span<const std::byte> frame) noexcept;
  void send_ctrl_ack(Session& s) noexcept;
  void retry_unsent() noexcept;
  void on_sent(SlotHandle handle) noexcept;
  Peer* owner_of(SlotHandle handle) noexcept;
  bool overdue(const Session& s) const noexcept;

  // control_credit.cc
  void start_granting(Session& s) noexcept;
  void share(Pool& pool) noexcept;
  void raise_requests(Session& s) noexcept;
  void check_home(Session& s) noexcept;
  void manage(uint64_t now) noexcept;
  void grow_or_shrink(uint32_t worker) noexcept;
  void retry_shares(Pool& pool) noexcept;
  void limit_share(Pool& pool) noexcept;
  void fence_idle(uint32_t worker) noexcept;
  void count_extents() noexcept;
  Charge window(const Session& s, uint32_t slots) const noexcept;
  Charge free_window(const Session& s, uint32_t slots) const noexcept;

  ControlParams p_;
  ControlStats stats_;
  uint64_t now_ = 0, next_manage_ = 0;
  std::vector<Peer*> peers_;
  std::vector<MapEntry> map_;
  std::vector<Session*> work_;
  std::vector<Session*> next_work_;
  std::vector<PortRings*> ports_;
  std::vector<std::unique_ptr<Pool>> pools_;
  std::vector<Unsent> unsent_;
  std::vector<PathId> refused_;  // of one pass through unsent_
  std::vector<FrameOwner> owners_;
  NotifyPool pending_;
  std::vector<Slot> refill_;
  struct Waiter {  // a question to all workers, by its token or port
    uint64_t key;
    uint32_t left;
  };
  std::vector<Waiter> waiters_;
  uint32_t tx_out_ = 0, tx_limit_ = 0;
  uint64_t sent_frames_ = 0;
  bool draining_ = false;
  uint64_t drain_until_ = 0;
  PollGate gate_;
};

}  // namespace sluice
