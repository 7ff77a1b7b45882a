// A node that comes back: under the same name and port, and as a sender that dies fifty times.
#include <signal.h>

#include <filesystem>
#include <random>

#include "wires.h"

namespace sluice::func {
namespace {

class RestartTest : public Wires {};
class SenderTest : public Wires {};

TEST_P(RestartTest, SameNameAndPortIsANewLife) {
  start();
  Child peer;
  ASSERT_TRUE(peer.start(GetParam(), "peer")) << peer.first_line;
  const std::string address = peer.address;
  for (int life = 0; life < 4; ++life) {
    const SegmentHandle old = open(address);
    ASSERT_TRUE(here_.move(TransferOp::kWrite, old, 0, 1 << 20));
    if (life % 2 == 0)
      peer.kill();
    else
      EXPECT_EQ(peer.quit(), 0);
    ASSERT_TRUE(peer.start(GetParam(), "peer", {{"listen", address}})) << peer.first_line;
    ASSERT_EQ(peer.address, address);
    // At once: whether or not the death was noticed, the address leads to the new life.
    SegmentHandle fresh{};
    const Status s = here_.engine->open_segment(address, "pool", &fresh);
    ASSERT_TRUE(s.ok()) << s.describe();
    EXPECT_FALSE(here_.move(TransferOp::kWrite, old, 0, 4096));
    EXPECT_TRUE(here_.last_code == Code::kPeerDead || here_.last_code == Code::kStale) << code_name(here_.last_code);
    fill(here_.at(0), kSegment, static_cast<uint64_t>(life) + 10);
    EXPECT_TRUE(here_.move(TransferOp::kWrite, fresh, 0, kSegment)) << code_name(here_.last_code);
    EXPECT_TRUE(peer.holds(0, kSegment, here_.at(0)));
  }
}

// What a peer has begun is brought to its end before a node that is told to stop leaves.
TEST_P(RestartTest, ANodeThatStopsFinishesWhatPeersHaveBegun) {
  start();
  for (const TransferOp op : {TransferOp::kWrite, TransferOp::kRead}) {
    Child peer;
    ASSERT_TRUE(peer.start(GetParam(), "peer")) << peer.first_line;
    const SegmentHandle to = open(peer);
    const NodeStats before = here_.engine->stats();
    const BatchHandle batch = here_.submit(op, to, 0, kSegment, kSegment, 8);  // tasks of many messages, all begun
    ASSERT_TRUE(wait_for(20, [&] {
      const NodeStats now = here_.engine->stats();
      return now.bytes_sent + now.bytes_received - before.bytes_sent - before.bytes_received > 4 << 20;
    }));
    EXPECT_EQ(peer.quit(), 0);
    ASSERT_TRUE(here_.finish(batch));
    EXPECT_EQ(here_.status(batch).done, here_.status(batch).tasks) << "they were cut off";
    EXPECT_EQ(here_.port->release(batch), Code::kOk);
  }
}

// What lies in /dev/shm, but for EAL's and other programs' files.
size_t shared_files() {
  size_t count = 0;
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = file.path().filename();
    count += name.starts_with("sluice") || name.starts_with("fi_shm") ? 1 : 0;
  }
  return count;
}

// Only the sender dies, each time somewhere between its start and its thousandth message.
TEST_P(SenderTest, FiftyDeathsLeaveTheTargetAsItWas) {
  constexpr int kLives = 50;
  start();
  const auto life = [&](Child* sender) {
    ASSERT_TRUE(sender->start(GetParam(), "sender")) << sender->first_line;
    ASSERT_EQ(sender->ask("dial " + here_.address), "ok");
    ASSERT_EQ(sender->ask("flood"), "started");
  };
  const auto ended = [&] {
    return wait_for(15, [&] {
      const NodeStats s = here_.engine->stats();
      return s.peers == 0 && s.lanes == 0 && s.tx_slots_out == 0 && s.tasks_open == 0;
    });
  };
  {  // what the first peer makes stays; it is the baseline
    Child first;
    life(&first);
    first.kill();
    ASSERT_TRUE(ended());
  }
  const size_t fds = open_fds(), shared = shared_files();
  std::mt19937 random(20);
  for (int i = 0; i < kLives; ++i) {
    Child sender;
    life(&sender);
    if (HasFatalFailure()) FAIL() << "life " << i;
    const double until = now_seconds() + static_cast<double>(random() % 50) * 0.001;
    (void)wait_for(1, [&] { return now_seconds() >= until; });
    sender.kill();
  }
  const bool home = ended();
  const NodeStats s = here_.engine->stats();
  EXPECT_TRUE(home) << "peers " << s.peers << ", lanes " << s.lanes << ", slots out " << s.tx_slots_out;
  EXPECT_TRUE(wait_for(10, [&] { return open_fds() <= fds; })) << open_fds() << " files, before " << fds;
  EXPECT_TRUE(wait_for(10, [&] { return shared_files() <= shared; }))
      << shared_files() << " files in /dev/shm, before " << shared;
  Child last;
  ASSERT_TRUE(last.start(GetParam(), "last")) << last.first_line;
  ASSERT_EQ(last.ask("dial " + here_.address), "ok");
  EXPECT_EQ(last.ask("write 0 4000000 7"), "ok");
  EXPECT_TRUE(last.holds(0, 4'000'000, here_.at(0)));
  EXPECT_EQ(last.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Func, RestartTest, ::testing::Values(kRxm, kShm, kLoop, kRxmOneSided), wire_name);
INSTANTIATE_TEST_SUITE_P(Verbs, RestartTest, ::testing::ValuesIn(in_machine({kRailA, kRailAOneSided})), wire_name);
// Not shm: a sender killed while it holds a lock of libfabric's in shared memory makes our next poll spin for ever
// (drivers/fabric/queue.h), and one of fifty does.
INSTANTIATE_TEST_SUITE_P(Func, SenderTest, ::testing::Values(kRxm), wire_name);

}  // namespace
}  // namespace sluice::func
