// Real queue pairs: links that go and come, packets that are lost, ends that differ. Only in the machine of
// usertools/sluice-vm.sh, where links may be taken down.
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "wires.h"

namespace sluice::func {
namespace {

class RailTest : public Wires {
 protected:
  void start_with(Child* peer, const Options& here = {}, const Options& there = {}) {
    start(here);
    ASSERT_TRUE(peer->start(GetParam(), "peer", there)) << peer->first_line;
    to_ = open(*peer);
  }
  /// Run an administrator's command. "%" in it is this node's network device.
  void run(std::string command) {
    const size_t at = command.find('%');
    if (at != std::string::npos) command.replace(at, 1, std::strrchr(GetParam().device, '_') + 1);
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }
  /// Both directions, in messages of many packets, more than a window holds.
  void expect_transfers(Child& peer, uint64_t length, uint64_t seed) {
    fill(here_.at(0), length, seed);
    ASSERT_TRUE(here_.move(TransferOp::kWrite, to_, 0, length, 512 << 10, 60)) << code_name(here_.last_code);
    EXPECT_TRUE(peer.holds(0, length, here_.at(0)));
    std::memset(here_.at(0), 0, length);
    ASSERT_TRUE(here_.move(TransferOp::kRead, to_, 0, length, 512 << 10, 60)) << code_name(here_.last_code);
    EXPECT_TRUE(peer.holds(0, length, here_.at(0)));
  }
  /// How often a message found no receive, by the devices' own counters.
  static uint64_t without_receive() {
    uint64_t sum = 0;
    for (const char* device : {GetParam().device, GetParam().peer_device})
      for (const char* counter : {"send_rnr_err", "rcvd_rnr_err"}) {
        std::ifstream file(std::string("/sys/class/infiniband/") + device + "/ports/1/hw_counters/" + counter);
        uint64_t value = 0;
        EXPECT_TRUE(file >> value) << device << " " << counter;
        sum += value;
      }
    return sum;
  }
  SegmentHandle to_{};
};

TEST_P(RailTest, ReadsBackWhatIsUsed) {
  Child peer;
  start_with(&peer);
  const TransportInfo info = here_.engine->transport();
  EXPECT_EQ(info.transport, "rdma_twosided");
  EXPECT_EQ(info.device, GetParam().device);
  EXPECT_EQ(info.device_address.substr(0, 5), "10.0.") << info.device_address;
  expect_transfers(peer, 3 << 20, 1);
}

// A small window, many messages, both directions and notifies: credit keeps receives ahead of what is sent.
TEST_P(RailTest, NoMessageMeetsAQueueWithoutReceives) {
  const uint64_t before = without_receive();
  const Options few{{"rx-slots", "4"},     {"rx-slots-min", "4"},  {"rx-slots-max", "4"},
                    {"extent-slots", "4"}, {"session-floor", "1"}, {"slot-size", "4k"}};
  Child peer;
  start_with(&peer, few, few);
  expect_transfers(peer, 1 << 20, 7);
  EXPECT_GT(here_.engine->stats().waits, 0u) << "credit was never short";
  for (int i = 0; i < 100; ++i)
    EXPECT_TRUE(wait_for(10, [&] { return here_.engine->send_notify(to_, "n", "x").code() != Code::kAgain; }));
  EXPECT_TRUE(here_.move(TransferOp::kWrite, to_, 0, 4096));
  EXPECT_EQ(without_receive(), before);
}

TEST_P(RailTest, EndsWithDifferentMtuTakeTheSmaller) {
  Child peer;
  start_with(&peer, {{"rdma-mtu", "1024"}}, {{"rdma-mtu", "4096"}});
  expect_transfers(peer, 1 << 20, 2);
}

TEST_P(RailTest, LostPacketsAreSentAgain) {
  Child peer;
  start_with(&peer);
  run("tc qdisc add dev % root netem loss 1%");
  expect_transfers(peer, 1 << 20, 3);
  run("tc qdisc del dev % root");
}

// A short fault is the hardware's to mend: acknowledgements are waited for longer than that.
TEST_P(RailTest, ALinkThatIsGoneForAMomentCostsNothing) {
  Child peer;
  start_with(&peer, {{"ack-timeout", "18"}}, {{"ack-timeout", "18"}});
  expect_transfers(peer, 1 << 20, 4);
  const BatchHandle batch = here_.submit(TransferOp::kWrite, to_, 0, 2 << 20, 256 << 10);
  ASSERT_TRUE(begun(batch));
  run("tc qdisc add dev % root netem loss 100%");
  const double until = now_seconds() + 0.5;
  EXPECT_TRUE(wait_for(10, [&] { return now_seconds() > until; }));
  run("tc qdisc del dev % root");
  ASSERT_TRUE(here_.finish(batch, 60));
  EXPECT_TRUE(here_.status(batch).ok()) << "a moment without packets ended tasks";
  EXPECT_EQ(here_.port->release(batch), Code::kOk);
  EXPECT_TRUE(peer.holds(0, 2 << 20, here_.at(0)));
}

// A long one ends the paths, and every task; once the link is back the next open finds the peer again.
TEST_P(RailTest, ALinkThatGoesDownEndsItsTasksAndComesBack) {
  Child peer;
  const Options quick{{"ack-timeout", "12"}, {"ack-retries", "3"}};
  start_with(&peer, quick, quick);
  expect_transfers(peer, 1 << 20, 5);
  const BatchHandle batch = here_.submit(TransferOp::kWrite, to_, 0, 8 << 20, 1 << 20, 40);
  ASSERT_TRUE(begun(batch));
  run("ip link set % down");
  EXPECT_TRUE(here_.finish(batch, 30)) << "tasks over a dead link hang";
  EXPECT_GT(here_.status(batch).failed, 0u);
  EXPECT_EQ(here_.port->release(batch), Code::kOk);
  run("ip link set % up");
  run("ip -force -batch /run/rails >/dev/null 2>&1; true");  // routes and neighbours, which went with the link
  EXPECT_TRUE(wait_for(30, [&] {  // a path that was idle in between is found broken by its first use
    return here_.engine->open_segment(peer.address, "pool", &to_).ok() && here_.move(TransferOp::kWrite, to_, 0, 4096);
  }));
  expect_transfers(peer, 1 << 20, 6);
  EXPECT_TRUE(wait_for(10, [&] { return here_.engine->stats().tx_slots_out == 0; })) << "slots did not come home";
}

INSTANTIATE_TEST_SUITE_P(Verbs, RailTest, ::testing::ValuesIn(in_machine({kRailA, kRailB})), wire_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RailTest);

}  // namespace
}  // namespace sluice::func
