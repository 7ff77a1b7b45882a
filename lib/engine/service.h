/// @file service.h
/// The service thread: all that may block or happens rarely. Out-of-band TCP, the life of peers, memory for extents.
///
/// Model    It talks to the control core by mailboxes and to other nodes by OobNode. A peer is offered paths as soon as
///          it is up (the node with the larger incarnation offers), fenced before its connection is closed by us, and
///          its place is free again when the control core says that everything of it is final.
/// Threads  run() is the thread. The public calls come from any other. Where the caller turns the agents itself (no
///          lcores of our own), calls that wait for an agent turn them through pump.
/// Memory   Allocates freely.
/// Errors   A peer that does not fit (transport, provider, version) is refused with the reason, which both sides see.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "agent/peer.h"
#include "engine/data_plane.h"
#include "engine/memory_table.h"
#include "engine/segment_table.h"
#include "meta/directory.h"
#include "meta/oob.h"

namespace sluice {

class Service final : private OobEvents {
 public:
  Service(const NodeSettings& settings, DataPlane* plane, MemoryTable* memory, SegmentTable* segments, std::mutex* lock,
          std::function<void()> pump);
  ~Service();

  /// Listen and start the thread. @return what OobNode::listen says.
  Status start();
  /// Say goodbye to every peer, within @p deadline_ms, and end the thread.
  void stop(uint32_t deadline_ms);

  /// Blocks until the segment is open or the connect deadline has passed.
  Status open_segment(std::string_view node, std::string_view name, SegmentHandle* out);
  /// Take a port, or exported memory, to the agents and back; the second of each returns when they have let go.
  void add_port(PortRings* port);
  void remove_port(PortRings* port);
  void set_buffer(const MemoryTable::Exported& buffer);
  void clear_buffer(uint32_t id);

  const Address& listening() const noexcept { return oob_->listening(); }
  std::string peer_name(PeerId id, uint16_t generation) const;
  uint32_t peers_up() const noexcept { return peers_up_.load(std::memory_order_relaxed); }

 private:
  enum class PeerState : uint8_t { kFree, kOffering, kUp, kReady, kFaulting, kLosing };
  struct PeerEntry {
    PeerState state = PeerState::kFree;
    uint16_t generation = 1;
    OobPeer oob{};
    Incarnation incarnation{};
    std::string name;
    uint64_t lease_until_ns = 0;
    uint64_t attempt = 0;
    bool naks = false;
    bool lost = false;                ///< The connection is gone.
    std::vector<SessionId> sessions;  ///< As the offer says, by lane.
    uint16_t lanes = 0;
  };
  struct OpenRequest {
    std::string shown, name;
    std::vector<SockAddr> targets;
    Address address;
    uint64_t id = 0;
    OobPeer oob{};
    bool dialing = false, asked = false, done = false;
    DialId dial{};
    Status status;
    SegmentHandle handle{};
  };

  // service.cc
  void run();
  void turn();
  void on_control(const ToService& m);
  void to_control(const FromService& m);
  void grow(WorkerId worker);
  void close_all();
  void ensure_ctrl_slots(uint32_t sessions);
  void ask(FromService m, uint64_t token);
  bool wait(std::unique_lock<std::mutex>& lock, std::chrono::steady_clock::time_point until,
            const std::function<bool()>& done);

  // service_peers.cc: OobEvents and paths
  void on_up(OobPeer peer, const Hello& hello, uint64_t lease_until_ns) override;
  void on_lease(OobPeer peer, uint64_t until_ns) override;
  void on_down(OobPeer peer, const Status& why, uint64_t final_at_ns) override;
  void on_dialed(DialId dial, const Status& status, OobPeer peer) override;
  void on_offer(OobPeer peer, const PathOffer& offer) override;
  void on_answer(OobPeer peer, const PathAnswer& answer) override;
  void on_segment_query(OobPeer peer, const SegmentQuery& query) override;
  void on_segment_reply(OobPeer peer, const SegmentReply& reply) override;
  PeerEntry* entry_of(OobPeer peer);
  uint16_t number_of(const PeerEntry& entry) const;
  Status make_offer(const PeerEntry& entry, PathOffer* offer) const;
  Status connect_paths(PeerEntry& entry, const PathOffer& theirs);
  void lose(PeerEntry& entry, Code code, uint64_t give_up_tick);
  void fault(PeerEntry& entry, Code code);
  void free_entry(PeerEntry& entry);
  static uint32_t name_key(PeerId id, uint16_t generation) noexcept { return uint32_t{raw(id)} << 16 | generation; }
  void fail_requests(OobPeer peer, const Status& why);
  uint64_t oob_close(PeerEntry& entry, std::string_view reason);
  void refuse(OobPeer peer, const std::string& reason);
  void advance(OpenRequest& request);
  void finish(OpenRequest& request, Status status);
  uint64_t lease_tick(uint64_t until_ns) const;
  uint64_t final_tick(uint64_t at_ns) const;

  const NodeSettings settings_;
  DataPlane* const plane_;
  MemoryTable* const memory_;
  SegmentTable* const segments_;
  std::mutex* const lock_;  // the node's: tables, peers, requests
  const std::function<void()> pump_;
  Incarnation incarnation_;
  std::unique_ptr<Directory> directory_;
  std::unique_ptr<OobNode> oob_;
  std::vector<PeerEntry> peers_;
  std::map<OobPeer, uint16_t> by_oob_;
  OobPeer refused_{};  // the last that we refused, and why
  std::string refusal_;
  std::vector<std::shared_ptr<OpenRequest>> requests_;
  std::map<uint64_t, bool> tokens_;
  std::condition_variable changed_;
  std::map<uint32_t, std::string> names_;  // by number and generation, for notifies
  std::deque<FromService> unsent_;
  uint64_t next_id_ = 1;
  uint32_t ctrl_sessions_ = 8, sessions_ = 0;
  bool active_ = false, drained_ = false, close_all_ = false, closed_all_ = false;
  std::atomic<bool> end_{false};
  std::atomic<uint32_t> peers_up_{0};
  std::thread thread_;
};

}  // namespace sluice
