// The small parts: mailbox, poll gate, runner, the frames that a session keeps.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <numeric>
#include <random>
#include <thread>

#include "agent/agent.h"
#include "agent/mailbox.h"
#include "agent/peer.h"
#include "agent/runner.h"

namespace sluice::test {
namespace {

struct Word {
  uint64_t value, check;
};

TEST(Mailbox, RefusesWhatIsNotAPowerOfTwo) {
  Mailbox<Word> box;
  EXPECT_EQ(box.open(10).code(), Code::kBadArgument);
  EXPECT_TRUE(box.open(8).ok());
}

TEST(Mailbox, TakesAPrefixWhenItIsFull) {
  Mailbox<Word> box;
  ASSERT_TRUE(box.open(8).ok());
  std::array<Word, 10> words{};
  for (uint64_t i = 0; i < words.size(); ++i) words[i] = {i, ~i};
  EXPECT_EQ(box.put(words), 7u);
  EXPECT_EQ(box.room(), 0u);
  EXPECT_FALSE(box.put(words[0]));
  std::array<Word, 3> out{};
  ASSERT_EQ(box.take(out), 3u);
  EXPECT_EQ(out[2].value, 2u);
  EXPECT_EQ(box.put(std::span(words).subspan(7)), 3u);
  for (uint64_t i = 3; i < words.size(); ++i) {
    ASSERT_EQ(box.take({out.data(), 1}), 1u);
    EXPECT_EQ(out[0].value, i);
    EXPECT_EQ(out[0].check, ~i);
  }
  EXPECT_TRUE(box.empty());
  EXPECT_EQ(box.take(out), 0u);
}

TEST(Mailbox, KeepsOrderBetweenTwoThreads) {
  constexpr uint64_t kCount = 20'000;
  Mailbox<Word> box;
  ASSERT_TRUE(box.open(64).ok());
  std::thread producer([&] {
    for (uint64_t i = 0; i < kCount;) {
      if (box.put(Word{i, ~i}))
        ++i;
      else
        std::this_thread::yield();
    }
  });
  uint64_t next = 0;
  while (next < kCount) {
    std::array<Word, 5> out;
    const uint32_t n = box.take(out);
    if (n == 0) std::this_thread::yield();
    for (uint32_t i = 0; i < n; ++i, ++next) {
      EXPECT_EQ(out[i].value, next);
      EXPECT_EQ(out[i].check, ~next);
    }
  }
  producer.join();
}

TEST(PollGate, ACheapQueueIsPolledOnEachTurn) {
  PollGate gate(false);
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(gate.due());
    gate.polled(0);
  }
}

TEST(PollGate, ACostlyQueueIsPolledLessTheLongerItIsIdleAndAlwaysSometimes) {
  PollGate gate(true);
  const auto polls_in = [&](int turns) {
    int polls = 0;
    for (int i = 0; i < turns; ++i) {
      if (!gate.due()) continue;
      ++polls;
      gate.polled(0);
    }
    return polls;
  };
  EXPECT_EQ(polls_in(60), 60);
  EXPECT_NEAR(polls_in(1000), 500, 10);
  (void)polls_in(20'000);
  EXPECT_NEAR(polls_in(8000), 1000, 10);
  while (!gate.due()) {}
  gate.polled(1);
  EXPECT_EQ(polls_in(60), 60) << "work makes it eager again";
}

struct CountingAgent final : Agent {
  uint64_t turns = 0, stop_at = UINT64_MAX;
  uint32_t work = 0;
  Runner* runner = nullptr;
  uint32_t turn(uint64_t) noexcept override {
    if (++turns == stop_at) runner->stop();
    return work;
  }
};
uint64_t runner_now = 0;
uint64_t runner_ticks() noexcept { return runner_now; }

TEST(Runner, TurnsEachAgentUntilItIsStopped) {
  CountingAgent a, b;
  Runner runner({&a, &b}, IdlePolicy::kBusy, runner_ticks, 1);
  a.stop_at = 100;
  a.work = 2;
  a.runner = &runner;
  runner.run();
  EXPECT_EQ(a.turns, 100u);
  EXPECT_EQ(b.turns, 100u);
  EXPECT_EQ(runner.turns(), 100u);
  EXPECT_EQ(runner.busy_turns(), 100u);
}

// The clock stands within the first microseconds, so that an adaptive runner pauses, and once past a yield: no sleep.
TEST(Runner, AdaptiveIdlesOnlyWithoutWork) {
  CountingAgent a;
  runner_now = 5;
  Runner runner({&a}, IdlePolicy::kAdaptive, runner_ticks, 1);
  EXPECT_EQ(runner.turn(), 0u);
  runner_now = 30;
  EXPECT_EQ(runner.turn(), 0u);
  a.work = 3;
  runner_now = 10'000'000;  // it would sleep now, if there were no work
  EXPECT_EQ(runner.turn(), 3u);
  a.work = 0;
  runner_now += 10;
  EXPECT_EQ(runner.turn(), 0u);
  EXPECT_EQ(runner.turns(), 4u);
  EXPECT_EQ(runner.busy_turns(), 1u);
}

// Frames of any size, acknowledged in any portions: room for the largest is never where one that is kept lies.
TEST(Session, KeptFramesDoNotOverlap) {
  constexpr uint32_t kFrame = 1000;
  SessionParams params{};
  params.frame_bytes = kFrame;
  params.ceiling_slots = 1;
  Session session(params);
  session.channel.open(1000, 1000);
  std::mt19937 random(7);
  std::deque<std::pair<uint32_t, uint32_t>> kept;
  uint64_t acked = 0, most = 0;
  for (int i = 0; i < 200'000; ++i) {
    const std::array types{FrameType::kNotify, FrameType::kFence, FrameType::kSessionClose, FrameType::kDrainAck};
    const auto type = std::find_if(types.begin(), types.end(), [&](auto t) { return session.channel.may_send(t); });
    if (type != types.end() && random() % 8 != 0) {
      const uint32_t from = session.next_frame();
      ASSERT_LE(from + kFrame, session.frame_room());
      for (const auto& [a, b] : kept) ASSERT_TRUE(from + kFrame <= a || from >= b) << i;
      const auto bytes = static_cast<uint32_t>(random() % 4 == 0 ? kFrame : 1 + random() % kFrame);
      (void)session.channel.send(*type, 0, 0);
      session.frames_end = from + bytes;
      kept.emplace_back(from, from + bytes);
      most = std::max<uint64_t>(most, kept.size());
    } else if (!kept.empty()) {
      for (size_t n = 1 + random() % kept.size(); n != 0; --n, ++acked) kept.pop_front();
      ASSERT_EQ(session.channel.on_ack_low16(static_cast<uint16_t>(acked)), Code::kOk);
      for (uint64_t cookie; session.channel.take_acked(&cookie);) {}
    }
  }
  EXPECT_EQ(most, CtrlChannel::kWindow);
}

}  // namespace
}  // namespace sluice::test
