/// @file service.h
/// All that happens rarely: out-of-band messages, the life of peers, memory for extents.
///
/// Model    It talks to the control core by mailboxes and to other nodes by Oob. A peer is offered paths as soon as it
///          is up (the node with the larger incarnation offers), fenced before its connection is closed by us, and its
///          place is free again when the control core says that everything of it is final. Nothing here waits but
///          turn(), in Oob::turn(): a begin_ call starts something, and its end is asked for.
/// Threads  turn(): the service thread (service_thread.h) or a simulator. The other calls from any thread; those that
///          say so under the node's lock.
/// Memory   Allocates freely.
/// Errors   A peer that does not fit (transport, provider, version) is refused with the reason, which both sides see.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "agent/peer.h"
#include "agent/rma_lane.h"
#include "base/log.h"
#include "engine/data_plane.h"
#include "engine/memory_table.h"
#include "engine/segment_table.h"
#include "meta/directory.h"
#include "meta/oob.h"

namespace sluice {

class Service final : private OobEvents {
 public:
  /// One segment that is being opened.
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

  Service(const NodeSettings& settings, const Outside& outside, DataPlane* plane, MemoryTable* memory,
          SegmentTable* segments, std::mutex* lock);
  ~Service();

  /// Listen. @return what Oob::listen says.
  Status open();
  /// Wait for something to happen, but not long, and handle it.
  void turn();
  void wake() noexcept { oob_->wake(); }

  /// Begin to open a segment: it is open, or refused, when done is set. @return kBadArgument, kNotFound (the name).
  Status begin_open(std::string_view node, std::string_view name, std::shared_ptr<OpenRequest>* out);
  // The rest of these under the lock.
  void give_up(const std::shared_ptr<OpenRequest>& request) { std::erase(requests_, request); }
  void fail_all_requests(const Status& why);
  /// Hand a port, or exported memory, to the agents and take it back: they have let go when answered(), asked with the
  /// token, says true (once).
  void add_port(PortRings* port);
  uint64_t begin_remove_port(PortRings* port);
  void set_buffer(const MemoryTable::Exported& buffer);
  uint64_t begin_clear_buffer(uint32_t id);
  /// One-sided: ask every peer to let go of these buffers; buffers_ended() says true (once) when all have.
  uint64_t begin_end_buffers(const std::vector<uint32_t>& ids);
  bool buffers_ended(uint64_t request);
  void forget_buffers(uint64_t request);  ///< Nobody waits for it any more.
  bool answered(uint64_t token);
  void forget(uint64_t token) { tokens_.erase(token); }  ///< Nobody waits for it any more.
  /// Tell every peer's agents that we end, and then the peers themselves.
  void begin_drain(uint32_t deadline_ms);
  bool drained() const noexcept { return drained_; }
  void begin_close() noexcept { close_all_ = true; }
  bool closed() const noexcept { return closed_all_; }

  std::mutex& lock() const noexcept { return *lock_; }
  std::condition_variable& changed() noexcept { return changed_; }  ///< With lock().
  const NodeSettings& settings() const noexcept { return settings_; }
  std::string device_text() const { return plane_->device().info().name + " " + plane_->device().info().address; }
  const Address& listening() const noexcept { return oob_->listening(); }
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
    uint16_t lanes = 0, rails = 0;
  };

  // service.cc
  void on_control(const ToService& m);
  void to_control(const FromService& m);
  void grow(WorkerId worker);
  void close_all();
  void ensure_ctrl_slots(uint32_t sessions);

  // service_peers.cc: OobEvents and paths
  void on_up(OobPeer peer, const Hello& hello, uint64_t lease_until_ns) override;
  void on_lease(OobPeer peer, uint64_t until_ns) override;
  void on_down(OobPeer peer, const Status& why, uint64_t final_at_ns) override;
  void on_dialed(DialId dial, const Status& status, OobPeer peer) override;
  void on_offer(OobPeer peer, const PathOffer& offer) override;
  void on_answer(OobPeer peer, const PathAnswer& answer) override;
  void on_segment_query(OobPeer peer, const SegmentQuery& query) override;
  void on_segment_reply(OobPeer peer, const SegmentReply& reply) override;
  void on_buffers_end(OobPeer peer, const BuffersEnd& end) override;
  void on_buffers_left(OobPeer peer, const BuffersLeft& left) override;
  void on_path_move(OobPeer peer, const PathMove& move) override;

  // service_rma.cc
  SegmentBuffer describe(const MemoryTable::Exported& buffer) const;
  Status remote_of(const PeerEntry& entry, const SegmentBuffer& buffer, RemoteBuffer* out) const;
  std::vector<RmaLane::Path> ways_to(const std::vector<const LaneOffer*>& theirs) const;
  void ask_to_leave();
  void answer_ends();
  void reopen(WorkerId worker, uint16_t rail);

  PeerEntry* entry_of(OobPeer peer);
  uint16_t number_of(const PeerEntry& entry) const;
  Status make_offer(const PeerEntry& entry, PathOffer* offer) const;
  Status connect_paths(PeerEntry& entry, const PathOffer& theirs);
  void lose(PeerEntry& entry, Code code, uint64_t give_up_tick);
  void fault(PeerEntry& entry, Code code);
  void free_entry(PeerEntry& entry);
  void fail_requests(OobPeer peer, const Status& why);
  uint64_t oob_close(PeerEntry& entry, std::string_view reason);
  void refuse(OobPeer peer, const std::string& reason);
  void advance(OpenRequest& request);
  void finish(OpenRequest& request, Status status);
  uint64_t lease_tick(uint64_t until_ns) const;
  uint64_t final_tick(uint64_t at_ns) const;

  const NodeSettings settings_;
  const Outside outside_;
  DataPlane* const plane_;
  MemoryTable* const memory_;
  SegmentTable* const segments_;
  std::mutex* const lock_;  // the node's: tables, peers, requests
  Incarnation incarnation_;
  std::unique_ptr<Directory> directory_;
  std::unique_ptr<Oob> oob_;
  std::vector<PeerEntry> peers_;
  std::map<OobPeer, uint16_t> by_oob_;
  LogLimit refusals_;
  OobPeer refused_{};  // the last that we refused, and why
  std::string refusal_;
  std::vector<std::shared_ptr<OpenRequest>> requests_;
  std::map<uint64_t, bool> tokens_;
  struct Leaving {
    BuffersEnd end;
    bool asked = false;
    std::set<OobPeer> waits;  // that have not said that they left
  };
  struct Ending {  // what a peer asked of us
    OobPeer oob;
    PeerId peer;
    uint16_t generation;
    BuffersEnd end;
  };
  std::map<uint64_t, Leaving> leaving_;
  std::vector<Ending> ends_;
  std::condition_variable changed_;
  std::deque<FromService> unsent_;
  uint64_t next_id_ = 1;
  uint32_t ctrl_sessions_ = 8, sessions_ = 0;
  bool active_ = false, drained_ = false, close_all_ = false, closed_all_ = false;
  std::atomic<uint32_t> peers_up_{0};
};

}  // namespace sluice
