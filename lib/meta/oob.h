/// @file oob.h
/// A node's out-of-band side: one TCP connection to each peer, for hellos, path offers and liveness.
///
/// Model    Every connection begins with a hello each way; the node with the larger incarnation then says welcome, and
///          the one with the smaller decides: it answers welcome, and the pair is up, or bye, since the pair is up
///          already. So two nodes that dial each other at once end with one connection, and each reports it once. With
///          a shared secret every frame after the hello is authenticated, under a key made of the secret and both
///          hellos. Lease: each side pings each heartbeat, and the other echoes. An echo lets the pinger place the
///          peer's data until lease_ms after that ping was *sent*. A side that hears nothing for suspect_ms stops
///          echoing and closes; final_at is its last echo + lease + margin, when the peer, even if stopped and
///          continued, can place no more.
/// Threads  One thread calls everything, except wake().
/// Memory   Bounded: input by the frame cap, output by max_output_bytes, connections by max_peers and max_strangers.
/// Errors   A peer's fault closes that connection only, with a bye that says why. Nothing blocks but turn(), in
///          poll(2).
/// Order    on_up first, on_down last, for each OobPeer. Frames of one peer come in the order sent. A callback may
///          call back in.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "meta/address.h"
#include "meta/message.h"

namespace sluice {

enum class OobPeer : uint64_t {};  ///< Generation << 32 | index; never 0. One life of one connection.
enum class DialId : uint64_t {};

uint64_t monotonic_ns() noexcept;

struct OobConfig {
  Hello hello;         ///< What we say of ourselves; nonce, port and secret are filled in.
  std::string secret;  ///< Empty: none.
  uint32_t heartbeat_ms = 500;
  uint32_t suspect_ms = 2000;
  uint32_t lease_margin_ms = 500;  ///< For clocks that run at different rates.
  uint32_t connect_ms = 5000;      ///< For a dial, from the call to its result.
  uint32_t hello_ms = 3000;        ///< For a stranger, from accept to up.
  uint32_t max_peers = 1024;
  uint32_t max_strangers = 256;  ///< Accepted connections that are not up yet; beyond, the oldest is dropped.
  size_t max_output_bytes = size_t{4} << 20;
  std::function<uint64_t()> now_ns = monotonic_ns;
};

/// What happens, told from inside turn().
class OobEvents {
 public:
  /// @p peer is up; its data may be placed until @p lease_until_ns.
  virtual void on_up(OobPeer peer, const Hello& hello, uint64_t lease_until_ns) = 0;
  /// The lease was renewed.
  virtual void on_lease(OobPeer peer, uint64_t until_ns) = 0;
  /// @p peer is gone: kPeerDead (its socket closed), kTimeout (silent or cut off), kClosed (it said bye), kStale (a new
  /// incarnation came), kBadFrame (it broke the protocol). From @p final_at_ns on it can place nothing of ours: only
  /// then may tasks be final.
  virtual void on_down(OobPeer peer, const Status& why, uint64_t final_at_ns) = 0;
  /// The one result of a dial. On success @p peer is up (it may have been up before).
  virtual void on_dialed(DialId dial, const Status& status, OobPeer peer) = 0;
  virtual void on_offer(OobPeer peer, const PathOffer& offer) = 0;
  virtual void on_answer(OobPeer peer, const PathAnswer& answer) = 0;
  virtual void on_segment_query(OobPeer peer, const SegmentQuery& query) = 0;
  virtual void on_segment_reply(OobPeer peer, const SegmentReply& reply) = 0;
  virtual void on_buffers_end(OobPeer, const BuffersEnd&) {}
  virtual void on_buffers_left(OobPeer, const BuffersLeft&) {}
  virtual void on_path_move(OobPeer, const PathMove&) {}

 protected:
  ~OobEvents() = default;
};

/// Tell @p events what a peer that is up said, if it is theirs: from offers on.
void deliver(OobEvents& events, OobPeer peer, const OobMessage& message);

struct OobCounters {
  uint64_t accepted = 0, dialed = 0, up = 0, down = 0;
  uint64_t duplicates = 0;       ///< Connections ended because the pair had one.
  uint64_t bad_frames = 0;       ///< Connections ended by bytes that do not parse or break the order.
  uint64_t refused = 0;          ///< Hellos refused: version, secret, self.
  uint64_t timeouts = 0;         ///< Connections ended by a deadline.
  uint64_t accept_backoffs = 0;  ///< Times that accept(2) found no descriptor or memory.
  uint64_t ignored = 0;          ///< Messages of unknown type, late pongs.
};

/// What the engine needs of an out-of-band side: OobNode in production, a pipe in memory under the simulator.
class Oob {
 public:
  virtual ~Oob() = default;
  /// Check the configuration, and make ready. @return kBadArgument, kSystemError.
  virtual Status open() = 0;
  /// Listen on the first of resolve(@p address, kListen) that can be bound.
  /// @return kBusy (port in use), kNotFound, kBadArgument, kSystemError.
  virtual Status listen(const Address& address) = 0;
  /// Where we listen, with the port as bound; port 0: not listening.
  virtual const Address& listening() const noexcept = 0;

  /// Connect to the first of @p targets (from resolve()) that answers; @p shown is for texts. Ends in on_dialed().
  virtual DialId dial(const Address& shown, std::vector<SockAddr> targets) = 0;
  /// Say bye with @p reason and close. @pre the caller has stopped placing @p peer's data. No on_down follows.
  /// @return when the peer can place nothing of ours any more, in ns; 0 when @p peer is not up.
  virtual uint64_t close_peer(OobPeer peer, std::string_view reason) = 0;
  /// Queue one message; it goes out whole. @pre it is none of the first five of OobMessage.
  /// @return kStale (not up), kAgain (output full), kLimit (over a cap).
  virtual Status send(OobPeer peer, const OobMessage& message) = 0;

  /// Wait up to @p timeout_ms (less if a deadline is nearer), then handle all that is due.
  /// @return how much was handled.
  virtual uint32_t turn(int timeout_ms) = 0;
  /// Make turn() return. Any thread; safe in a signal handler.
  virtual void wake() noexcept = 0;
  /// Whether a bye or other output is still on its way out.
  virtual bool has_output() const noexcept = 0;
};

class OobNode final : public Oob {
 public:
  /// @p events outlives the node.
  OobNode(OobConfig config, OobEvents* events);
  /// Closes everything, without events. @pre nothing of any peer is placed any more. To say bye, close_peer() first and
  /// turn() while has_output().
  ~OobNode() override;
  OobNode(const OobNode&) = delete;
  OobNode& operator=(const OobNode&) = delete;

  Status open() override;
  Status listen(const Address& address) override;
  const Address& listening() const noexcept override;
  DialId dial(const Address& shown, std::vector<SockAddr> targets) override;
  uint64_t close_peer(OobPeer peer, std::string_view reason) override;
  Status send(OobPeer peer, const OobMessage& message) override;
  uint32_t turn(int timeout_ms) override;
  void wake() noexcept override;
  bool has_output() const noexcept override;

  /// The peer with @p incarnation, if it is up; else OobPeer{0}.
  OobPeer find(Incarnation incarnation) const noexcept;
  const OobCounters& counters() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
