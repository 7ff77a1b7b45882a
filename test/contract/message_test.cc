// What the door promises about messages.
#include <algorithm>

#include "side.h"

namespace sluice::contract {
namespace {

class Messages : public Contract {};

TEST_P(Messages, DeviceSaysWhatItGives) {
  const DeviceCaps& caps = device().caps();
  EXPECT_FALSE(device().info().name.empty());
  EXPECT_GE(caps.tx_depth, 1u);
  EXPECT_GE(caps.rx_depth, 1u);
  EXPECT_GE(caps.max_msg_bytes, 4096u);
  EXPECT_GE(caps.sge, 1u);
  Side side(device(), {.tx_depth = 1u << 30, .rx_depth = 1u << 30, .receives = false});
  EXPECT_LE(side.queue().depth().tx, caps.tx_depth) << "a depth beyond the device's was not clamped";
  EXPECT_LE(side.queue().depth().rx, caps.rx_depth);
  EXPECT_GE(side.queue().depth().tx, 1u);
  EXPECT_FALSE(side.address().empty());
}

TEST_P(Messages, ArriveByteExactAtEverySize) {
  const auto largest = static_cast<uint32_t>(std::min<uint64_t>(device().caps().max_msg_bytes, 1u << 20));
  Side a(device(), {.rx_depth = 16, .msg_bytes = largest}), b(device(), {.rx_depth = 16, .msg_bytes = largest});
  join(a, b);
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{4096}, size_t{largest}}) {
    const Bytes sent = pattern(bytes, bytes + 1);
    ASSERT_TRUE(send_soon(a, PathId{0}, sent, {&a, &b})) << bytes;
    ASSERT_TRUE(wait_for({&a, &b}, [&] { return b.inbox().size() == 1 && a.outstanding() == 0; })) << bytes;
    EXPECT_EQ(b.inbox()[0], sent) << bytes;
    b.inbox().clear();
  }
  EXPECT_EQ(a.ended(Code::kOk), a.accepted());
}

TEST_P(Messages, TwoPiecesArriveAsOne) {
  if (device().caps().sge < 2) GTEST_SKIP() << "the device takes one piece";
  Side a(device()), b(device());
  join(a, b);
  for (const size_t first : {size_t{1}, size_t{64}, size_t{2000}}) {
    const Bytes sent = pattern(2048, first);
    ASSERT_TRUE(send_soon(a, PathId{0}, sent, {&a, &b}, first));
    ASSERT_TRUE(wait_for({&a, &b}, [&] { return b.inbox().size() == 1 && a.outstanding() == 0; }));
    EXPECT_EQ(b.inbox()[0], sent);
    b.inbox().clear();
  }
}

// Fill the queue while nobody takes anything, and see that what was refused can go later.
TEST_P(Messages, BurstBeyondTheDepthIsTakenAsAPrefix) {
  Side a(device(), {.tx_depth = 32}), b(device(), {.rx_depth = 8, .receives = false});
  join(a, b);
  constexpr size_t kTotal = 600;
  size_t refused = 0;
  for (size_t tries = 0; tries < 40 && a.accepted() < kTotal; ++tries) {
    const uint32_t taken = a.send_burst(PathId{0}, kMaxBurst, 100, a.accepted());
    refused += kMaxBurst - taken;
    ASSERT_LE(a.outstanding(), a.queue().depth().tx) << "more accepted than the depth";
  }
  EXPECT_GT(refused, 0u);
  b.set_receives(true);
  ASSERT_TRUE(wait_for({&a, &b},
                       [&] {
                         if (a.accepted() < kTotal) a.send_burst(PathId{0}, kMaxBurst, 100, a.accepted());
                         return a.accepted() >= kTotal && a.outstanding() == 0 && b.inbox().size() == a.accepted();
                       }))
      << a.accepted() << " accepted, " << a.outstanding() << " outstanding, " << b.inbox().size() << " arrived";
  EXPECT_EQ(a.completed(), a.accepted());
  EXPECT_EQ(a.ended(Code::kOk), a.accepted());
  std::ranges::sort(b.inbox());
  std::vector<Bytes> expected;
  for (size_t i = 0; i < a.accepted(); ++i) expected.push_back(pattern(100, i));
  std::ranges::sort(expected);
  EXPECT_EQ(b.inbox(), expected);
}

TEST_P(Messages, ReceivesAreTakenAgainAfterABurst) {
  Side a(device()), b(device(), {.rx_depth = 4});
  join(a, b);
  for (size_t round = 0; round < 20; ++round) {
    const size_t target = a.accepted() + 16;
    ASSERT_TRUE(wait_for({&a, &b}, [&] {
      if (a.accepted() < target) a.send_burst(PathId{0}, static_cast<uint32_t>(target - a.accepted()), 64, round);
      return a.accepted() == target && b.inbox().size() == target;
    }));
    EXPECT_EQ(b.posted_receives(), b.queue().depth().rx) << "a receive was lost";
  }
}

TEST_P(Messages, RefillTakesNoMoreThanTheDepth) {
  Side a(device(), {.rx_depth = 8});
  EXPECT_EQ(a.posted_receives(), a.queue().depth().rx);
  static std::byte spare[64];
  const RecvBuf buf{.addr = spare, .desc = 0, .cookie = 1, .bytes = sizeof spare};
  EXPECT_EQ(a.queue().refill({&buf, 1}), 0u);
}

TEST_P(Messages, KeepTheirOrderOnAPath) {
  if (!device().caps().ordered) GTEST_SKIP() << "the device does not promise order";
  Side a(device()), b(device());
  join(a, b);
  constexpr size_t kTotal = 1000;
  ASSERT_TRUE(wait_for({&a, &b}, [&] {
    if (a.accepted() < kTotal) a.send_burst(PathId{0}, kMaxBurst, 64 + a.accepted() % 900, a.accepted());
    return a.accepted() >= kTotal && b.inbox().size() == a.accepted();
  }));
  for (size_t i = 0; i < b.inbox().size(); ++i) ASSERT_EQ(b.inbox()[i], pattern(b.inbox()[i].size(), i)) << i;
}

TEST_P(Messages, GoBothWaysAtOnce) {
  Side a(device()), b(device());
  join(a, b);
  constexpr size_t kTotal = 2000;
  ASSERT_TRUE(wait_for({&a, &b},
                       [&] {
                         if (a.accepted() < kTotal) a.send_burst(PathId{0}, kMaxBurst, 256, a.accepted());
                         if (b.accepted() < kTotal) b.send_burst(PathId{0}, kMaxBurst, 256, b.accepted());
                         return a.accepted() >= kTotal && b.accepted() >= kTotal &&
                                a.outstanding() + b.outstanding() == 0 && b.inbox().size() == a.accepted() &&
                                a.inbox().size() == b.accepted();
                       }))
      << a.inbox().size() << " and " << b.inbox().size() << " arrived";
  EXPECT_EQ(a.ended(Code::kOk), a.accepted());
  EXPECT_EQ(b.ended(Code::kOk), b.accepted());
}

TEST_P(Messages, OfSeveralPeersMeetInOneQueue) {
  Side hub(device());
  Side a(device()), b(device()), c(device());
  Side* const peers[] = {&a, &b, &c};
  for (uint32_t i = 0; i < 3; ++i) {
    hub.connect(PathId{i}, peers[i]->address(PathId{5}));
    peers[i]->connect(PathId{5}, hub.address(PathId{i}));
  }
  constexpr size_t kEach = 300;
  ASSERT_TRUE(wait_for({&hub, &a, &b, &c},
                       [&] {
                         for (uint32_t i = 0; i < 3; ++i) {
                           if (peers[i]->accepted() < kEach)
                             peers[i]->send_burst(PathId{5}, 8, 128, 1000 * i + peers[i]->accepted());
                           if (hub.accepted() < 3 * kEach) hub.send_burst(PathId{i}, 8, 128, 5000 + i);
                         }
                         size_t sent = 0, arrived = 0;
                         for (const Side* peer : peers) sent += peer->accepted();
                         for (Side* peer : peers) arrived += peer->inbox().size();
                         return sent >= 3 * kEach && hub.inbox().size() == sent && hub.accepted() >= 3 * kEach &&
                                arrived == hub.accepted();
                       }))
      << hub.inbox().size() << " arrived at the hub";
}

// Only messages of other queues' own: a path's messages go nowhere else.
TEST_P(Messages, ReachTheirPathsPeerOnly) {
  Side a(device()), b(device()), c(device());
  join(a, b, PathId{0});
  join(a, c, PathId{1});
  ASSERT_TRUE(send_soon(a, PathId{0}, pattern(64, 1), {&a, &b, &c}));
  ASSERT_TRUE(send_soon(a, PathId{1}, pattern(64, 2), {&a, &b, &c}));
  ASSERT_TRUE(wait_for({&a, &b, &c}, [&] { return b.inbox().size() == 1 && c.inbox().size() == 1; }));
  EXPECT_EQ(b.inbox()[0], pattern(64, 1));
  EXPECT_EQ(c.inbox()[0], pattern(64, 2));
}

INSTANTIATE_TEST_SUITE_P(Rows, Messages, testing::ValuesIn(rows()), row_name);

}  // namespace
}  // namespace sluice::contract
