// Memory that goes while tasks use it, and batches: refused, cancelled, released too early, released twice.
#include "wires.h"

namespace sluice::func {
namespace {

class MemoryTest : public Wires {};
class BatchTest : public Wires {
 protected:
  /// A peer that can be made to hold tasks for as long as the test likes.
  void start_with(Child* peer) {
    start();
    ASSERT_TRUE(peer->start(GetParam(), "peer", {}, Child::Mode::kTurned)) << peer->first_line;
    to_ = open(*peer);
    ASSERT_TRUE(here_.move(TransferOp::kWrite, to_, 0, 1 << 20));
  }
  SegmentHandle to_{};
};

TEST_P(BatchTest, MemoryInUseIsNotUnregistered) {
  Child peer;
  start_with(&peer);
  ASSERT_EQ(peer.ask("freeze"), "ok");
  static std::byte mine[256 << 10];
  MemoryHandle memory{};
  ASSERT_TRUE(here_.engine->register_memory(mine, sizeof mine, &memory).ok());
  BatchHandle batch{};
  ASSERT_EQ(here_.port->allocate_batch(1, &batch), Code::kOk);
  const Request request{TransferOp::kWrite, 0, mine, to_, 0, sizeof mine};
  ASSERT_EQ(here_.port->submit(batch, {&request, 1}), Code::kOk);
  EXPECT_EQ(here_.engine->unregister_memory(memory).code(), Code::kBusy);
  EXPECT_EQ(here_.port->release(batch), Code::kBusy);
  ASSERT_EQ(peer.ask("thaw"), "ok");
  ASSERT_TRUE(here_.finish(batch));
  EXPECT_TRUE(here_.status(batch).ok()) << "a refused unregister harmed the task";
  EXPECT_EQ(here_.engine->unregister_memory(memory).code(), Code::kOk);
  EXPECT_EQ(here_.engine->unregister_memory(memory).code(), Code::kStale);
  EXPECT_EQ(here_.port->release(batch), Code::kOk);
  ASSERT_EQ(here_.port->allocate_batch(1, &batch), Code::kOk);
  EXPECT_EQ(here_.port->submit(batch, {&request, 1}), Code::kNotRegistered);
  EXPECT_EQ(here_.port->release(batch), Code::kOk);
}

TEST_P(MemoryTest, NothingIsPlacedInAWithdrawnSegment) {
  start();
  Child writer;
  ASSERT_TRUE(writer.start(GetParam(), "writer")) << writer.first_line;
  ASSERT_EQ(writer.ask("dial " + here_.address), "ok");
  ASSERT_EQ(writer.ask("flood"), "started");
  const uint64_t before = here_.engine->stats().bytes_received;
  ASSERT_TRUE(wait_for(20, [&] { return here_.engine->stats().bytes_received > before + 2 * kSegment; }));
  const Status withdrawn = here_.engine->withdraw_segment("pool");
  const std::vector<std::byte> placed(here_.at(0), here_.at(kSegment));
  ASSERT_TRUE(withdrawn.ok()) << withdrawn.describe();
  EXPECT_EQ(writer.receive(), "stale");
  EXPECT_EQ(writer.ask("write 0 100000 9"), "stale") << "later tasks too";
  EXPECT_TRUE(std::equal(placed.begin(), placed.end(), here_.at(0))) << "bytes came after withdraw_segment returned";
  EXPECT_EQ(here_.engine->withdraw_segment("pool").code(), Code::kNotFound);
  ASSERT_TRUE(here_.engine->export_memory("pool", here_.memory.memory).ok());
  ASSERT_EQ(writer.ask("dial " + here_.address), "ok");
  EXPECT_EQ(writer.ask("write 0 100000 9"), "ok");
}

TEST_P(BatchTest, FailuresLeakNothing) {
  Child peer;
  start_with(&peer);
  const std::vector<Request> requests(8, Request{TransferOp::kWrite, 0, here_.at(0), to_, kSegment - 100, 101});
  BatchHandle batch{};
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(here_.port->allocate_batch(8, &batch), Code::kOk) << "batch " << i;
    uint32_t bad = 9;
    ASSERT_EQ(here_.port->submit(batch, requests, &bad), Code::kOutOfRange);
    ASSERT_EQ(bad, 0u);
    ASSERT_EQ(here_.status(batch).tasks, 0u);
    ASSERT_EQ(here_.port->release(batch), Code::kOk);
    ASSERT_EQ(here_.port->release(batch), Code::kStale);
  }
  EXPECT_LT(static_cast<uint32_t>(batch), 4u) << "batches are not taken again";
  EXPECT_EQ(here_.port->open_tasks(), 0u);
  ASSERT_EQ(peer.ask("withdraw"), "ok");
  for (int i = 0; i < 1000; ++i) {
    ASSERT_FALSE(here_.move(TransferOp::kWrite, to_, 0, 40'000, 10'000));
    ASSERT_EQ(here_.last_code, Code::kStale) << i << ": " << code_name(here_.last_code);
  }
  EXPECT_TRUE(wait_for(10, [&] {
    const NodeStats s = here_.engine->stats();
    return s.tasks_open == 0 && s.tx_slots_out == 0;
  }));
  // One-sided, the peer has said that the buffer ends, and submit() refuses.
  EXPECT_EQ(here_.engine->stats().tasks_failed, GetParam().one_sided() ? 0u : 4000u);
  EXPECT_TRUE(here_.engine->unregister_memory(here_.memory.memory).code() == Code::kBusy) << "it is exported";
  ASSERT_TRUE(here_.engine->withdraw_segment("pool").ok());
  EXPECT_TRUE(here_.engine->unregister_memory(here_.memory.memory).ok()) << "some task still counts as using it";
}

TEST_P(BatchTest, CancelInEachState) {
  Child peer;
  start_with(&peer);
  BatchHandle empty{};
  ASSERT_EQ(here_.port->allocate_batch(1, &empty), Code::kOk);
  EXPECT_EQ(here_.port->cancel(empty), Code::kOk);
  EXPECT_EQ(here_.port->release(empty), Code::kOk);
  EXPECT_EQ(here_.port->cancel(empty), Code::kStale);

  const BatchHandle done = here_.submit(TransferOp::kWrite, to_, 0, 4096, 4096);
  ASSERT_TRUE(here_.finish(done));
  EXPECT_EQ(here_.port->cancel(done), Code::kOk);
  EXPECT_TRUE(here_.status(done).ok()) << "what is done stays done";
  EXPECT_EQ(here_.port->release(done), Code::kOk);

  if (std::string_view(GetParam().transport) == "loop") return;  // there the peer takes no part
  // In flight, waiting for credit, and not sent at all: the peer does not turn, so all three are there.
  ASSERT_EQ(peer.ask("freeze"), "ok");
  const BatchHandle open = here_.submit(TransferOp::kWrite, to_, 0, kSegment, 64 << 10);
  ASSERT_EQ(here_.last_code, Code::kOk);
  ASSERT_TRUE(wait_for(10, [&] {  // whichever runs out first: credit, or slots to send from
    here_.port->poll();
    const NodeStats now = here_.engine->stats();
    return now.waits + now.stalls_slot + now.stalls_depth != 0;
  }));
  EXPECT_EQ(here_.port->cancel(open), Code::kOk);
  ASSERT_EQ(peer.ask("thaw"), "ok");
  ASSERT_TRUE(here_.finish(open));
  const BatchStatus s = here_.status(open);
  EXPECT_GT(s.cancelled, 0u);
  EXPECT_EQ(s.done + s.cancelled, s.tasks);
  const std::vector<std::byte> placed = peer.read(0, kSegment);
  fill(here_.at(0), kSegment, 99);  // ours again: nothing of the new bytes may get out
  EXPECT_EQ(here_.port->release(open), Code::kOk);
  EXPECT_TRUE(here_.move(TransferOp::kRead, to_, 0, 4096));  // the lane's queue, behind all that was cancelled
  EXPECT_TRUE(peer.holds(0, kSegment, placed.data())) << "a cancelled task was placed after its end";
  EXPECT_EQ(here_.port->open_tasks(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Func, MemoryTest, ::testing::Values(kRxm, kLoop), wire_name);
INSTANTIATE_TEST_SUITE_P(Func, BatchTest, ::testing::Values(kRxm, kLoop, kRxmOneSided, kLoopOneSided), wire_name);

}  // namespace
}  // namespace sluice::func
