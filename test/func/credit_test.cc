// Credit at its limits: memory that grows and shrinks under load, a window of one slot, a peer that never grants.
#include <cstring>
#include <thread>

#include "meta/oob.h"
#include "wires.h"

namespace sluice::func {
namespace {

class CreditTest : public Wires {};
class SilentTest : public Wires {};

TEST_P(CreditTest, ShrinksToItsStartWhileATrickleGoesOn) {
  start({{"tx-slots", "128"}});
  Child target;
  ASSERT_TRUE(target.start(GetParam(), "target",
                           {{"rx-slots", "16"},
                            {"rx-slots-min", "16"},
                            {"rx-slots-max", "256"},
                            {"extent-slots", "16"},
                            {"shrink-idle-ms", "40"}}))
      << target.first_line;
  const uint64_t at_start = target.stats()["extents"];
  const SegmentHandle to = open(target);
  auto stats = target.stats();
  ASSERT_TRUE(wait_for(60,
                       [&] {
                         EXPECT_TRUE(here_.move(TransferOp::kWrite, to, 0, kSegment, 1 << 20));
                         stats = target.stats();
                         return stats["extents_max"] > stats["extents_min"] || HasFailure();
                       }))
      << "heavy load did not make it grow: extents " << stats["extents"];
  EXPECT_TRUE(target.holds(0, kSegment, here_.at(0)));
  // A task each 200 ms: memory counts as used for shrink-idle-ms after any message, and a busy peer keeps its credit.
  uint64_t round = 0;
  double next = 0;
  EXPECT_TRUE(wait_for(60,
                       [&] {
                         if (now_seconds() < next) return false;
                         next = now_seconds() + 0.2;
                         const uint64_t offset = ++round % 1000 * 4096;
                         fill(here_.at(offset), 4096, round + 100);
                         EXPECT_TRUE(here_.move(TransferOp::kWrite, to, offset, 4096)) << code_name(here_.last_code);
                         EXPECT_TRUE(target.holds(offset, 4096, here_.at(offset)));
                         stats = target.stats();
                         return stats["extents"] == at_start || HasFailure();
                       }))
      << "extents " << stats["extents"] << ", at the start " << at_start << ", most " << stats["extents_max"];
  EXPECT_TRUE(target.holds(0, kSegment, here_.at(0)));
  EXPECT_TRUE(here_.move(TransferOp::kWrite, to, 0, kSegment, 1 << 20));  // and it still takes a load
}

TEST_P(CreditTest, AWindowOfOneSlot) {
  const Options one{{"rx-slots", "1"},     {"rx-slots-min", "1"},  {"rx-slots-max", "1"},
                    {"extent-slots", "1"}, {"session-floor", "1"}, {"slot-size", "4k"}};
  start(one);
  Child peer;
  ASSERT_TRUE(peer.start(GetParam(), "peer", one)) << peer.first_line;
  const SegmentHandle to = open(peer);
  constexpr uint64_t kLength = 1 << 20;
  ASSERT_TRUE(here_.move(TransferOp::kWrite, to, 0, kLength, kLength, 60)) << code_name(here_.last_code);
  EXPECT_TRUE(peer.holds(0, kLength, here_.at(0)));
  std::memset(here_.at(0), 0, kLength);
  ASSERT_TRUE(here_.move(TransferOp::kRead, to, 0, kLength, kLength, 60)) << code_name(here_.last_code);
  EXPECT_TRUE(peer.holds(0, kLength, here_.at(0)));
  EXPECT_GT(here_.engine->stats().waits, 0u);
}

// Its sockets live, its agents are not turned: what it granted is used up, and nothing more ever comes.
TEST_P(SilentTest, TasksEndWithTimeout) {
  constexpr double kTimeout = 1.0, kLease = 2.0, kMargin = 0.25;
  start({{"task-timeout-ms", "1000"}, {"lease-ms", "2000"}, {"tx-slots", "512"}});
  Child peer;
  ASSERT_TRUE(peer.start(GetParam(), "peer", {}, Child::Mode::kTurned)) << peer.first_line;
  const SegmentHandle to = open(peer);
  ASSERT_TRUE(here_.move(TransferOp::kWrite, to, 0, 1 << 20)) << code_name(here_.last_code);
  ASSERT_EQ(peer.ask("freeze"), "ok");
  const double frozen = now_seconds();
  const BatchHandle batch = here_.submit(TransferOp::kWrite, to, 0, kSegment, 1 << 20);
  ASSERT_EQ(here_.last_code, Code::kOk);
  bool waiting = false;
  EXPECT_TRUE(wait_for(10, [&] {
    here_.port->poll();
    TaskStatus task;
    for (uint32_t i = 0; i < 16; ++i)
      waiting |= here_.port->status(batch, i, &task) == Code::kOk && task.state == TaskState::kWaiting;
    return waiting || here_.status(batch).final;
  }));
  EXPECT_TRUE(waiting) << "no task was WAITING";
  ASSERT_TRUE(here_.finish(batch, 20)) << "tasks of a silent peer hang";
  const double took = now_seconds() - frozen;
  std::printf("  seconds until FAILED, task timeout 1 s: %.3f\n", took);
  EXPECT_LE(took, kTimeout + kLease + kMargin + 1) << "task timeout, then the lease";
  EXPECT_EQ(here_.status(batch).failed, here_.status(batch).tasks);
  for (const Code code : here_.failures(batch)) EXPECT_EQ(code, Code::kTimeout) << code_name(code);
  EXPECT_EQ(here_.port->release(batch), Code::kOk);
}

TEST_P(SilentTest, OpenEndsWithinTheConnectTimeout) {
  start({{"connect-timeout-ms", "700"}});
  Child peer;
  ASSERT_TRUE(peer.start(GetParam(), "peer", {}, Child::Mode::kTurned)) << peer.first_line;
  ASSERT_EQ(peer.ask("freeze"), "ok");
  const double began = now_seconds();
  SegmentHandle to{};
  const Status s = here_.engine->open_segment(peer.address, "pool", &to);
  EXPECT_EQ(s.code(), Code::kTimeout) << s.describe();
  EXPECT_NE(s.text().find(peer.address), std::string::npos) << s.text();
  EXPECT_LE(now_seconds() - began, 2.0);
  ASSERT_EQ(peer.ask("thaw"), "ok");  // it was only slow: the next call finds it
  EXPECT_TRUE(wait_for(20, [&] { return here_.engine->open_segment(peer.address, "pool", &to).ok(); }));
  EXPECT_TRUE(here_.move(TransferOp::kWrite, to, 0, 1 << 20));
}

// Its connection lives, and nothing that is sent to it is ever taken: what others are told must not wait behind that.
TEST_P(SilentTest, OneThatTakesNothingStopsNoOther) {
  start({{"connect-timeout-ms", "1500"}});
  Child mute, healthy;
  ASSERT_TRUE(mute.start(GetParam(), "mute", {}, Child::Mode::kTurned)) << mute.first_line;
  ASSERT_TRUE(healthy.start(GetParam(), "healthy", {})) << healthy.first_line;
  const SegmentHandle to = open(healthy);
  ASSERT_EQ(mute.ask("freeze"), "ok");
  Status opened;
  std::atomic<bool> ended{false};
  std::thread dial([&] {
    SegmentHandle unused{};
    opened = here_.engine->open_segment(mute.address, "pool", &unused);
    ended.store(true);
  });
  double longest = 0;
  while (!ended.load()) {
    for (const TransferOp op : {TransferOp::kWrite, TransferOp::kRead}) {
      const double began = now_seconds();
      EXPECT_TRUE(here_.move(op, to, 0, 4 << 20, 64 << 10)) << code_name(here_.last_code);
      longest = std::max(longest, now_seconds() - began);
    }
  }
  dial.join();
  EXPECT_EQ(opened.code(), Code::kTimeout) << opened.describe();
  EXPECT_LE(longest, 1.0) << "seconds for 4 MiB";
  EXPECT_TRUE(wait_for(10, [&] { return here_.engine->stats().peers == 1; }));
  ASSERT_EQ(mute.ask("thaw"), "ok");
  SegmentHandle again{};
  EXPECT_TRUE(wait_for(20, [&] { return here_.engine->open_segment(mute.address, "pool", &again).ok(); }));
  EXPECT_TRUE(here_.move(TransferOp::kWrite, again, 0, 1 << 20));
}

// A peer that says hello, and welcome, and then nothing at all.
class Mute final : public OobEvents {
 public:
  void on_up(OobPeer, const Hello&, uint64_t) override {}
  void on_lease(OobPeer, uint64_t) override {}
  void on_down(OobPeer, const Status&, uint64_t) override {}
  void on_dialed(DialId, const Status&, OobPeer) override {}
  void on_offer(OobPeer, const PathOffer&) override {}
  void on_answer(OobPeer, const PathAnswer&) override {}
  void on_segment_query(OobPeer, const SegmentQuery&) override {}
  void on_segment_reply(OobPeer, const SegmentReply&) override {}
};

TEST_P(SilentTest, APeerWithoutPaths) {
  start({{"connect-timeout-ms", "700"}});
  for (const uint64_t incarnation : {uint64_t{1}, UINT64_MAX}) {  // we offer, and it does not answer; it should offer
    Mute events;
    OobConfig config;
    config.hello.name = "mute";
    config.hello.incarnation = Incarnation{incarnation};
    config.hello.transport = GetParam().transport;
    config.hello.provider = here_.engine->transport().provider;
    config.hello.lease_ms = 2000;
    OobNode node(config, &events);
    ASSERT_TRUE(node.open().ok());
    Address address;
    ASSERT_TRUE(parse_address("127.0.0.1:0", AddressUse::kListen, 0, &address).ok());
    ASSERT_TRUE(node.listen(address).ok());
    std::atomic<bool> end{false};
    std::thread turner([&] {
      while (!end.load()) (void)node.turn(10);
    });
    const double began = now_seconds();
    SegmentHandle to{};
    const Status s = here_.engine->open_segment(format_address(node.listening()), "pool", &to);
    EXPECT_EQ(s.code(), Code::kTimeout) << s.describe();
    EXPECT_NE(s.text().find("paths"), std::string::npos) << s.text();
    EXPECT_LE(now_seconds() - began, 2.0);
    end = true;
    turner.join();
  }
}

INSTANTIATE_TEST_SUITE_P(Func, CreditTest, ::testing::Values(kRxm, kShm, kLoop), wire_name);
INSTANTIATE_TEST_SUITE_P(Verbs, CreditTest, ::testing::ValuesIn(in_machine({kRailA, kRailB})), wire_name);
INSTANTIATE_TEST_SUITE_P(Func, SilentTest, ::testing::Values(kRxm, kLoop), wire_name);

}  // namespace
}  // namespace sluice::func
