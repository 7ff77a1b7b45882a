// Addresses, refusals, and the one clear line that each of them gives.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "wires.h"

namespace sluice::func {
namespace {

class AddressTest : public Wires {};

bool one_line(const Status& s) { return !s.text().empty() && s.text().find('\n') == std::string::npos; }

/// "127.0.0.1:N" where nobody listens.
std::string free_address() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof at;
  (void)bind(fd, reinterpret_cast<sockaddr*>(&at), bytes);
  (void)getsockname(fd, reinterpret_cast<sockaddr*>(&at), &bytes);
  close(fd);
  return "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
}

TEST_P(AddressTest, ThePortInUseIsNamed) {
  start();
  Child second;
  EXPECT_FALSE(second.start(GetParam(), "second", {{"listen", here_.address}}));
  const std::string port = here_.address.substr(here_.address.rfind(':') + 1);
  EXPECT_NE(second.first_line.find("busy"), std::string::npos) << second.first_line;
  EXPECT_NE(second.first_line.find(port), std::string::npos) << second.first_line;
}

TEST_P(AddressTest, Ipv6EndToEnd) {
  const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 at{};
  at.sin6_family = AF_INET6;
  at.sin6_addr = in6addr_loopback;
  const bool there = fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0;
  if (fd >= 0) close(fd);
  if (!there) GTEST_SKIP() << "this machine has no ::1";
  start({{"listen", "[::1]:0"}});
  Child peer;
  ASSERT_TRUE(peer.start(GetParam(), "peer", {{"listen", "[::1]:0"}})) << peer.first_line;
  EXPECT_EQ(peer.address.rfind("[::1]:", 0), 0u) << peer.address;
  const SegmentHandle to = open(peer);
  EXPECT_TRUE(here_.move(TransferOp::kWrite, to, 0, 1 << 20));
  EXPECT_TRUE(peer.holds(0, 1 << 20, here_.at(0)));
  EXPECT_EQ(peer.ask("dial " + here_.address), "ok");
}

TEST_P(AddressTest, NodesThatAreNotThere) {
  start({{"connect-timeout-ms", "2000"}});
  SegmentHandle to{};
  for (const char* node : {"no-such-host.invalid:7000", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:70000", "1:2:3:4", ""}) {
    const double began = now_seconds();
    const Status s = here_.engine->open_segment(node, "pool", &to);
    EXPECT_FALSE(s.ok()) << node;
    EXPECT_TRUE(one_line(s)) << node << ": " << s.describe();
    EXPECT_LE(now_seconds() - began, 12) << node;
  }
  // Refused, then the server comes up: the second call works, with no restart of this node.
  const std::string address = free_address();
  const Status refused = here_.engine->open_segment(address, "pool", &to);
  EXPECT_EQ(refused.code(), Code::kPeerDead) << refused.describe();
  EXPECT_NE(refused.text().find(address), std::string::npos) << refused.text();
  Child peer;
  ASSERT_TRUE(peer.start(GetParam(), "peer", {{"listen", address}})) << peer.first_line;
  EXPECT_TRUE(here_.move(TransferOp::kWrite, open(address), 0, 1 << 20));
  const Status unknown = here_.engine->open_segment(address, "no-such-segment", &to);
  EXPECT_EQ(unknown.code(), Code::kNotFound) << unknown.describe();
  EXPECT_NE(unknown.text().find("no-such-segment"), std::string::npos) << unknown.text();
}

TEST_P(AddressTest, WrongTransportIsRefusedByBothNames) {
  start();
  Child peer;
  ASSERT_TRUE(peer.start(kLoop, "peer")) << peer.first_line;
  SegmentHandle to{};
  const Status s = here_.engine->open_segment(peer.address, "pool", &to);
  EXPECT_EQ(s.code(), Code::kPeerRefused) << s.describe();
  EXPECT_TRUE(one_line(s)) << s.describe();
  EXPECT_NE(s.text().find("transport"), std::string::npos) << s.text();
}

TEST_P(AddressTest, SecretsMustAgree) {
  start({{"secret", "open sesame"}});
  Child wrong, none, right;
  ASSERT_TRUE(wrong.start(GetParam(), "wrong", {{"secret", "close sesame"}})) << wrong.first_line;
  ASSERT_TRUE(none.start(GetParam(), "none")) << none.first_line;
  ASSERT_TRUE(right.start(GetParam(), "right", {{"secret", "open sesame"}})) << right.first_line;
  SegmentHandle to{};
  for (const Child* peer : {&wrong, &none}) {
    const Status s = here_.engine->open_segment(peer->address, "pool", &to);
    EXPECT_EQ(s.code(), Code::kPeerRefused) << s.describe();
    EXPECT_NE(s.text().find("secret"), std::string::npos) << s.text();
    EXPECT_EQ(s.text().find("sesame"), std::string::npos) << "the secret is printed";
  }
  EXPECT_NE(wrong.ask("dial " + here_.address), "ok");
  EXPECT_TRUE(here_.move(TransferOp::kWrite, open(right), 0, 1 << 20));
}

INSTANTIATE_TEST_SUITE_P(Func, AddressTest, ::testing::Values(kRxm), wire_name);

}  // namespace
}  // namespace sluice::func
