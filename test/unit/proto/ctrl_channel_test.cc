#include "proto/ctrl_channel.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

namespace sluice {
namespace {

using Verdict = CtrlChannel::Verdict;
constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
static_assert(sizeof(CtrlChannel) <= CtrlChannel::kWindow * 16 + 128);

CtrlChannel opened(uint64_t retry = 100, uint64_t max_retry = 1000) {
  CtrlChannel channel;
  channel.open(retry, max_retry);
  return channel;
}

TEST(CtrlChannel, NumbersFromOneAndGivesCookiesBackInOrder) {
  CtrlChannel channel = opened();
  EXPECT_EQ(channel.send(FrameType::kSessionOpen, 71, 0), 1u);
  EXPECT_EQ(channel.send(FrameType::kFence, 72, 0), 2u);
  EXPECT_EQ(channel.unacked(), 2u);
  uint64_t cookie = 0;
  EXPECT_FALSE(channel.take_acked(&cookie));
  Verdict verdict = Verdict::kGap;
  ASSERT_EQ(channel.on_frame(0, 2, false, 0, &verdict), Code::kOk);
  EXPECT_EQ(verdict, Verdict::kDeliver) << "a CTRL_ACK is always news";
  EXPECT_EQ(channel.unacked(), 0u);
  ASSERT_TRUE(channel.take_acked(&cookie));
  EXPECT_EQ(cookie, 71u);
  ASSERT_TRUE(channel.take_acked(&cookie));
  EXPECT_EQ(cookie, 72u);
  EXPECT_FALSE(channel.take_acked(&cookie));
}

TEST(CtrlChannel, AckBeyondWhatWasSentIsRefused) {
  CtrlChannel channel = opened();
  Verdict verdict = Verdict::kGap;
  EXPECT_EQ(channel.on_frame(1, 1, true, 0, &verdict), Code::kBadFrame);
  EXPECT_EQ(channel.on_frame(1, kMax, true, 0, &verdict), Code::kBadFrame);
  EXPECT_EQ(channel.received_in_order(), 0u) << "nothing of a refused frame counts";
  EXPECT_FALSE(channel.ack_due(0, 0));
  EXPECT_EQ(verdict, Verdict::kGap);
  channel.send(FrameType::kFence, 1, 0);
  EXPECT_EQ(channel.on_frame(1, 2, true, 0, &verdict), Code::kBadFrame);
  EXPECT_EQ(channel.on_frame(1, 1, true, 0, &verdict), Code::kOk);
  EXPECT_EQ(channel.on_frame(2, 0, true, 0, &verdict), Code::kOk) << "an old ack_seq is harmless";
  EXPECT_EQ(channel.unacked(), 0u);
}

TEST(CtrlChannel, WindowKeepsPlacesForCredit) {
  CtrlChannel channel = opened();
  for (uint32_t i = 0; i < CtrlChannel::kNotifyWindow; ++i) {
    ASSERT_TRUE(channel.may_send(FrameType::kNotify));
    channel.send(FrameType::kNotify, i, 0);
  }
  EXPECT_FALSE(channel.may_send(FrameType::kNotify));
  EXPECT_FALSE(channel.may_send(FrameType::kDataNak));
  ASSERT_TRUE(channel.may_send(FrameType::kCreditGrant));
  channel.send(FrameType::kCreditGrant, 100, 0);
  EXPECT_FALSE(channel.may_send(FrameType::kCreditGrant));
  ASSERT_TRUE(channel.may_send(FrameType::kCreditRequest));
  channel.send(FrameType::kCreditRequest, 101, 0);
  for (int type = 1; type <= kLastType; ++type) EXPECT_FALSE(channel.may_send(static_cast<FrameType>(type))) << type;
  Verdict verdict;
  ASSERT_EQ(channel.on_frame(0, 3, false, 0, &verdict), Code::kOk);
  EXPECT_FALSE(channel.may_send(FrameType::kFence)) << "acknowledged frames keep their place until they are taken";
  uint64_t cookie;
  while (channel.take_acked(&cookie)) {}
  EXPECT_TRUE(channel.may_send(FrameType::kFence));
  EXPECT_TRUE(channel.may_send(FrameType::kNotify));
}

TEST(CtrlChannel, StateFramesAreOutOnceOfEachKind) {
  for (FrameType type :
       {FrameType::kCreditGrant, FrameType::kCreditProgress, FrameType::kCreditRequest, FrameType::kDataAck}) {
    CtrlChannel channel = opened();
    EXPECT_TRUE(channel.may_send(type));
    channel.send(type, 1, 0);
    EXPECT_FALSE(channel.may_send(type));
    channel.send(FrameType::kFence, 2, 0);
    Verdict verdict;
    ASSERT_EQ(channel.on_frame(0, 1, false, 0, &verdict), Code::kOk);
    EXPECT_TRUE(channel.may_send(type));
  }
  CtrlChannel channel = opened();
  channel.send(FrameType::kFence, 1, 0);
  EXPECT_TRUE(channel.may_send(FrameType::kFence));
  EXPECT_FALSE(channel.may_send(FrameType::kCtrlAck)) << "never numbered";
}

TEST(CtrlChannel, RepeatsAllInOrderAndBacksOff) {
  CtrlChannel channel = opened(100, 350);
  channel.send(FrameType::kFence, 11, 1000);
  channel.send(FrameType::kNotify, 12, 1050);
  CtrlChannel::Repeat repeat;
  EXPECT_FALSE(channel.take_repeat(1099, &repeat));
  const auto expect_round = [&](uint64_t now) {
    ASSERT_FALSE(channel.take_repeat(now - 1, &repeat));
    for (uint64_t seq : {1u, 2u}) {
      ASSERT_TRUE(channel.take_repeat(now, &repeat));
      EXPECT_EQ(repeat.seq, seq);
      EXPECT_EQ(repeat.cookie, 10 + seq);
    }
    ASSERT_FALSE(channel.take_repeat(now, &repeat));
  };
  expect_round(1100);
  expect_round(1300);
  expect_round(1650);
  expect_round(2000);
  EXPECT_EQ(channel.repeats(), 8u);
  Verdict verdict;
  ASSERT_EQ(channel.on_frame(0, 1, false, 2001, &verdict), Code::kOk);
  EXPECT_FALSE(channel.take_repeat(2010, &repeat)) << "progress: the first time-out again, from now";
  EXPECT_FALSE(channel.take_repeat(2109, &repeat));
  ASSERT_TRUE(channel.take_repeat(2110, &repeat));
  EXPECT_EQ(repeat.seq, 2u);
  ASSERT_EQ(channel.on_frame(0, 2, false, 2111, &verdict), Code::kOk);
  EXPECT_FALSE(channel.take_repeat(1u << 30, &repeat)) << "nothing is out";
}

// A caller that runs out of send slots in the middle of a round goes on where it stopped.
TEST(CtrlChannel, ARoundThatIsInterruptedGoesOn) {
  CtrlChannel channel = opened(100, 100);
  for (uint64_t i = 1; i <= 5; ++i) channel.send(FrameType::kNotify, i, 0);
  CtrlChannel::Repeat repeat;
  ASSERT_TRUE(channel.take_repeat(100, &repeat));
  ASSERT_TRUE(channel.take_repeat(100, &repeat));
  EXPECT_EQ(repeat.seq, 2u);
  Verdict verdict;
  ASSERT_EQ(channel.on_frame(0, 3, false, 101, &verdict), Code::kOk);
  ASSERT_TRUE(channel.take_repeat(101, &repeat));
  EXPECT_EQ(repeat.seq, 4u) << "what was acknowledged meanwhile is not repeated";
  ASSERT_TRUE(channel.take_repeat(101, &repeat));
  EXPECT_EQ(repeat.seq, 5u);
  EXPECT_FALSE(channel.take_repeat(101, &repeat));
}

TEST(CtrlChannel, BackOffAtTheTopDoesNotWrap) {
  CtrlChannel channel = opened(uint64_t{1} << 62, uint64_t{1} << 63);
  channel.send(FrameType::kFence, 1, 0);
  CtrlChannel::Repeat repeat;
  ASSERT_TRUE(channel.take_repeat(uint64_t{1} << 62, &repeat));
  EXPECT_FALSE(channel.take_repeat((uint64_t{1} << 62) + 1, &repeat));
}

TEST(CtrlChannel, TakesOnlyTheNextNumber) {
  CtrlChannel channel = opened();
  Verdict verdict;
  ASSERT_EQ(channel.on_frame(2, 0, true, 0, &verdict), Code::kOk);
  EXPECT_EQ(verdict, Verdict::kGap);
  ASSERT_EQ(channel.on_frame(1, 0, true, 0, &verdict), Code::kOk);
  EXPECT_EQ(verdict, Verdict::kDeliver);
  ASSERT_EQ(channel.on_frame(1, 0, true, 0, &verdict), Code::kOk);
  EXPECT_EQ(verdict, Verdict::kDuplicate);
  ASSERT_EQ(channel.on_frame(kMax, 0, true, 0, &verdict), Code::kOk);
  EXPECT_EQ(verdict, Verdict::kGap);
  EXPECT_EQ(channel.received_in_order(), 1u);
  EXPECT_EQ(channel.gaps(), 2u);
  EXPECT_EQ(channel.duplicates(), 1u);
}

TEST(CtrlChannel, AcksAreDueAtOnceOrAfterADelay) {
  CtrlChannel channel = opened();
  Verdict verdict;
  EXPECT_FALSE(channel.ack_due(1u << 20, 10));
  ASSERT_EQ(channel.on_frame(1, 0, false, 100, &verdict), Code::kOk);
  ASSERT_EQ(channel.on_frame(2, 0, false, 105, &verdict), Code::kOk);
  EXPECT_FALSE(channel.ack_due(109, 10));
  EXPECT_TRUE(channel.ack_due(110, 10)) << "counted from the oldest";
  EXPECT_EQ(channel.ack_to_send(), 2u);
  EXPECT_FALSE(channel.ack_due(1u << 20, 10));
  ASSERT_EQ(channel.on_frame(3, 0, true, 200, &verdict), Code::kOk);
  EXPECT_TRUE(channel.ack_due(200, 10)) << "asked for";
  channel.ack_carried(2);
  EXPECT_TRUE(channel.ack_due(200, 10)) << "that was older";
  channel.ack_carried(3);
  EXPECT_FALSE(channel.ack_due(1u << 20, 10)) << "a data message carried it";
  channel.ack_carried(kMax);
  ASSERT_EQ(channel.on_frame(4, 0, false, 300, &verdict), Code::kOk);
  EXPECT_TRUE(channel.ack_due(310, 10)) << "nothing is settled before it came";
  channel.ack_to_send();
  ASSERT_EQ(channel.on_frame(4, 0, false, 400, &verdict), Code::kOk);
  EXPECT_TRUE(channel.ack_due(400, 10)) << "a repeat says that the acknowledgement was lost";
}

TEST(CtrlChannel, SixteenLowBitsAreExtended) {
  CtrlChannel channel = opened();
  Verdict verdict;
  uint64_t cookie;
  EXPECT_EQ(channel.on_ack_low16(1), Code::kBadFrame);
  EXPECT_EQ(channel.on_ack_low16(0xFFFF), Code::kBadFrame) << "no number is behind the first";
  EXPECT_EQ(channel.on_ack_low16(0), Code::kOk);
  for (uint64_t seq = 1; seq <= 0x20010; ++seq) {
    ASSERT_EQ(channel.send(FrameType::kNotify, seq, 0), seq);
    if (seq % 5 != 0) continue;
    ASSERT_EQ(channel.on_ack_low16(static_cast<uint16_t>(seq + 1)), Code::kBadFrame) << seq;
    ASSERT_EQ(channel.on_ack_low16(static_cast<uint16_t>(seq - 1)), Code::kOk);
    ASSERT_EQ(channel.unacked(), 1u);
    ASSERT_EQ(channel.on_ack_low16(static_cast<uint16_t>(seq)), Code::kOk);
    ASSERT_EQ(channel.on_ack_low16(static_cast<uint16_t>(seq - 3)), Code::kOk) << "overtaken";
    ASSERT_EQ(channel.unacked(), 0u);
    for (uint64_t i = seq - 4; i <= seq; ++i) {
      ASSERT_TRUE(channel.take_acked(&cookie));
      ASSERT_EQ(cookie, i);
    }
  }
  ASSERT_EQ(channel.on_frame(0, 0x20010 + 1, false, 0, &verdict), Code::kBadFrame);
}

// Two ends over a pipe that loses, repeats and reorders.
class Pipe {
 public:
  /// A frame takes from 1 to @p delay steps.
  Pipe(uint64_t seed, uint32_t loss_percent, uint32_t repeat_percent, uint64_t delay)
      : rng_(seed), loss_(loss_percent), repeat_(repeat_percent), delay_(delay) {
    for (End& end : ends_) end.channel.open(50, 400);
  }

  bool run(uint64_t count) {
    count_ = count;
    for (now_ = 1; now_ < 2'000'000; ++now_) {
      for (int side = 0; side < 2; ++side) turn(side);
      if (testing::Test::HasFatalFailure()) return false;
      if (done(0) && done(1)) return true;
    }
    return false;
  }
  uint64_t repeats() const { return ends_[0].channel.repeats() + ends_[1].channel.repeats(); }

 private:
  struct Flying {
    uint64_t seq, ack, value, at;
    bool needs_ack;
  };
  struct End {
    CtrlChannel channel;
    std::vector<Flying> incoming;
    uint64_t queued = 0, delivered = 0, settled = 0;
  };

  bool done(int side) const {
    const End& end = ends_[side];
    return end.queued == count_ && end.delivered == count_ && end.settled == count_;
  }

  void put(int to, uint64_t seq, uint64_t ack, uint64_t value, bool needs_ack) {
    const int copies = 1 + (rng_() % 100 < repeat_ ? 1 : 0);
    for (int i = 0; i < copies; ++i)
      if (rng_() % 100 >= loss_) ends_[to].incoming.push_back({seq, ack, value, now_ + 1 + rng_() % delay_, needs_ack});
  }

  void receive(End& end, const Flying& f) {
    Verdict verdict;
    ASSERT_EQ(end.channel.on_frame(f.seq, f.ack, f.needs_ack, now_, &verdict), Code::kOk);
    if (f.seq != 0 && verdict == Verdict::kDeliver) {
      ASSERT_EQ(f.value, end.delivered + 1) << "each once, in order";
      ++end.delivered;
    }
    uint64_t cookie;
    while (end.channel.take_acked(&cookie)) ASSERT_EQ(cookie, ++end.settled);
    if (rng_() % 4 != 0) return;
    ASSERT_EQ(end.channel.on_ack_low16(static_cast<uint16_t>(f.ack)), Code::kOk);
  }

  void turn(int side) {
    End& end = ends_[side];
    for (size_t i = 0; i < end.incoming.size();) {
      if (end.incoming[i].at > now_) {
        ++i;
        continue;
      }
      const Flying f = end.incoming[i];
      end.incoming[i] = end.incoming.back();
      end.incoming.pop_back();
      receive(end, f);
    }
    static constexpr FrameType kTypes[] = {FrameType::kNotify, FrameType::kCreditGrant, FrameType::kFence,
                                           FrameType::kDataAck, FrameType::kCreditRequest};
    const FrameType type = kTypes[rng_() % 5];
    if (end.queued < count_ && end.channel.may_send(type)) {
      const bool needs_ack = rng_() % 3 == 0;
      const uint64_t value = ++end.queued;
      const uint64_t seq = end.channel.send(type, value, now_);
      put(1 - side, seq, end.channel.ack_to_send(), value, needs_ack);
    }
    CtrlChannel::Repeat repeat;
    while (end.channel.take_repeat(now_, &repeat))
      put(1 - side, repeat.seq, end.channel.ack_to_send(), repeat.cookie, true);
    if (end.channel.ack_due(now_, 20)) put(1 - side, 0, end.channel.ack_to_send(), 0, false);
    ASSERT_LE(end.channel.unacked(), CtrlChannel::kWindow);
  }

  std::mt19937_64 rng_;
  uint32_t loss_, repeat_;
  uint64_t delay_;
  std::array<End, 2> ends_;
  uint64_t count_ = 0, now_ = 0;
};

TEST(CtrlChannel, EachFrameOnceAndInOrderOverABadPath) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Pipe pipe(seed, static_cast<uint32_t>(seed % 5) * 12, static_cast<uint32_t>(seed % 3) * 15, 30);
    EXPECT_TRUE(pipe.run(500)) << "seed " << seed;
  }
}

TEST(CtrlChannel, AGoodPathNeedsNoRepeats) {
  Pipe pipe(99, 0, 0, 1);
  ASSERT_TRUE(pipe.run(500));
  EXPECT_EQ(pipe.repeats(), 0u);
}

}  // namespace
}  // namespace sluice
