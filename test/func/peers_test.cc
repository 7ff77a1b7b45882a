// What each further peer costs a node in memory.
#include <atomic>
#include <cstdio>
#include <thread>

#include "engine/data_plane.h"
#include "env/node_settings.h"
#include "wires.h"

namespace sluice::func {
namespace {

class PeersTest : public Wires {};

// A node of this process that has moved something to and from the one that is measured. The test turns it.
class Visitor {
 public:
  void visit(const Wire& wire, const std::string& name, const std::string& address) {
    Settings settings({node_rows()});
    NodeSettings node;
    std::string help;
    const Options small{{"rx-slots", "4"}, {"rx-slots-min", "4"}, {"tx-slots", "4"}, {"port-ring", "64"}};
    ASSERT_TRUE(load_node_settings("func", "", words_of(wire, name, small), &settings, &node, &help).ok());
    RunOptions run;
    run.own_lcores = false;
    ASSERT_TRUE(Engine::start(node, run, &engine_).ok());
    ManagedBuffer memory;
    ASSERT_TRUE(engine_->allocate_buffer(kBytes, &memory).ok());
    SegmentHandle to{};
    const Status s = engine_->open_segment(address, "pool", &to);
    ASSERT_TRUE(s.ok()) << s.describe();
    ASSERT_TRUE(engine_->open_port(&port_).ok());
    for (const TransferOp op : {TransferOp::kWrite, TransferOp::kRead}) {
      BatchHandle batch;
      ASSERT_EQ(port_->allocate_batch(1, &batch), Code::kOk);
      const Request r{op, 0, memory.addr, to, 0, kBytes};
      ASSERT_EQ(port_->submit(batch, {&r, 1}), Code::kOk);
      ASSERT_EQ(port_->attach_notify(batch, to, "n", "m"), Code::kOk);
      BatchStatus status;
      ASSERT_TRUE(wait_for(20, [&] {
        (void)engine_->progress();
        (void)port_->poll();
        return port_->status(batch, &status) == Code::kOk && status.final;
      }));
      ASSERT_TRUE(status.ok());
    }
  }
  uint32_t turn() { return engine_ == nullptr ? 0 : engine_->progress(); }

 private:
  static constexpr uint64_t kBytes = 64 << 10;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Port> port_;
};

TEST_P(PeersTest, EachFurtherPeerTakesLittleMemory) {
  constexpr uint32_t kFirst = 8, kMore = 32;  // control slots come for 8 sessions at once
  constexpr uint64_t kCtrlSlot = 4096 + 128;  // with the mempool's header
  constexpr uint64_t kLimit = 64 << 10;       // besides control slots
  Child node;
  const Options fixed{{"max-peers", "64"}, {"rx-slots", "128"}, {"rx-slots-min", "128"}, {"rx-slots-max", "128"}};
  ASSERT_TRUE(node.start(GetParam(), "measured", fixed)) << node.first_line;
  std::vector<Visitor> visitors(kFirst + kMore);
  uint64_t before = 0;
  for (uint32_t i = 0; i < visitors.size(); ++i) {
    if (i == kFirst) before = node.private_bytes();
    std::atomic<bool> done{false};
    std::thread others([&] {  // a call of the newest turns only that one
      while (!done.load())
        for (uint32_t k = 0; k < i; ++k) (void)visitors[k].turn();
    });
    visitors[i].visit(GetParam(), "visitor" + std::to_string(i), node.address);
    done = true;
    others.join();
    ASSERT_FALSE(HasFatalFailure()) << i;
  }
  const uint64_t each = (node.private_bytes() - before) / kMore;
  const uint64_t slots = kCtrlSlotsPerSession * kCtrlSlot;
  std::printf("  KiB for each further peer: %.1f, of it control slots %.1f\n", static_cast<double>(each) / 1024,
              static_cast<double>(slots) / 1024);
  EXPECT_LE(each, slots + kLimit);
}

INSTANTIATE_TEST_SUITE_P(Func, PeersTest, ::testing::Values(kLoop), wire_name);

}  // namespace
}  // namespace sluice::func
