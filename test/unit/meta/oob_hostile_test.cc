#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "oob_net.h"

namespace sluice {
namespace {
constexpr uint64_t kMs = Net::kMs;

bool says(const Status& status, std::string_view text) { return status.text().find(text) != std::string::npos; }

std::string hello_frame(const Hello& hello) {
  std::string body;
  EXPECT_TRUE(encode_message(hello, &body).ok());
  return RawClient::frame(body);
}

Hello raw_hello() {
  Hello hello;
  hello.name = "raw";
  hello.incarnation = Incarnation{0xffff};
  hello.nonce = 1;
  hello.lease_ms = 3000;
  return hello;
}

class OobHostile : public ::testing::Test {
 protected:
  /// A stranger sends @p bytes: it is cut off, and the peer that is up notices nothing.
  void expect_cut_off(std::string_view bytes, std::string_view bye) {
    SCOPED_TRACE(bytes.substr(0, 40));
    RawClient raw(a.at());
    EXPECT_TRUE(raw.write(bytes));
    EXPECT_TRUE(net.until([&] { return !raw.read(); }));
    EXPECT_NE(raw.received().find(bye), std::string::npos) << raw.received();
    EXPECT_EQ(a.ups.size(), 1u);
    EXPECT_TRUE(a.downs.empty());
  }

  Net net;
  TestNode& a = net.add("a");
  TestNode& b = net.add("b");
};

TEST_F(OobHostile, GarbageEndsThatConnectionOnly) {
  net.join(b, a);
  expect_cut_off("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "announces 542393671 bytes");
  expect_cut_off(std::string(4, '\0'), "announces 0 bytes");
  expect_cut_off(std::string(8, '\xff'), "announces 4294967295 bytes");
  expect_cut_off(RawClient::frame(std::string(kMaxHelloBytes + 1, ' ')), "announces 16385 bytes");
  expect_cut_off(RawClient::frame("not json"), "not JSON");
  expect_cut_off(RawClient::frame(R"({"type":"ping","nonce":"1"})"), "out of order");
  expect_cut_off(RawClient::frame(R"({"type":"later"})"), "none that this version knows");
  expect_cut_off(RawClient::frame(R"({"type":"hello","version":2})"), "version 2");
  Hello hello = raw_hello();
  hello.lease_ms = 10;
  expect_cut_off(hello_frame(hello), "lease of 10 ms");
  expect_cut_off(hello_frame(raw_hello()) + hello_frame(raw_hello()), "out of order");
  expect_cut_off(hello_frame(raw_hello()) + RawClient::frame(R"({"type":"welcome","nonce":"7"})"), "another hello");
  ASSERT_TRUE(a.node->send(a.ups[0], SegmentQuery{1, "x"}).ok());
  EXPECT_TRUE(net.until([&] { return b.queries.size() == 1; }));
  EXPECT_GT(a.node->counters().bad_frames, 0u);
}

TEST_F(OobHostile, HelloOfAPeerThatIsUpHarmsNothing) {
  net.join(b, a);
  Hello hello = raw_hello();
  hello.incarnation = b.hellos[0].incarnation;
  expect_cut_off(hello_frame(hello), "this node itself");
  hello.incarnation = a.hellos[0].incarnation;
  expect_cut_off(hello_frame(hello), "has a connection");
}

TEST_F(OobHostile, PeerThatBreaksTheProtocolIsDown) {
  RawClient raw(a.at());
  Hello hello = raw_hello();  // the larger incarnation: it says welcome first
  ASSERT_TRUE(raw.write(hello_frame(hello)));
  std::string nonce;
  ASSERT_TRUE(net.until([&] {
    raw.read();
    const size_t at = raw.received().find("\"nonce\":\"");
    if (at != std::string::npos) nonce = raw.received().substr(at + 9, raw.received().find('"', at + 9) - at - 9);
    return !nonce.empty();
  }));
  ASSERT_TRUE(raw.write(RawClient::frame(R"({"type":"welcome","nonce":")" + nonce + "\"}")));
  ASSERT_TRUE(net.until([&] { return a.ups.size() == 1; }));
  ASSERT_TRUE(raw.write(RawClient::frame(R"({"type":"later"})")));  // ignored and counted
  ASSERT_TRUE(raw.write(RawClient::frame(R"({"type":"pong","nonce":"9"})")));
  ASSERT_TRUE(net.until([&] { return a.node->counters().ignored == 2; }));
  EXPECT_EQ(a.leases, 0);
  ASSERT_TRUE(raw.write(std::string(4, '\xff')));
  ASSERT_TRUE(net.until([&] { return a.downs.size() == 1; }));
  EXPECT_EQ(a.downs[0].why.code(), Code::kBadFrame);
  EXPECT_EQ(a.downs[0].final_at_ns, net.now_ns + 3500 * kMs);  // it lives, so its lease counts
  EXPECT_TRUE(net.until([&] { return !raw.read(); }));
}

TEST_F(OobHostile, FrameInSingleBytesIsAssembled) {
  RawClient raw(a.at());
  for (const char c : hello_frame(raw_hello())) {
    ASSERT_TRUE(raw.write({&c, 1}));
    a.node->turn(0);
  }
  ASSERT_TRUE(raw.write(RawClient::frame(R"({"type":"welcome","nonce":"7"})")));
  EXPECT_TRUE(net.until([&] { return !raw.read(); }));
  EXPECT_NE(raw.received().find("another hello"), std::string::npos) << raw.received();
}

TEST_F(OobHostile, SlowHelloMeetsItsDeadline) {
  RawClient raw(a.at());
  const std::string hello = hello_frame(raw_hello());
  for (int i = 0; i < 29; ++i) {
    ASSERT_TRUE(raw.write(hello.substr(i, 1)));
    net.now_ns += 100 * kMs;
    net.settle(&a, 2);
    ASSERT_TRUE(raw.read());
  }
  net.now_ns += 201 * kMs;  // 3 s from the turn that accepted it
  ASSERT_TRUE(net.until([&] { return !raw.read(); }));
  EXPECT_NE(raw.received().find("did not come in time"), std::string::npos) << raw.received();
  EXPECT_EQ(a.node->counters().timeouts, 1u);
}

TEST_F(OobHostile, StrangersAreBoundedAndDoNotShutPeersOut) {
  TestNode& hub = net.add("hub", "127.0.0.1:0", [](OobConfig& c) { c.max_strangers = 4; });
  const int before = open_descriptors();
  std::vector<std::unique_ptr<RawClient>> raws;
  for (int i = 0; i < 20; ++i) {
    raws.push_back(std::make_unique<RawClient>(hub.at()));
    net.settle(&hub, 2);
  }
  EXPECT_EQ(open_descriptors() - before, 20 + 4);
  net.join(b, hub);
}

TEST_F(OobHostile, SilentEndOfAStrangerIsFreed) {
  net.settle();
  const int before = open_descriptors();
  for (int i = 0; i < 20; ++i) {
    RawClient raw(a.at());
    if (i % 2 == 0) raw.write(hello_frame(raw_hello()).substr(0, 10));
    net.settle(&a, 3);
  }
  net.settle();
  EXPECT_EQ(open_descriptors(), before);
}

// ---- the shared secret

TestNode& with_secret(Net& net, const std::string& name, const std::string& secret) {
  return net.add(name, "127.0.0.1:0", [&secret](OobConfig& c) { c.secret = secret; });
}

TEST_F(OobHostile, SameSecretJoins) {
  TestNode &x = with_secret(net, "x", "blue"), &y = with_secret(net, "y", "blue");
  net.join(y, x);
  for (int i = 0; i < 5; ++i) {
    net.now_ns += 500 * kMs;
    net.settle();
  }
  EXPECT_EQ(x.lease_ns, net.now_ns + 3000 * kMs);
  EXPECT_TRUE(x.downs.empty());
}

TEST_F(OobHostile, WrongSecretIsRefusedOnBothSides) {
  TestNode &x = with_secret(net, "x", "blue"), &y = with_secret(net, "y", "green");
  struct Pair {
    TestNode *from, *to;
  };
  for (const Pair& pair : {Pair{&x, &y}, Pair{&y, &x}, Pair{&x, &a}, Pair{&a, &x}}) {
    TestNode *from = pair.from, *to = pair.to;
    const size_t results = from->dialed.size();
    const uint64_t refused = to->node->counters().refused;
    net.dial(*from, to->at());
    ASSERT_TRUE(net.until([&] { return from->dialed.size() > results && to->node->counters().refused > refused; }));
    EXPECT_EQ(from->dialed.back().status.code(), Code::kPeerRefused);
    EXPECT_TRUE(says(from->dialed.back().status, "secret")) << from->dialed.back().status.text();
    EXPECT_TRUE(says(from->dialed.back().status, "set the same secret")) << from->dialed.back().status.text();
  }
  net.settle();
  EXPECT_EQ(x.ups.size() + y.ups.size() + a.ups.size(), 0u);
}

/// Passes bytes between a client and a node, and keeps what the client said.
class Recorder {
 public:
  explicit Recorder(const Address& to) : out_(to) {
    const SockAddr any = targets_of({"127.0.0.1", 0}).at(0);
    listen_fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::bind(listen_fd_, any.get(), any.length), 0);
    EXPECT_EQ(::listen(listen_fd_, 1), 0);
  }
  ~Recorder() {
    ::close(listen_fd_);
    if (in_fd_ >= 0) ::close(in_fd_);
  }
  Address at() const {
    SockAddr bound;
    bound.length = sizeof bound.storage;
    ::getsockname(listen_fd_, const_cast<SockAddr&>(bound).get(), &bound.length);
    return address_of(bound);
  }
  void pass() {
    if (in_fd_ < 0) in_fd_ = ::accept4(listen_fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (in_fd_ < 0) return;
    char bytes[4096];
    const ssize_t got = ::recv(in_fd_, bytes, sizeof bytes, 0);
    if (got > 0) {
      said.append(bytes, static_cast<size_t>(got));
      out_.write({bytes, static_cast<size_t>(got)});
    }
    out_.read();
    const std::string_view fresh = std::string_view(out_.received()).substr(returned_);
    const ssize_t gave = fresh.empty() ? 0 : ::send(in_fd_, fresh.data(), fresh.size(), MSG_NOSIGNAL);
    if (gave > 0) returned_ += static_cast<size_t>(gave);
  }
  std::string said;

 private:
  RawClient out_;
  int listen_fd_;
  int in_fd_ = -1;
  size_t returned_ = 0;
};

TEST_F(OobHostile, ReplayOfAGoodHandshakeIsRefused) {
  TestNode &x = with_secret(net, "x", "blue"), &y = with_secret(net, "y", "blue");
  {
    Recorder recorder(x.at());
    net.dial(y, recorder.at());
    ASSERT_TRUE(net.until([&] {
      recorder.pass();
      return x.ups.size() == 1 && y.ups.size() == 1;
    }));
    const std::string said = recorder.said;
    y.node->close_peer(y.ups[0], "done");
    ASSERT_TRUE(net.until([&] {
      recorder.pass();
      return x.downs.size() == 1;
    }));
    RawClient raw(x.at());
    ASSERT_TRUE(raw.write(said));
    ASSERT_TRUE(net.until([&] { return !raw.read(); }));
  }
  EXPECT_EQ(x.ups.size(), 1u);
  EXPECT_EQ(x.node->counters().refused, 1u);
}

}  // namespace
}  // namespace sluice
