// Hostile peers against a whole node: each breach costs its peer the session, and a healthy peer nothing.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "hostile_peer.h"
#include "wires.h"

namespace sluice::func {
namespace {

// A stranger's socket.
class Stranger {
 public:
  explicit Stranger(const std::string& node) {
    Address to;
    std::vector<SockAddr> targets;
    if (!parse_address(node, AddressUse::kConnect, 0, &to).ok() || !resolve(to, AddressUse::kConnect, &targets).ok())
      return;
    fd_ = ::socket(targets[0].get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(fd_, targets[0].get(), targets[0].length) != 0) ok = false;
  }
  ~Stranger() {
    if (fd_ >= 0) ::close(fd_);
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  bool say(std::string_view bytes) const {
    return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }
  /// Whether the node has closed it.
  bool ended() const {
    char c[512];
    ssize_t got;
    while ((got = ::recv(fd_, c, sizeof c, MSG_DONTWAIT)) > 0) {}
    return got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
  }
  bool ok = true;

 private:
  int fd_ = -1;
};

class HostileTest : public Wires {
 protected:
  struct Health {
    double mib_per_s, us;
  };
  void start_all(const Options& changes = {}) {
    Options options = changes;
    options["lease-ms"] = "2000";
    start(options);
    ASSERT_TRUE(healthy_.start(GetParam(), "healthy", options)) << healthy_.first_line;
    to_ = open(healthy_);
    ASSERT_TRUE(here_.move(TransferOp::kWrite, to_, 0, kSegment, 1 << 20));
    before_ = measure();
  }
  // The best of some rounds, each way: what the node can still do, whatever else the machine does.
  Health measure() {
    Health best{0, 1e9};
    for (int i = 0; i < 5; ++i) {
      double began = now_seconds();
      EXPECT_TRUE(here_.move(i % 2 == 0 ? TransferOp::kWrite : TransferOp::kRead, to_, 0, kSegment, 256 << 10));
      best.mib_per_s = std::max(best.mib_per_s, static_cast<double>(kSegment >> 20) / (now_seconds() - began));
      for (int k = 0; k < 20; ++k) {
        began = now_seconds();
        EXPECT_TRUE(here_.move(TransferOp::kWrite, to_, 0, 4096, 4096));
        best.us = std::min(best.us, (now_seconds() - began) * 1e6);
      }
    }
    return best;
  }
  // The healthy peer is served as before: within a factor that no busy machine reaches and every stall does.
  void expect_healthy(const char* what) {
    const Health after = measure();
    std::printf("  %s: MiB/s %.0f before, %.0f after; us of 4 KiB %.0f before, %.0f after\n", what, before_.mib_per_s,
                after.mib_per_s, before_.us, after.us);
    EXPECT_GE(after.mib_per_s, before_.mib_per_s / 8) << what;
    EXPECT_LE(after.us, before_.us * 8 + 2000) << what;
    fill(here_.at(0), 1 << 20, 77);
    EXPECT_TRUE(here_.move(TransferOp::kWrite, to_, 0, 1 << 20));
    EXPECT_TRUE(healthy_.holds(0, 1 << 20, here_.at(0)));
  }
  std::string provider() const { return here_.engine->transport().provider; }
  using Act = std::function<void(HostilePeer&)>;
  /// A peer with a session (or, with @p opened false, only paths) commits @p act and loses its connection.
  void expect_cut_off(const char* what, const Act& act, bool opened = true) {
    SCOPED_TRACE(what);
    HostilePeer peer;
    const Status joined = peer.join(GetParam(), provider(), here_.address);
    ASSERT_TRUE(joined.ok()) << joined.describe();
    if (opened) {
      ASSERT_TRUE(peer.open_session());
    }
    act(peer);
    EXPECT_TRUE(peer.turn_until(20, [&] { return peer.down; })) << "it kept its session";
    expect_healthy(what);
  }
  /// The same for what can be laid to nobody's charge: it is dropped.
  void expect_ignored(const char* what, const Act& act) {
    SCOPED_TRACE(what);
    HostilePeer peer;
    const Status joined = peer.join(GetParam(), provider(), here_.address);
    ASSERT_TRUE(joined.ok()) << joined.describe();
    ASSERT_TRUE(peer.open_session());
    act(peer);
    expect_healthy(what);
    (void)peer.turn_until(0, [] { return true; });
  }

  Child healthy_;
  SegmentHandle to_{};
  Health before_{};
};

TEST_P(HostileTest, MessagesCostTheirSenderItsSession) {
  start_all();
  const std::vector<std::byte> as_it_was(here_.at(0), here_.at(0) + 4096);
  expect_cut_off(
      "a message without credit", [](HostilePeer& p) { p.send_message(p.message(MsgType::kWrite, 64)); }, false);
  expect_cut_off("more messages than were granted", [](HostilePeer& p) {
    for (uint64_t i = 0; i < 2000 && !p.down; ++i) {  // reads are never answered, since it grants nothing
      MsgHeader h = p.message(MsgType::kReadReq, 1 << 20);
      h.task = TaskId{i};
      p.send_message(h);
    }
  });
  expect_cut_off("totals that lie", [](HostilePeer& p) {
    for (uint64_t total : {1000, 900}) {
      MsgHeader h = p.message(MsgType::kWrite, 64);
      h.total = total;
      p.send_message(h);
    }
  });
  expect_cut_off("more bytes than the total", [](HostilePeer& p) {
    for (int i = 0; i < 3; ++i) {
      MsgHeader h = p.message(MsgType::kWrite, 64);
      h.total = 130;
      p.send_message(h);
    }
  });
  expect_cut_off("an offset that wraps", [](HostilePeer& p) {
    MsgHeader h = p.message(MsgType::kWrite, 64);
    h.offset = UINT64_MAX - 8;
    p.send_message(h);
  });
  expect_cut_off("a number far ahead", [](HostilePeer& p) {
    MsgHeader h = p.message(MsgType::kWrite, 64);
    h.seq = 1u << 20;
    p.send_message(h);
  });
  expect_ignored("another session", [](HostilePeer& p) {
    for (int i = 0; i < 500; ++i) {
      MsgHeader h = p.message(MsgType::kWrite, 64);
      h.session = SessionId{raw(h.session) ^ 1};
      p.send_message(h);
    }
  });
  expect_ignored("messages on the control path", [](HostilePeer& p) {
    for (int i = 0; i < 200; ++i) p.send_message(p.message(MsgType::kWrite, 64), true);
  });
  EXPECT_GE(here_.engine->stats().violations, 6u);
}

TEST_P(HostileTest, FramesCostTheirSenderItsSession) {
  start_all();
  std::array<std::byte, HostilePeer::kFrame> frame;
  expect_cut_off("a window of 2^64-1", [&](HostilePeer& p) {
    CreditGrant g{kMaxGrantEntries, {}};
    for (uint16_t r = 1; r <= kMaxGrantEntries; ++r) g.entries[r - 1u] = {Resource{r}, UINT64_MAX};
    p.send_ctrl(std::span(frame).first(encode_grant(frame, p.header(FrameType::kCreditGrant), g)));
  });
  expect_cut_off("an acknowledgement of what was not sent", [&](HostilePeer& p) {
    FrameHeader h = p.header(FrameType::kCreditRequest);
    h.ack_seq = UINT64_MAX;
    p.send_ctrl(std::span(frame).first(encode_request(frame, h, {true, 1, 1})));
  });
  expect_cut_off("a SESSION_OPEN that is not as offered", [&](HostilePeer& p) {
    const FrameHeader h = p.header(FrameType::kSessionOpen);
    p.send_ctrl(std::span(frame).first(encode_session_open(frame, h, {16, 99})));
  });
  expect_ignored("a flood of opens", [&](HostilePeer& p) {
    for (int i = 0; i < 3000; ++i)
      p.send_ctrl(std::span(frame).first(
          encode_session_open(frame, p.header(FrameType::kSessionOpen), {16, HostilePeer::kSlot})));
  });
  expect_ignored("frames of another session, and on the message path", [&](HostilePeer& p) {
    for (int i = 0; i < 500; ++i) {
      FrameHeader h = p.header(FrameType::kCreditRequest);
      const size_t mine = encode_request(frame, h, {true, 1, 1});
      p.send_data(std::span(frame).first(mine));
      h.session = SessionId{raw(h.session) ^ 1};
      p.send_ctrl(std::span(frame).first(encode_request(frame, h, {true, 1, 1})));
    }
  });
}

TEST_P(HostileTest, StrangersOnTheOutOfBandPort) {
  start_all();
  std::vector<std::unique_ptr<Stranger>> slow;
  for (int i = 0; i < 300; ++i) {
    slow.push_back(std::make_unique<Stranger>(here_.address));
    ASSERT_TRUE(slow.back()->ok);
    (void)slow.back()->say("\x40");  // the first byte of a length, and then one now and then
  }
  expect_healthy("300 slow strangers");
  double next = 0;
  EXPECT_TRUE(wait_for(20, [&] {
    const bool speak = now_seconds() > next;
    if (speak) next = now_seconds() + 0.2;
    size_t left = 0;
    for (const auto& s : slow) {
      if (speak && !s->ended()) (void)s->say(std::string_view("\0", 1));
      left += !s->ended();
    }
    return left == 0;
  })) << "a stranger that never finishes its hello is kept";
  const Stranger garbage(here_.address);
  EXPECT_TRUE(garbage.say("GET / HTTP/1.1\r\n\r\n"));
  EXPECT_TRUE(wait_for(10, [&] { return garbage.ended(); }));
  expect_healthy("garbage before the hello");
}

TEST_P(HostileTest, AWrongSecretIsRefused) {
  start_all({{"secret", "a secret of this test"}});
  HostilePeer wrong, none, right;
  EXPECT_EQ(wrong.join(GetParam(), provider(), here_.address, "another").code(), Code::kPeerRefused);
  EXPECT_EQ(none.join(GetParam(), provider(), here_.address).code(), Code::kPeerRefused);
  expect_healthy("a wrong secret");
  const Status joined = right.join(GetParam(), provider(), here_.address, "a secret of this test");
  EXPECT_TRUE(joined.ok()) << joined.describe();
}

INSTANTIATE_TEST_SUITE_P(Over, HostileTest, ::testing::Values(kRxm, kLoop), wire_name);

}  // namespace
}  // namespace sluice::func
