#include "meta/oob.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/random.h"
#include "oob_net.h"

namespace sluice {
namespace {
constexpr uint64_t kMs = Net::kMs;

bool says(const Status& status, std::string_view text) { return status.text().find(text) != std::string::npos; }

class Oob : public ::testing::TestWithParam<const char*> {
 protected:
  Net net;
};
INSTANTIATE_TEST_SUITE_P(Families, Oob, ::testing::Values("127.0.0.1:0", "[::1]:0", ":0", "lo:0"));

TEST_P(Oob, HelloOffersAndSegmentsBothWays) {
  TestNode& a = net.add("a", GetParam(), [](OobConfig& c) { c.hello.features = {"crc"}; });
  TestNode& b = net.add("b", GetParam());
  ASSERT_NE(b.at().port, 0);
  net.join(a, b);
  ASSERT_EQ(b.hellos.size(), 1u);
  EXPECT_EQ(b.hellos[0].name, "a");
  EXPECT_EQ(b.hellos[0].port, a.at().port);
  EXPECT_TRUE(b.hellos[0].has_feature("crc"));
  EXPECT_EQ(a.lease_ns, net.now_ns + 3000 * kMs);  // up with a lease from its hello
  EXPECT_EQ(b.lease_ns, net.now_ns + 3000 * kMs);

  PathOffer offer;
  offer.attempt = 4;
  offer.lanes.push_back({0, 0, 0, SessionId{77}, {}});
  ASSERT_TRUE(a.node->send(a.ups[0], offer).ok());
  ASSERT_TRUE(net.until([&] { return !b.offers.empty(); }));
  PathAnswer answer;
  answer.attempt = b.offers[0].attempt;
  ASSERT_TRUE(b.node->send(b.ups[0], answer).ok());
  ASSERT_TRUE(b.node->send(b.ups[0], SegmentQuery{1, "kv"}).ok());
  ASSERT_TRUE(net.until([&] { return !a.answers.empty() && !a.queries.empty(); }));
  ASSERT_TRUE(a.node->send(a.ups[0], SegmentReply{1, "", {{BufferId{0}, 4096}}}).ok());
  ASSERT_TRUE(net.until([&] { return !b.replies.empty(); }));
  EXPECT_EQ(b.offers[0].lanes[0].session, SessionId{77});
  EXPECT_EQ(a.answers[0].attempt, 4u);
  EXPECT_EQ(b.replies[0].buffers[0].length, 4096u);
}

TEST_F(Oob, SimultaneousDialsEndWithOneConnection) {
  uint64_t duplicates = 0;
  for (int round = 0; round < 200; ++round) {
    Net two;
    const auto random = [](OobConfig& c) { c.hello.incarnation = Incarnation{random_u64()}; };
    TestNode& a = two.add("a", "127.0.0.1:0", random);
    TestNode& b = two.add("b", "127.0.0.1:0", random);
    for (int lead = round % 5; lead > 0; --lead) a.node->turn(0);
    two.dial(a, b.at());
    for (int lead = round % 7; lead > 0; --lead) a.node->turn(0);  // how far ahead one of them is
    two.dial(b, a.at());
    ASSERT_TRUE(two.until([&] { return a.dialed.size() == 1 && b.dialed.size() == 1; })) << round;
    ASSERT_TRUE(a.dialed[0].status.ok()) << round << a.dialed[0].status.describe();
    ASSERT_TRUE(b.dialed[0].status.ok()) << round << b.dialed[0].status.describe();
    ASSERT_TRUE(a.node->send(a.dialed[0].peer, SegmentQuery{1, "x"}).ok());
    ASSERT_TRUE(b.node->send(b.dialed[0].peer, SegmentQuery{2, "y"}).ok());
    ASSERT_TRUE(two.until([&] { return a.queries.size() == 1 && b.queries.size() == 1; })) << round;
    two.settle();
    EXPECT_EQ(a.ups.size() + b.ups.size(), 2u) << round;
    EXPECT_EQ(a.downs.size() + b.downs.size(), 0u) << round;
    duplicates += a.node->counters().duplicates;
  }
  EXPECT_GT(duplicates, 0u) << "no round had a race";
}

TEST_F(Oob, DialOfAPeerThatIsUpAnswersWithThatPeer) {
  TestNode &a = net.add("a"), &b = net.add("b");
  net.join(a, b);
  net.dial(a, b.at());
  net.dial(b, a.at());
  ASSERT_TRUE(net.until([&] { return a.dialed.size() == 2 && b.dialed.size() == 1; }));
  EXPECT_EQ(a.dialed[1].peer, a.ups[0]);
  EXPECT_EQ(b.dialed[0].peer, b.ups[0]);
  EXPECT_EQ(a.ups.size() + b.ups.size(), 2u);
  EXPECT_EQ(a.downs.size() + b.downs.size(), 0u);
}

TEST_F(Oob, NodesOfOneNameOnOneHostDoNotEvictEachOther) {
  TestNode& hub = net.add("hub");
  for (int i = 0; i < 4; ++i) net.join(net.add("same", i < 2 ? "" : "127.0.0.1:0"), hub);
  net.settle();
  EXPECT_EQ(hub.ups.size(), 4u);
  EXPECT_EQ(hub.downs.size(), 0u);
}

TEST_F(Oob, RefusedDialNamesTheAddressAndPoisonsNothing) {
  TestNode& a = net.add("a");
  TestNode* b = &net.add("b");
  const Address at = b->at();
  net.remove(*b);
  net.dial(a, at);
  ASSERT_TRUE(net.until([&] { return a.dialed.size() == 1; }));
  EXPECT_EQ(a.dialed[0].status.code(), Code::kPeerDead);
  EXPECT_TRUE(says(a.dialed[0].status, "'" + format_address(at) + "'")) << a.dialed[0].status.text();
  EXPECT_TRUE(says(a.dialed[0].status, "refused")) << a.dialed[0].status.text();
  net.join(a, net.add("b", format_address(at)));
}

TEST_F(Oob, DialGoesOnToTheNextTarget) {
  TestNode &a = net.add("a"), &b = net.add("b");
  std::vector<SockAddr> targets = targets_of({"::1", b.at().port});  // nobody listens there
  targets.push_back(targets_of(b.at()).at(0));
  a.node->dial({"b-by-name", b.at().port}, targets);
  ASSERT_TRUE(net.until([&] { return a.dialed.size() == 1; }));
  EXPECT_TRUE(a.dialed[0].status.ok()) << a.dialed[0].status.describe();
  targets.resize(1);
  targets.push_back(targets[0]);
  a.node->dial({"b-by-name", b.at().port}, targets);
  ASSERT_TRUE(net.until([&] { return a.dialed.size() == 2; }));
  EXPECT_TRUE(says(a.dialed[1].status, "b-by-name")) << a.dialed[1].status.text();
  EXPECT_EQ(a.dialed[1].status.code(), Code::kPeerDead);
}

TEST_F(Oob, DialOfAMutePeerEndsAtItsDeadline) {
  TestNode &a = net.add("a"), &mute = net.add("mute");  // never turned
  net.dial(a, mute.at());
  net.settle(&a);
  EXPECT_TRUE(a.dialed.empty());
  net.now_ns += 5001 * kMs;
  ASSERT_TRUE(net.until([&] { return a.dialed.size() == 1; }, &a));
  EXPECT_EQ(a.dialed[0].status.code(), Code::kTimeout);
  EXPECT_TRUE(says(a.dialed[0].status, format_address(mute.at()))) << a.dialed[0].status.text();
}

TEST_F(Oob, DialOfOneselfIsRefused) {
  TestNode& a = net.add("a");
  net.dial(a, a.at());
  ASSERT_TRUE(net.until([&] { return a.dialed.size() == 1; }));
  EXPECT_EQ(a.dialed[0].status.code(), Code::kPeerRefused);
  EXPECT_TRUE(says(a.dialed[0].status, "this node itself")) << a.dialed[0].status.text();
}

TEST_F(Oob, ListenErrorsSayWhatToDo) {
  TestNode &a = net.add("a"), &b = net.add("b", "");
  Status status = b.node->listen(a.at());
  EXPECT_EQ(status.code(), Code::kBusy);
  EXPECT_TRUE(says(status, "'" + format_address(a.at()) + "'") && says(status, "in use")) << status.text();
  status = b.node->listen({"192.0.2.1", 0});  // of the documentation's range: nobody has it
  EXPECT_EQ(status.code(), Code::kNotFound) << status.describe();
  EXPECT_TRUE(b.node->listen({"127.0.0.2", 0}).ok());
  EXPECT_EQ(b.at().host, "127.0.0.2");
  EXPECT_EQ(b.node->listen({"127.0.0.1", 0}).code(), Code::kExists);
}

TEST_F(Oob, BadConfigurationIsRefusedAtOpen) {
  const auto open = [](const std::function<void(OobConfig&)>& adjust) {
    TestNode events;
    OobConfig config;
    config.hello.name = "n";
    config.hello.incarnation = Incarnation{1};
    config.hello.lease_ms = 3000;
    adjust(config);
    return OobNode(config, &events).open().code();
  };
  EXPECT_EQ(open([](OobConfig&) {}), Code::kOk);
  EXPECT_EQ(open([](OobConfig& c) { c.hello.name = ""; }), Code::kBadArgument);
  EXPECT_EQ(open([](OobConfig& c) { c.hello.name = "a\nb"; }), Code::kBadArgument);
  EXPECT_EQ(open([](OobConfig& c) { c.hello.name.assign(256, 'x'); }), Code::kBadArgument);
  EXPECT_EQ(open([](OobConfig& c) { c.hello.incarnation = {}; }), Code::kBadArgument);
  EXPECT_EQ(open([](OobConfig& c) { c.heartbeat_ms = 0; }), Code::kBadArgument);
  EXPECT_EQ(open([](OobConfig& c) { c.suspect_ms = c.heartbeat_ms; }), Code::kBadArgument);
  EXPECT_EQ(open([](OobConfig& c) { c.hello.lease_ms = 1; }), Code::kBadArgument);
  EXPECT_EQ(open([](OobConfig& c) { c.hello.features.resize(65); }), Code::kLimit);
}

// ---- leases

TEST_F(Oob, HeartbeatsRenewTheLeaseFromTheTimeOfThePing) {
  TestNode &a = net.add("a"), &b = net.add("b");
  net.join(a, b);
  for (int i = 0; i < 20; ++i) {
    net.now_ns += 500 * kMs;
    const uint64_t want = net.now_ns + 3000 * kMs;
    ASSERT_TRUE(net.until([&] { return a.lease_ns == want && b.lease_ns == want; })) << i;
  }
  EXPECT_EQ(a.downs.size() + b.downs.size(), 0u);
}

TEST_F(Oob, ShorterLeaseOfTheTwoHolds) {
  TestNode &a = net.add("a", "127.0.0.1:0", [](OobConfig&c) { c.hello.lease_ms = 1500; }), &b = net.add("b");
  net.join(a, b);
  EXPECT_EQ(a.lease_ns, net.now_ns + 1500 * kMs);
  EXPECT_EQ(b.lease_ns, net.now_ns + 1500 * kMs);
}

TEST_F(Oob, EchoReadAfterAStopRenewsNothing) {
  TestNode &a = net.add("a"), &b = net.add("b");
  net.join(a, b);
  net.settle();
  net.now_ns += 500 * kMs;
  const uint64_t pinged_ns = net.now_ns;
  net.settle(&b, 3);  // b pings,
  net.settle(&a);     // a echoes,
  const int before = b.leases;
  net.now_ns += 60'000 * kMs;  // and b is stopped before it reads the echo.
  net.settle(&b);
  EXPECT_EQ(b.leases, before + 1);
  EXPECT_EQ(b.lease_ns, pinged_ns + 3000 * kMs);  // long over
}

TEST_F(Oob, StoppedPeerIsGivenUpOnlyWhenItsLeaseIsOver) {
  TestNode &a = net.add("a"), &b = net.add("b");
  net.join(a, b);
  net.settle();
  uint64_t last_echo_ns = net.now_ns;
  for (int i = 0; i < 3; ++i) {
    net.now_ns += 500 * kMs;
    net.settle();
    last_echo_ns = net.now_ns;
  }
  while (a.downs.empty() && net.now_ns < last_echo_ns + 10'000 * kMs) {  // b is stopped
    net.now_ns += 100 * kMs;
    net.settle(&a, 3);
  }
  ASSERT_EQ(a.downs.size(), 1u);
  EXPECT_EQ(net.now_ns - last_echo_ns, 2000 * kMs);
  EXPECT_EQ(a.downs[0].why.code(), Code::kTimeout);
  EXPECT_TRUE(says(a.downs[0].why, "'b'")) << a.downs[0].why.text();
  EXPECT_EQ(a.downs[0].final_at_ns, last_echo_ns + 3500 * kMs);

  net.now_ns += 60'000 * kMs;  // b goes on
  net.settle(&b);
  EXPECT_LE(b.lease_ns, a.downs[0].final_at_ns - 500 * kMs);
  ASSERT_EQ(b.downs.size(), 1u);
  EXPECT_EQ(b.downs[0].why.code(), Code::kClosed);
  EXPECT_TRUE(says(b.downs[0].why, "nothing was heard")) << b.downs[0].why.text();
  EXPECT_GT(b.downs[0].final_at_ns, net.now_ns);  // a said bye but did not say that it had fenced
  net.join(b, a);                                 // usable again
  EXPECT_EQ(a.ups.size(), 2u);
}

TEST_F(Oob, VanishedPeerIsDownAtOnce) {
  TestNode &a = net.add("a"), &b = net.add("b"), &c = net.add("c");
  net.join(b, a);
  net.join(c, a);
  net.remove(b);  // its descriptors are closed and nothing is said, as when a process is killed
  ASSERT_TRUE(net.until([&] { return a.downs.size() == 1; }));
  EXPECT_EQ(a.downs[0].peer, a.ups[0]);
  EXPECT_EQ(a.downs[0].why.code(), Code::kPeerDead);
  EXPECT_EQ(a.downs[0].final_at_ns, net.now_ns);
  EXPECT_EQ(a.node->send(a.ups[0], SegmentQuery{1, "x"}).code(), Code::kStale);
  EXPECT_TRUE(a.node->send(a.ups[1], SegmentQuery{1, "x"}).ok());
  ASSERT_TRUE(net.until([&] { return c.queries.size() == 1; }));
}

TEST_F(Oob, FencedCloseTellsThePeerThatNothingMoves) {
  TestNode &a = net.add("a"), &b = net.add("b");
  net.join(a, b);
  ASSERT_TRUE(a.node->send(a.ups[0], SegmentQuery{1, "last"}).ok());
  EXPECT_EQ(a.node->close_peer(a.ups[0], "segment closed"), net.now_ns + 3500 * kMs);
  EXPECT_EQ(a.node->close_peer(a.ups[0], "again"), 0u);
  EXPECT_TRUE(a.node->has_output());
  ASSERT_TRUE(net.until([&] { return b.downs.size() == 1; }));
  EXPECT_EQ(b.queries.size(), 1u);  // what was sent before the close arrives
  EXPECT_EQ(b.downs[0].why.code(), Code::kClosed);
  EXPECT_TRUE(says(b.downs[0].why, "segment closed")) << b.downs[0].why.text();
  EXPECT_EQ(b.downs[0].final_at_ns, net.now_ns);
  EXPECT_TRUE(a.downs.empty());
  EXPECT_FALSE(a.node->has_output());
}

TEST_F(Oob, CloseFromInsideACallback) {
  TestNode &a = net.add("a"), &b = net.add("b");
  a.during_up = [&a](OobPeer peer) { a.node->close_peer(peer, "not wanted"); };
  net.dial(a, b.at());
  ASSERT_TRUE(net.until([&] { return a.dialed.size() == 1; }));
  EXPECT_EQ(a.dialed[0].status.code(), Code::kClosed);
  net.settle();
  EXPECT_EQ(b.ups.size(), b.downs.size());
}

TEST_F(Oob, RestartedPeerReplacesItsEarlierLife) {
  TestNode &a = net.add("a"), &old_b = net.add("b", "127.0.0.1:0");
  net.join(old_b, a);
  // The old life hangs (is not turned); the new one has the same port, on the other family so that both fit here.
  TestNode& new_b = net.add("b", "[::1]:" + std::to_string(old_b.at().port));
  net.dial(new_b, a.at());
  while (a.ups.size() < 2 || new_b.ups.empty()) {
    a.node->turn(0);
    new_b.node->turn(0);
  }
  ASSERT_EQ(a.downs.size(), 1u);
  EXPECT_EQ(a.downs[0].peer, a.ups[0]);
  EXPECT_EQ(a.downs[0].why.code(), Code::kStale);
  EXPECT_EQ(a.downs[0].final_at_ns, net.now_ns + 3500 * kMs);
  EXPECT_NE(a.ups[0], a.ups[1]);
  EXPECT_EQ(a.node->send(a.ups[0], SegmentQuery{1, "x"}).code(), Code::kStale);
  EXPECT_EQ(a.node->find(Incarnation{102}), a.ups[1]);
  EXPECT_EQ(a.node->find(Incarnation{101}), OobPeer{});
}

TEST_F(Oob, PeerThatGaveUpAndReturnsIsTakenBack) {
  TestNode &a = net.add("a"), &b = net.add("b");
  net.join(b, a);
  b.node->close_peer(b.ups[0], "moving");  // a is not turned: it sees the end and the new connection in one turn
  net.dial(b, a.at());
  for (int i = 0; i < 5; ++i) b.node->turn(0);
  ASSERT_TRUE(net.until([&] { return b.dialed.size() == 2; }));
  EXPECT_TRUE(b.dialed[1].status.ok()) << b.dialed[1].status.describe();
  EXPECT_EQ(a.ups.size(), 2u);
  EXPECT_EQ(a.downs.size(), 1u);
}

// ---- bounds

TEST_F(Oob, DescriptorsAreStable) {
  TestNode &a = net.add("a"), &b = net.add("b");
  int before = 0;
  for (int i = 0; i < 64; ++i) {
    net.join(a, b);
    (i % 2 == 0 ? a : b).node->close_peer((i % 2 == 0 ? a : b).ups.back(), "again");
    net.settle();
    if (i == 0) before = open_descriptors();
  }
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(a.ups.size(), 64u);
}

TEST_F(Oob, OutputIsBoundedAndFramesStayWhole) {
  TestNode& a = net.add("a", "127.0.0.1:0", [](OobConfig& c) { c.secret = "s", c.max_output_bytes = 1 << 20; });
  TestNode& b = net.add("b", "127.0.0.1:0", [](OobConfig& c) { c.secret = "s"; });
  net.join(a, b);
  SegmentReply large{0, "", std::vector<SegmentBuffer>(3000, {BufferId{1}, 1ull << 40})};
  Status status;
  uint64_t sent = 0;
  for (; sent < 1000 && status.ok(); ++sent) {  // b is not turned
    large.request = sent;
    status = sent % 2 == 0 ? a.node->send(a.ups[0], large) : a.node->send(a.ups[0], SegmentQuery{sent, "small"});
    a.node->turn(0);
  }
  EXPECT_EQ(status.code(), Code::kAgain);
  --sent;
  ASSERT_TRUE(net.until([&] { return b.replies.size() + b.queries.size() == sent; }));
  for (size_t i = 0; i < b.replies.size(); ++i) EXPECT_EQ(b.replies[i].request, 2 * i);
  for (size_t i = 0; i < b.queries.size(); ++i) EXPECT_EQ(b.queries[i].request, 2 * i + 1);
  EXPECT_TRUE(a.node->send(a.ups[0], large).ok());
}

TEST_F(Oob, PeersAreBounded) {
  TestNode& hub = net.add("hub", "127.0.0.1:0", [](OobConfig& c) { c.max_peers = 2; });
  for (int i = 0; i < 2; ++i) net.join(net.add("n" + std::to_string(i), ""), hub);
  TestNode& third = net.add("n2", "");
  net.dial(third, hub.at());
  ASSERT_TRUE(net.until([&] { return third.dialed.size() == 1; }));
  EXPECT_EQ(third.dialed[0].status.code(), Code::kPeerRefused);
  EXPECT_TRUE(says(third.dialed[0].status, "all the peers")) << third.dialed[0].status.text();
}

TEST_F(Oob, WakeEndsAWaitFromAnotherThread) {
  TestNode& a = net.add("a");
  const auto begin = std::chrono::steady_clock::now();
  std::thread waker([&a] { a.node->wake(); });
  a.node->turn(60'000);
  waker.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

/// Runs in a child, whose limit of descriptors it lowers. @return the number of the line that failed, or 0.
int accept_without_descriptors() {
  Net net;
  TestNode& a = net.add("a");
  std::vector<int> clients;
  for (int i = 0; i < 8; ++i) clients.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
  const SockAddr target = targets_of(a.at()).at(0);
  rlimit old{}, low{};
  ::getrlimit(RLIMIT_NOFILE, &old);
  low = old;
  low.rlim_cur = static_cast<rlim_t>(clients.back()) + 3;  // room for two of the eight
  ::setrlimit(RLIMIT_NOFILE, &low);
  for (const int fd : clients) ::connect(fd, target.get(), target.length);
  if (!net.until([&] { return a.node->counters().accept_backoffs == 1; })) return __LINE__;
  if (a.node->counters().accepted != 2) return __LINE__;
  net.settle();
  if (a.node->counters().accept_backoffs != 1) return __LINE__;  // it does not spin
  net.now_ns += 100 * kMs;
  if (!net.until([&] { return a.node->counters().accept_backoffs == 2; })) return __LINE__;
  ::setrlimit(RLIMIT_NOFILE, &old);
  net.now_ns += 100 * kMs;
  return net.until([&] { return a.node->counters().accepted == 8; }) ? 0 : __LINE__;
}

TEST_F(Oob, AcceptBacksOffWithoutDescriptors) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(accept_without_descriptors() & 0xff);
  int state = 0;
  ASSERT_EQ(::waitpid(child, &state, 0), child);
  ASSERT_TRUE(WIFEXITED(state));
  EXPECT_EQ(WEXITSTATUS(state), 0) << "failed at a line that is this, modulo 256";
}

}  // namespace
}  // namespace sluice
