// What the door promises about paths: connect, close, and peers that die.
#include <algorithm>
#include <memory>

#include "peer_process.h"
#include "side.h"

namespace sluice::contract {
namespace {

constexpr PathId kPath{0};

class Paths : public Contract {
 protected:
  static void expect_exchange(Side& a, Side& b, PathId path, uint64_t seed) {
    // Among others: what an earlier peer sent may still arrive.
    const auto has = [](Side& side, uint64_t which) {
      return std::ranges::find(side.inbox(), pattern(128, which)) != side.inbox().end();
    };
    ASSERT_TRUE(send_soon(a, path, pattern(128, seed), {&a, &b}));
    ASSERT_TRUE(send_soon(b, path, pattern(128, seed + 1), {&a, &b}));
    ASSERT_TRUE(wait_for({&a, &b}, [&] { return has(b, seed) && has(a, seed + 1); }));
    a.inbox().clear();
    b.inbox().clear();
  }
};

TEST_P(Paths, RefuseABlobThatDoesNotParse) {
  Side a(device()), b(device());
  const Bytes good = b.address();
  std::vector<Bytes> bad{{}};
  for (size_t bytes = 1; bytes < good.size(); ++bytes) bad.emplace_back(good.begin(), good.begin() + bytes);
  bad.push_back(good);
  bad.back().push_back(std::byte{0});
  for (size_t i = 0; i < 5; ++i) {  // magic, then version
    bad.push_back(good);
    bad.back()[i] ^= std::byte{0x40};
  }
  for (uint64_t seed = 0; seed < 200; ++seed) bad.push_back(pattern(seed < 100 ? good.size() : seed, seed));
  for (const Bytes& blob : bad) {
    const Status status = a.queue().connect(kPath, blob);
    ASSERT_EQ(status.code(), Code::kBadArgument) << "a blob of " << blob.size() << " bytes: " << status.describe();
    ASSERT_FALSE(status.text().empty());
  }
  join(a, b);  // a refused blob leaves the path free
  expect_exchange(a, b, kPath, 1);
}

TEST_P(Paths, ConnectOnlyOnceAndWithinTheLimit) {
  Side a(device()), b(device()), c(device());
  join(a, b);
  EXPECT_EQ(a.queue().connect(kPath, c.address()).code(), Code::kExists);
  EXPECT_EQ(a.queue().connect(PathId{1u << 20}, c.address()).code(), Code::kLimit);
  expect_exchange(a, b, kPath, 1);
}

TEST_P(Paths, OpsToAnUnknownPathEndWithPeerDead) {
  Side a(device()), b(device());
  join(a, b);
  ASSERT_TRUE(a.send(PathId{3}, pattern(64, 1)));
  ASSERT_TRUE(a.send(PathId{1u << 30}, pattern(64, 1)));
  ASSERT_TRUE(wait_for({&a}, [&] { return a.outstanding() == 0; }));
  EXPECT_EQ(a.ended(Code::kPeerDead), 2u);
  ASSERT_EQ(a.queue().close(kPath), Code::kOk);
  ASSERT_TRUE(a.send(kPath, pattern(64, 1)));
  ASSERT_TRUE(wait_for({&a}, [&] { return a.outstanding() == 0; }));
  EXPECT_EQ(a.ended(Code::kPeerDead), 3u);
}

TEST_P(Paths, CloseOfAnUnknownPathSaysSo) {
  Side a(device());
  EXPECT_EQ(a.queue().close(kPath), Code::kNotFound);
  EXPECT_EQ(a.queue().close(PathId{1u << 30}), Code::kNotFound);
}

TEST_P(Paths, CloseGivesEveryOpBackOnce) {
  Side a(device()), b(device());
  join(a, b);
  expect_exchange(a, b, kPath, 1);
  for (int i = 0; i < 4; ++i) a.send_burst(kPath, kMaxBurst, 1024, 1);
  const size_t accepted = a.accepted();
  ASSERT_GT(a.outstanding(), 0u);
  ASSERT_EQ(a.queue().close(kPath), Code::kOk);
  ASSERT_TRUE(wait_for({&a, &b}, [&] { return a.outstanding() == 0; })) << a.outstanding() << " never came back";
  EXPECT_EQ(a.completed(), accepted);
}

TEST_P(Paths, CloseGivesEveryOpBackThoughThePeerNeverPolls) {
  Side a(device()), b(device());
  join(a, b);
  for (int i = 0; i < 50; ++i) {
    a.send_burst(kPath, kMaxBurst, 4096, 1);
    a.turn();
  }
  ASSERT_EQ(a.queue().close(kPath), Code::kOk);
  if (!device().caps().closes_paths) a.shutdown();  // the latest moment at which such a device lets go
  ASSERT_TRUE(wait_for({&a}, [&] { return a.outstanding() == 0; })) << a.outstanding() << " never came back";
  EXPECT_EQ(a.completed(), a.accepted());
}

TEST_P(Paths, OtherPathsLiveOnWhenOneIsClosed) {
  Side a(device()), b(device()), c(device());
  join(a, b, PathId{0});
  join(a, c, PathId{1});
  expect_exchange(a, b, PathId{0}, 1);
  a.send_burst(PathId{0}, kMaxBurst, 512, 1);
  ASSERT_EQ(a.queue().close(PathId{0}), Code::kOk);
  expect_exchange(a, c, PathId{1}, 3);
  ASSERT_TRUE(wait_for({&a, &b, &c}, [&] { return a.outstanding() == 0; }));
}

TEST_P(Paths, OpenAgainToTheSamePeer) {
  Side a(device()), b(device());
  for (uint64_t round = 0; round < 5; ++round) {
    join(a, b);
    expect_exchange(a, b, kPath, 10 * round);
    ASSERT_TRUE(wait_for({&a, &b}, [&] { return a.outstanding() + b.outstanding() == 0; }));
    ASSERT_EQ(a.queue().close(kPath), Code::kOk);
    ASSERT_EQ(b.queue().close(kPath), Code::kOk);
  }
  if (device().caps().paired) return;
  // One end alone.
  join(a, b);
  expect_exchange(a, b, kPath, 100);
  ASSERT_EQ(a.queue().close(kPath), Code::kOk);
  a.connect(kPath, b.address());
  expect_exchange(a, b, kPath, 102);
}

TEST_P(Paths, OpenAgainToANewQueue) {
  Side a(device());
  for (uint64_t round = 0; round < 5; ++round) {
    Side b(device());
    join(a, b);
    expect_exchange(a, b, kPath, 10 * round);
    ASSERT_TRUE(wait_for({&a, &b}, [&] { return a.outstanding() + b.outstanding() == 0; }));
    ASSERT_EQ(a.queue().close(kPath), Code::kOk);
  }
}

TEST_P(Paths, BothEndsConnectAtTheSameMoment) {
  for (uint64_t round = 0; round < 50; ++round) {
    Side a(device(), {.tx_depth = 8, .rx_depth = 8}), b(device(), {.tx_depth = 8, .rx_depth = 8});
    join(a, b);
    bool a_sent = false, b_sent = false;
    ASSERT_TRUE(wait_for({&a, &b},
                         [&] {
                           a_sent = a_sent || a.send(kPath, pattern(64, round));
                           b_sent = b_sent || b.send(kPath, pattern(64, round + 1));
                           return !a.inbox().empty() && !b.inbox().empty() && a.outstanding() + b.outstanding() == 0;
                         }))
        << "round " << round;
    ASSERT_EQ(b.inbox(), std::vector<Bytes>{pattern(64, round)});
    ASSERT_EQ(a.inbox(), std::vector<Bytes>{pattern(64, round + 1)});
  }
}

TEST_P(Paths, ShutdownGivesEverythingBack) {
  Side a(device()), b(device());
  join(a, b);
  expect_exchange(a, b, kPath, 1);
  a.send_burst(kPath, kMaxBurst, 512, 1);
  ASSERT_GT(a.posted_receives(), 0u);
  a.shutdown();
  ASSERT_TRUE(wait_for({&a, &b}, [&] { return a.outstanding() == 0 && a.posted_receives() == 0; }))
      << a.outstanding() << " ops and " << a.posted_receives() << " receives never came back";
  EXPECT_FALSE(a.send(kPath, pattern(64, 1))) << "a queue that is shut down took an op";
  a.post_receives();
  EXPECT_EQ(a.posted_receives(), 0u) << "a queue that is shut down took a receive";
}

TEST_P(Paths, AnIdleQueueShutsDownToo) {
  Side a(device());
  a.shutdown();
  ASSERT_TRUE(wait_for({&a}, [&] { return a.posted_receives() == 0; }));
}

// libfabric 1.17's shm provider takes a spin lock in the memory of the other side: a process that is killed with it in
// hand leaves it taken, and fi_cq_read then spins for ever (drivers/fabric/queue.h).
bool kills_are_survived(const Row& row) { return std::string_view(row.provider) != "shm"; }

TEST_P(Paths, KilledPeerLeavesNoOpBehind) {
  if (!kills_are_survived(GetParam())) GTEST_SKIP() << "shm: a killed peer may leave the provider's lock taken";
  Side a(device()), bystander(device()), witness(device());
  PeerProcess peer(GetParam(), a.address(), false);
  ASSERT_FALSE(HasFailure());
  a.connect(kPath, peer.address());
  join(a, bystander, PathId{1});
  ASSERT_TRUE(wait_for({&a}, [&] {
    a.send_burst(kPath, 8, 1024, 1);
    return a.inbox().size() > 100 && a.completed() > 100;
  })) << "the peer process never spoke";
  peer.kill();

  // In 10 s each accepted op is home, and what is offered is refused or ends.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (std::chrono::steady_clock::now() < until && a.ended(Code::kPeerDead) == 0) {
    a.send_burst(kPath, 8, 1024, 1);
    a.turn();
  }
  wait_for({&a}, [&] { return a.outstanding() == 0; });
  ASSERT_EQ(a.queue().close(kPath), Code::kOk);
  ASSERT_TRUE(wait_for({&a}, [&] { return a.outstanding() == 0; })) << a.outstanding() << " never came back";
  EXPECT_EQ(a.completed(), a.accepted());
  expect_exchange(a, bystander, PathId{1}, 7);  // others are not touched
}

TEST_P(Paths, SilentPeerKilledBeforeItEverPolled) {
  if (!kills_are_survived(GetParam())) GTEST_SKIP() << "shm: a killed peer may leave the provider's lock taken";
  Side a(device());
  PeerProcess peer(GetParam(), a.address(), true);
  ASSERT_FALSE(HasFailure());
  a.connect(kPath, peer.address());
  for (int i = 0; i < 100; ++i) {
    a.send_burst(kPath, kMaxBurst, 1024, 1);
    a.turn();
  }
  peer.kill();
  for (int i = 0; i < 100; ++i) {
    a.send_burst(kPath, kMaxBurst, 1024, 1);
    a.turn();
  }
  ASSERT_EQ(a.queue().close(kPath), Code::kOk);
  ASSERT_TRUE(wait_for({&a}, [&] { return a.outstanding() == 0; })) << a.outstanding() << " never came back";
  EXPECT_EQ(a.completed(), a.accepted());
}

TEST_P(Paths, RegionsRegisterOnceAtATime) {
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::create(RegionKind::kPlain, 1u << 20, &region).ok());
  ASSERT_TRUE(device().reg(*region, 0, false).ok());
  ASSERT_FALSE(region->keys(0).empty());
  uint64_t covered = 0;
  for (const ChunkKey& key : region->keys(0)) {
    EXPECT_EQ(key.offset, covered);
    covered += key.length;
  }
  EXPECT_EQ(covered, region->bytes());
  EXPECT_EQ(device().reg(*region, 0, false).code(), Code::kExists);
  EXPECT_TRUE(device().dereg(*region, 0).ok());
  EXPECT_TRUE(region->keys(0).empty());
  EXPECT_TRUE(device().reg(*region, 0, false).ok());
  EXPECT_TRUE(device().dereg(*region, 0).ok());
}

INSTANTIATE_TEST_SUITE_P(Rows, Paths, testing::ValuesIn(rows()), row_name);

}  // namespace
}  // namespace sluice::contract
