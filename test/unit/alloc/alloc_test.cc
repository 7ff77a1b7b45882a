// Slow calls whose n-th allocation fails, for every n: each says "no memory", leaves nothing behind, and works when it
// is called again. Over loop; the allocations are those of the calling thread.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <functional>
#include <thread>

#include "../engine/two_nodes.h"
#include "failing_heap.h"
#include "mem/bounce_pool.h"

namespace sluice::test {
namespace {

// @p call with each of its allocations failing in turn; @p undo after it succeeded. A table may keep room that it grew
// to, so that what counts is the second failure at the same place. @p elsewhere: blocks that another thread frees.
void fail_each(const char* what, const std::function<Status()>& call, const std::function<void()>& undo,
               int64_t elsewhere = 0, uint64_t last = UINT64_MAX) {
  ASSERT_TRUE(call().ok());
  undo();
  uint64_t n = 1;
  for (; n <= last; ++n) {
    SCOPED_TRACE(std::string(what) + ": allocation " + std::to_string(n));
    ASSERT_LT(n, 100'000u);
    Tally tally{};
    for (int again = 0; again < 2; ++again) {
      arm(n);
      const Code code = call().code();  // the text is gone before what is left is counted
      tally = disarm();
      if (!tally.failed) {
        ASSERT_EQ(code, Code::kOk);
        undo();
        last = 0;
        break;
      }
      if (code == Code::kOk) {  // it did without
        undo();
        tally.left = 0;
        continue;
      }
      EXPECT_EQ(code, Code::kNoMemory) << code_name(code);
    }
    EXPECT_TRUE(last == 0 || tally.left <= elsewhere) << tally.left;
    if (::testing::Test::HasFailure()) return;
  }
  std::printf("  %s: %lu allocations\n", what, static_cast<unsigned long>(last == 0 ? n - 2 : n - 1));
}

class Alloc : public ::testing::Test {
 protected:
  void SetUp() override {
    for (OneNode* n : {&a_, &b_}) {
      const Status s = n->start(small_settings(n == &a_ ? "a" : "b"), 1 << 16);
      ASSERT_TRUE(s.ok()) << s.describe();
    }
    turner_ = std::thread([this] {
      while (!over_.load()) (void)b_.engine->progress();
    });
  }
  void TearDown() override {
    if (a_.engine != nullptr) (void)a_.engine->stop(1000).ok();
    over_ = true;
    if (turner_.joinable()) turner_.join();
    if (b_.engine != nullptr) (void)b_.engine->stop(1000).ok();
  }
  OneNode a_, b_;
  std::atomic<bool> over_{false};
  std::thread turner_;
};

TEST_F(Alloc, RegisterMemory) {
  alignas(4096) static std::array<std::byte, 1 << 16> mine;
  MemoryHandle handle{};
  fail_each(
      "register_memory", [&] { return a_.engine->register_memory(mine.data(), mine.size(), &handle); },
      [&] { EXPECT_TRUE(a_.engine->unregister_memory(handle).ok()); });
}

TEST_F(Alloc, AllocateBuffer) {
  ManagedBuffer buffer;
  fail_each(
      "allocate_buffer", [&] { return a_.engine->allocate_buffer(1 << 16, &buffer); },
      [&] { EXPECT_TRUE(a_.engine->unregister_memory(buffer.memory).ok()); });
}

TEST_F(Alloc, ExportAndWithdraw) {
  const std::string name = "a name that is too long to lie inside a string";
  fail_each(
      "export_memory", [&] { return a_.engine->export_memory(name, a_.memory.memory); },
      [&] { EXPECT_TRUE(a_.engine->withdraw_segment(name).ok()); });
}

TEST_F(Alloc, OpenPort) {
  std::unique_ptr<Port> port;
  fail_each(
      "open_port", [&] { return a_.engine->open_port(&port); }, [&] { port.reset(); });
}

TEST_F(Alloc, OpenSegment) {
  SegmentHandle segment{};
  fail_each(
      "open_segment", [&] { return a_.engine->open_segment(b_.address, "pool", &segment); },
      [&] { EXPECT_TRUE(a_.engine->close_segment(segment).ok()); });
  SegmentInfo info;
  ASSERT_TRUE(a_.engine->open_segment(b_.address, "pool", &segment).ok());
  fail_each(
      "segment_info", [&] { return info = {}, a_.engine->segment_info(segment, &info); }, [&] { info = {}; });
}

// Up to the first JSON text: nlohmann's values allocate when they are destroyed, where nobody can catch it.
TEST_F(Alloc, Start) {
  const NodeSettings settings = small_settings("c");
  std::unique_ptr<Engine> engine;
  RunOptions run;
  run.own_lcores = false;
  arm(0);
  const Code refused = Engine::start(small_settings("\n"), run, &engine).code();  // by its name, just before
  const Tally before_json = disarm();
  ASSERT_EQ(refused, Code::kBadArgument);
  fail_each(
      "start", [&] { return Engine::start(settings, run, &engine); },
      [&] {
        EXPECT_TRUE(engine->stop(0).ok());
        engine.reset();
      },
      2, before_json.allocations - 8);  // a few are of the refusal itself; 2: what its thread would free
}

// What the service thread does when a pool grows.
TEST_F(Alloc, GrowExtent) {
  BouncePool pool(4096, uint16_t{0});
  fail_each(
      "extent",
      [&] {
        std::unique_ptr<Extent> extent;
        try {
          return Extent::make(RegionKind::kPlain, "alloc_test", 16, 4096, &extent);
        } catch (const std::bad_alloc&) {
          return Status(Code::kNoMemory);
        }
      },
      [] {});
}

}  // namespace
}  // namespace sluice::test
