/// @file oob_net.h
/// Several out-of-band nodes in one process on loopback, turned by hand, under one clock that tests move.
///
/// Model    A TestNode records its events. A Net turns its nodes until a condition holds; what is real is only the
///          sockets.
/// Threads  One.
/// Memory   Test code.
/// Errors   A condition that does not come true within the wall-clock bound fails the test.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "meta/oob.h"

namespace sluice {

struct TestNode final : OobEvents {
  struct Down {
    OobPeer peer;
    Status why;
    uint64_t final_at_ns;
  };
  struct Dialed {
    DialId dial;
    Status status;
    OobPeer peer;
  };

  void on_up(OobPeer peer, const Hello& hello, uint64_t lease_until_ns) override {
    ups.push_back(peer);
    hellos.push_back(hello);
    lease_ns = lease_until_ns;
    if (during_up) during_up(peer);
  }
  void on_lease(OobPeer, uint64_t until_ns) override { lease_ns = until_ns, ++leases; }
  void on_down(OobPeer peer, const Status& why, uint64_t final_at_ns) override {
    downs.push_back({peer, why, final_at_ns});
  }
  void on_dialed(DialId dial, const Status& status, OobPeer peer) override { dialed.push_back({dial, status, peer}); }
  void on_offer(OobPeer, const PathOffer& offer) override { offers.push_back(offer); }
  void on_answer(OobPeer, const PathAnswer& answer) override { answers.push_back(answer); }
  void on_segment_query(OobPeer, const SegmentQuery& query) override { queries.push_back(query); }
  void on_segment_reply(OobPeer, const SegmentReply& reply) override { replies.push_back(reply); }

  Address at() const { return node->listening(); }

  std::function<void(OobPeer)> during_up;
  std::vector<OobPeer> ups;
  std::vector<Hello> hellos;
  std::vector<Down> downs;
  std::vector<Dialed> dialed;
  std::vector<PathOffer> offers;
  std::vector<PathAnswer> answers;
  std::vector<SegmentQuery> queries;
  std::vector<SegmentReply> replies;
  uint64_t lease_ns = 0;
  int leases = 0;
  std::unique_ptr<OobNode> node;
};

class Net {
 public:
  static constexpr uint64_t kMs = 1'000'000;

  /// A node that listens on @p listen ("" for not at all). Incarnations rise from node to node unless given.
  TestNode& add(const std::string& name, const std::string& listen = "127.0.0.1:0",
                const std::function<void(OobConfig&)>& adjust = {});
  void remove(TestNode& node);
  DialId dial(TestNode& from, const Address& to);
  /// Both up, by a dial from @p from.
  void join(TestNode& from, TestNode& to);
  /// Turn every node, or @p only, until @p done. @return whether it came true.
  bool until(const std::function<bool()>& done, TestNode* only = nullptr);
  /// Turn every node for a while in which nothing should happen.
  void settle(TestNode* only = nullptr, int turns = 30);

  uint64_t now_ns = 1'000'000 * kMs;
  std::vector<std::unique_ptr<TestNode>> nodes;

 private:
  uint64_t next_incarnation_ = 100;
};

/// A plain TCP client, for what no node would send.
class RawClient {
 public:
  explicit RawClient(const Address& to);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  int fd() const { return fd_; }
  bool write(std::string_view bytes);
  static std::string frame(std::string_view body);
  /// All that has come so far is appended to received(). @return false once the connection has ended.
  bool read();
  const std::string& received() const { return received_; }

 private:
  int fd_;
  std::string received_;
};

int open_descriptors();
std::vector<SockAddr> targets_of(const Address& address);

}  // namespace sluice
