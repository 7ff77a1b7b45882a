// The out-of-band side in memory: connections between nodes, with the handshake, lease and endings of OobNode.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <variant>
#include <vector>

#include "meta/oob.h"
#include "world.h"

namespace sluice::sim {

class SimOob;

struct OobSyn {};    // a connection is asked for
struct OobReset {};  // the other end's process is gone, or nobody listens
using OobPacket = std::variant<OobMessage, OobSyn, OobReset>;

/// Who listens where, and what stands between them.
class OobNet {
 public:
  explicit OobNet(World* owner) : world(owner) {}
  World* const world;
  std::map<uint16_t, SimOob*> listeners;  // by port
  uint64_t next_link = 1;

  void cut(uint16_t a, uint16_t b, uint64_t until) { cut_[{std::min(a, b), std::max(a, b)}] = until; }
  void heal() { cut_.clear(); }
  uint64_t arrival(uint16_t a, uint16_t b, uint64_t last);

 private:
  std::map<std::pair<uint16_t, uint16_t>, uint64_t> cut_;
};

class SimOob final : public Oob {
 public:
  SimOob(OobNet* net, OobConfig config, OobEvents* events);
  ~SimOob() override;  ///< The process ends: its sockets close.

  Status open() override { return Code::kOk; }
  Status listen(const Address& address) override;
  const Address& listening() const noexcept override { return listening_; }
  DialId dial(const Address& shown, std::vector<SockAddr> targets) override;
  uint64_t close_peer(OobPeer peer, std::string_view reason) override;
  Status send(OobPeer peer, const OobMessage& message) override;
  uint32_t turn(int timeout_ms) override;
  void wake() noexcept override {}
  bool has_output() const noexcept override { return false; }

  size_t up() const noexcept { return up_; }

 private:
  enum class State : uint8_t { kConnecting, kHello, kWelcome, kUp, kDead };
  struct Link {
    uint64_t id = 0;
    uint16_t port = 0;  ///< Of the other node.
    State state = State::kHello;
    bool dialer = false;
    DialId dial{};
    Hello hello;
    uint64_t our_nonce = 0, hello_ns = 0, deadline_ns = 0, last_sent = 0;
    OobPeer peer{};
    std::deque<std::pair<uint64_t, uint64_t>> pings;  // nonce, when
    uint64_t next_ping_ns = 0, heard_ns = 0, last_echo_ns = 0, lease_ns = 0, lease_until_ns = 0;
  };
  struct Dial {
    DialId id{};
    uint16_t port = 0;
    uint64_t deadline_ns = 0, retry_ns = 0;
    bool trying = false;
    Incarnation duplicate_of{};
    Status last_error;
  };

  uint64_t now() const { return config_.now_ns(); }
  static uint64_t ms(uint64_t n) noexcept { return n * kMs; }
  Link* link_of(OobPeer peer) noexcept;
  Link* by_id(uint64_t id) noexcept;
  OobPeer find(Incarnation incarnation) noexcept;
  void put(Link& link, OobPacket packet);
  void say_hello(Link& link);
  void on_packet(uint64_t link, uint16_t from, const OobPacket& packet);
  void on_message(Link& link, const OobMessage& message);
  void on_hello(Link& link, const Hello& hello);
  void on_welcome(Link& link, const Welcome& welcome);
  void on_peer_message(Link& link, const OobMessage& message);
  void on_pong(Link& link, const Pong& pong);
  void make_up(Link& link);
  void replace_stale(const Link& fresh);
  uint64_t final_at(const Link& link) const { return link.last_echo_ns + link.lease_ns + ms(config_.lease_margin_ms); }
  void down(Link& link, const Status& why, uint64_t final_at_ns, const Bye& bye);
  void end(Link& link, const Bye& bye);
  void refuse(Link& link, const Status& why, bool duplicate);
  void lost(Link& link, const Status& why);
  void check_deadlines(Link& link);
  void run_dials();
  void dial_failed(DialId id, const Status& why);
  void dial_duplicate(DialId id, Incarnation incarnation);
  void dial_done(DialId id, const Status& status, OobPeer peer);

  OobNet* const net_;
  OobConfig config_;
  OobEvents* const events_;
  Address listening_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<Dial> dials_;
  struct Arrived {
    uint64_t link;
    uint16_t from;
    OobPacket packet;
  };
  std::deque<Arrived> inbox_;
  uint64_t last_dial_ = 0, last_peer_ = 0;
  size_t up_ = 0;
  uint32_t work_ = 0;
};

}  // namespace sluice::sim
