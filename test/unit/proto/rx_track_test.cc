#include "proto/rx_track.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

namespace sluice {
namespace {

static_assert(sizeof(SeqWindow) == SeqWindow::kSpan / 8 + 8);
static_assert(sizeof(RxTasks) <= RxTasks::kMaxTasks * 40 + 8);

TEST(SeqWindow, InOrderThenRepeated) {
  SeqWindow window;
  for (uint32_t seq = 1; seq <= 10000; ++seq) {
    ASSERT_EQ(window.take(seq), Code::kOk);
    ASSERT_EQ(window.take(seq), Code::kExists);
  }
  EXPECT_EQ(window.take(1), Code::kExists) << "older than the window";
  EXPECT_EQ(window.take(0), Code::kExists);
  window.reset();
  EXPECT_EQ(window.take(1), Code::kOk);
}

TEST(SeqWindow, FarAheadIsThePeersFault) {
  SeqWindow window;
  EXPECT_EQ(window.take(1 + SeqWindow::kSpan), Code::kBadFrame);
  EXPECT_EQ(window.take(SeqWindow::kSpan), Code::kOk);
  EXPECT_EQ(window.take(SeqWindow::kSpan), Code::kExists);
  EXPECT_EQ(window.take(1), Code::kOk);
  EXPECT_EQ(window.take(1 + SeqWindow::kSpan), Code::kOk);
  EXPECT_EQ(window.take(3 + SeqWindow::kSpan), Code::kBadFrame) << "2 is still missing";
  EXPECT_EQ(window.take(2 + (1u << 31)), Code::kExists) << "half of the numbers away counts as old";
  EXPECT_EQ(window.take(1 + (1u << 31)), Code::kBadFrame);
}

// Numbers that wrap while others are still missing are told apart.
TEST(SeqWindow, WrapsAtTwoToTheThirtyTwo) {
  SeqWindow window;
  window.reset(0xFFFFFFF0);
  for (uint32_t i = 1; i < 32; ++i) ASSERT_EQ(window.take(0xFFFFFFF0 + i), Code::kOk);
  for (uint32_t i = 1; i < 32; ++i) ASSERT_EQ(window.take(0xFFFFFFF0 + i), Code::kExists);
  ASSERT_EQ(window.take(0xFFFFFFF0), Code::kOk);
  ASSERT_EQ(window.take(0x0F), Code::kExists);
  ASSERT_EQ(window.take(0x10), Code::kOk);
}

TEST(SeqWindow, AgreesWithASetUnderReorderAndRepeat) {
  std::mt19937 rng(7);
  for (int round = 0; round < 20; ++round) {
    const auto first = static_cast<uint32_t>(rng());
    SeqWindow window;
    window.reset(first);
    std::set<uint32_t> taken;
    uint32_t missing = 0;  // offset of the lowest number not taken
    for (int step = 0; step < 20000; ++step) {
      const uint32_t at = missing + static_cast<uint32_t>(rng() % (step % 7 == 0 ? 5000 : 40));
      const Code code = window.take(first + at);
      if (at - missing >= SeqWindow::kSpan) {
        ASSERT_EQ(code, Code::kBadFrame);
        continue;
      }
      ASSERT_EQ(code, taken.insert(at).second ? Code::kOk : Code::kExists);
      while (taken.contains(missing)) ++missing;
      if (missing < 4) continue;
      ASSERT_EQ(window.take(first + missing - 1 - static_cast<uint32_t>(rng() % 3)), Code::kExists);
    }
  }
}

TEST(RxTasks, AddsUpToTheTotal) {
  RxTasks tasks;
  uint64_t done = 0;
  EXPECT_EQ(tasks.add(TaskId{5}, 10, 10, &done), Code::kOk);
  EXPECT_NE(done, 0u);
  EXPECT_EQ(tasks.open_tasks(), 0u);
  EXPECT_EQ(tasks.add(TaskId{5}, 10, 4, &done), Code::kOk);
  EXPECT_EQ(done, 0u);
  EXPECT_EQ(tasks.add(TaskId{5}, 11, 4, &done), Code::kBadFrame) << "another total";
  EXPECT_EQ(tasks.add(TaskId{5}, 10, 7, &done), Code::kBadFrame) << "more than the total";
  EXPECT_EQ(tasks.add(TaskId{5}, 10, 0, &done), Code::kBadFrame);
  EXPECT_EQ(tasks.add(TaskId{6}, 3, 4, &done), Code::kBadFrame);
  EXPECT_EQ(done, 0u);
  EXPECT_EQ(tasks.add(TaskId{5}, 10, 6, &done), Code::kOk);
  EXPECT_NE(done, 0u);
  EXPECT_EQ(tasks.open_tasks(), 0u);
}

TEST(RxTasks, SumsDoNotWrap) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  RxTasks tasks;
  uint64_t done = 0;
  EXPECT_EQ(tasks.add(TaskId{1}, kMax, kMax - 1, &done), Code::kOk);
  EXPECT_EQ(tasks.add(TaskId{1}, kMax, 2, &done), Code::kBadFrame);
  EXPECT_EQ(tasks.add(TaskId{1}, kMax, 1, &done), Code::kOk);
  EXPECT_NE(done, 0u);
}

TEST(RxTasks, OneTaskTooManyIsRefused) {
  RxTasks tasks;
  uint64_t done = 0;
  for (uint64_t i = 0; i < RxTasks::kMaxTasks; ++i) ASSERT_EQ(tasks.add(TaskId{i}, 2, 1, &done), Code::kOk);
  EXPECT_EQ(tasks.add(TaskId{999}, 2, 1, &done), Code::kBadFrame);
  EXPECT_EQ(tasks.abort(TaskId{999}, 1, &done), Code::kBadFrame);
  EXPECT_EQ(tasks.add(TaskId{999}, 2, 2, &done), Code::kOk) << "whole tasks need no entry";
  EXPECT_NE(done, 0u);
  EXPECT_EQ(tasks.add(TaskId{17}, 2, 1, &done), Code::kOk);
  EXPECT_NE(done, 0u);
  EXPECT_EQ(tasks.add(TaskId{999}, 2, 1, &done), Code::kOk);
  EXPECT_EQ(tasks.open_tasks(), RxTasks::kMaxTasks);
  tasks.reset();
  EXPECT_EQ(tasks.open_tasks(), 0u);
}

TEST(RxTasks, AbortWaitsForWhatWasSent) {
  RxTasks tasks;
  uint64_t done = 0;
  ASSERT_EQ(tasks.add(TaskId{1}, 100, 10, &done), Code::kOk);
  EXPECT_EQ(tasks.abort(TaskId{1}, 9, &done), Code::kBadFrame) << "less than is here";
  EXPECT_EQ(tasks.abort(TaskId{1}, 101, &done), Code::kBadFrame) << "more than the total";
  EXPECT_EQ(tasks.abort(TaskId{1}, 30, &done), Code::kOk);
  EXPECT_EQ(done, 0u);
  EXPECT_EQ(tasks.abort(TaskId{1}, 30, &done), Code::kBadFrame) << "twice";
  EXPECT_EQ(tasks.add(TaskId{1}, 100, 21, &done), Code::kBadFrame) << "beyond what was sent";
  EXPECT_EQ(tasks.add(TaskId{1}, 100, 20, &done), Code::kOk);
  EXPECT_NE(done, 0u);
  ASSERT_EQ(tasks.add(TaskId{2}, 100, 10, &done), Code::kOk);
  EXPECT_EQ(tasks.abort(TaskId{2}, 10, &done), Code::kOk);
  EXPECT_NE(done, 0u) << "all that was sent is here";
  EXPECT_EQ(tasks.open_tasks(), 0u);
}

TEST(RxTasks, AbortThatOvertookItsMessages) {
  RxTasks tasks;
  uint64_t done = 0;
  EXPECT_EQ(tasks.abort(TaskId{1}, 0, &done), Code::kBadFrame) << "nothing was sent, so there is nothing to give up";
  EXPECT_EQ(tasks.open_tasks(), 0u);
  EXPECT_EQ(tasks.abort(TaskId{2}, 20, &done), Code::kOk);
  EXPECT_EQ(done, 0u);
  EXPECT_EQ(tasks.add(TaskId{2}, 19, 10, &done), Code::kBadFrame) << "less in all than was sent";
  EXPECT_EQ(tasks.add(TaskId{2}, 50, 21, &done), Code::kBadFrame);
  EXPECT_EQ(tasks.add(TaskId{2}, 50, 15, &done), Code::kOk);
  EXPECT_EQ(done, 0u);
  EXPECT_EQ(tasks.add(TaskId{2}, 51, 5, &done), Code::kBadFrame);
  EXPECT_EQ(tasks.add(TaskId{2}, 50, 5, &done), Code::kOk);
  EXPECT_NE(done, 0u);
}

TEST(RxTasks, RandomOrderCompletesEachTaskOnce) {
  std::mt19937 rng(3);
  struct Piece {
    uint64_t task, total, bytes;
  };
  for (int round = 0; round < 50; ++round) {
    std::vector<Piece> pieces;
    for (uint64_t task = 0; task < RxTasks::kMaxTasks; ++task) {
      const uint64_t count = 1 + rng() % 9;
      for (uint64_t i = 0; i < count; ++i) pieces.push_back({task, count * 100, 100});
    }
    std::shuffle(pieces.begin(), pieces.end(), rng);
    auto tasks = std::make_unique<RxTasks>();
    std::map<uint64_t, int> completed;
    for (const Piece& piece : pieces) {
      uint64_t done = 0;
      ASSERT_EQ(tasks->add(TaskId{piece.task}, piece.total, piece.bytes, &done), Code::kOk);
      if (done) ++completed[piece.task];
    }
    EXPECT_EQ(completed.size(), RxTasks::kMaxTasks);
    for (const auto& [task, times] : completed) EXPECT_EQ(times, 1) << task;
    EXPECT_EQ(tasks->open_tasks(), 0u);
  }
}

}  // namespace
}  // namespace sluice
