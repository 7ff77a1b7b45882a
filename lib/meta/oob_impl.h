/// @file oob_impl.h
/// The inside of OobNode: its links, peers and dials.
///
/// Model    A link is one TCP connection, in one LinkState. A peer is a link that is up; a dial is a wish that outlives
///          the links that it tries. turn() reads first, then accepts, then looks at deadlines, then writes, then frees
///          dead links; nothing else frees one, so a callback may close any peer.
/// Threads  As OobNode.
/// Memory   As OobNode.
/// Errors   As OobNode. What a stranger does wrong is one rate-limited log line; what a peer does wrong is in on_down.
#pragma once

#include <poll.h>

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "meta/oob.h"
#include "meta/oob_stream.h"

namespace sluice {

inline constexpr uint64_t kNsPerMs = 1'000'000;

enum class LinkState : uint8_t {
  kConnecting,  ///< connect(2) is under way.
  kHello,       ///< Our hello is out; theirs has not come.
  kWelcome,     ///< Both hellos are known; their welcome has not come.
  kUp,
  kClosing,  ///< Bye is on its way; what still comes is dropped.
  kDead,     ///< To be freed at the end of the turn.
};

struct SentPing {
  uint64_t nonce;
  uint64_t sent_ns;
};

struct Link {
  Link(int fd, size_t max_output_bytes) : stream(fd, max_output_bytes) {}

  OobStream stream;
  LinkState state = LinkState::kHello;
  bool dialer = false;
  DialId dial{};  ///< 0: accepted, or no dial waits for it.
  SockAddr remote;
  uint64_t deadline_ns = 0;  ///< Of every state but kUp.
  std::string our_hello;     ///< As sent.
  uint64_t our_nonce = 0;
  uint64_t hello_ns = 0;  ///< Before it was sent.
  Hello hello;            ///< The peer's.
  OobPeer peer{};
  std::deque<SentPing> pings;  ///< Those whose echo could still give a lease.
  uint64_t next_ping_ns = 0;
  uint64_t heard_ns = 0;
  uint64_t last_echo_ns = 0;  ///< Our last pong or welcome, read from the clock after it was made.
  uint64_t lease_ns = 0;      ///< How long a lease lasts: the smaller of both sides'.
  uint64_t lease_until_ns = 0;
};

struct Dial {
  DialId id{};
  Address shown;
  std::vector<SockAddr> targets;
  size_t next = 0;  ///< Of targets.
  uint64_t deadline_ns = 0;
  uint64_t retry_ns = 0;       ///< When to begin with the first target (again).
  bool trying = false;         ///< A link of it is under way.
  Incarnation duplicate_of{};  ///< The pair has, or is getting, another connection; whichever comes up serves.
  Status last_error;
};

class OobNode::Impl {
 public:
  Impl(OobConfig config, OobEvents* events) : config_(std::move(config)), events_(events) {}
  ~Impl();

  Status open();
  Status listen(const Address& address);
  DialId dial(const Address& shown, std::vector<SockAddr> targets);
  uint64_t close_peer(OobPeer peer, std::string_view reason);
  Status send(OobPeer peer, const OobMessage& message);
  uint32_t turn(int timeout_ms);
  void wake() noexcept;
  OobPeer find(Incarnation incarnation) const noexcept;
  bool has_output() const noexcept;

  Address listening_;
  OobCounters counters_;

 private:
  uint64_t now() const { return config_.now_ns(); }
  uint64_t ms(uint64_t count) const noexcept { return count * kNsPerMs; }
  Link* link_of(OobPeer peer) const noexcept;
  void warn(const std::string& text) { log_.warn(now(), "meta", text); }

  // oob.cc: the turn
  int wait_ms(int timeout_ms) const;
  uint32_t poll_all(int timeout_ms);
  void read_link(Link& link);
  void on_frame(Link& link, std::string_view body);
  void on_peer_message(Link& link, const OobMessage& message);
  void on_pong(Link& link, const Pong& pong);
  void check_deadlines(Link& link, uint64_t now_ns);
  void ping(Link& link);
  void put(Link& link, const OobMessage& message);
  void flush(Link& link);
  void sweep();

  // oob_handshake.cc: from a socket to a peer and back
  Status make_hello(Link& link);
  void on_hello(Link& link, const Hello& hello, std::string_view text);
  Status check_hello(const Hello& hello) const;
  void on_welcome(Link& link, const Welcome& welcome);
  void make_up(Link& link);
  void replace_stale(const Link& fresh);
  uint64_t final_at(const Link& link) const;
  void down(Link& link, const Status& why, uint64_t final_at_ns, const Bye& bye);
  void refuse(Link& link, const Status& why, bool duplicate = false);
  void begin_close(Link& link, const Bye& bye);
  void lost(Link& link, const Status& why);

  // oob_connect.cc: sockets, accept, dials
  Status bind_one(const SockAddr& target, const Address& shown, int* out);
  void accept_some();
  void drop_oldest_stranger();
  void run_dials(uint64_t now_ns);
  bool try_next(Dial& dial, uint64_t now_ns);
  void on_connected(Link& link);
  static void note(Dial& dial, const Status& why);
  void dial_failed(DialId id, const Status& why);
  void dial_duplicate(DialId id, Incarnation incarnation);
  void dial_done(DialId id, const Status& status, OobPeer peer);
  void dials_up(const Link& link, OobPeer peer);
  Dial* find_dial(DialId id) noexcept;

  OobConfig config_;
  OobEvents* events_;
  int wake_fd_ = -1;
  int listen_fd_ = -1;
  uint64_t accept_after_ns_ = 0;
  LogLimit log_;  // strangers choose how often they call
  uint64_t last_dial_ = 0;
  uint32_t work_ = 0;
  std::vector<std::unique_ptr<Link>> links_;  ///< In the order of their making.
  std::vector<Dial> dials_;
  std::vector<pollfd> polled_;
  std::vector<Link*> peers_;                ///< By index of OobPeer.
  std::vector<uint32_t> generations_;       ///< Beside peers_.
  std::unordered_map<uint64_t, Link*> up_;  ///< By incarnation.
};

}  // namespace sluice
