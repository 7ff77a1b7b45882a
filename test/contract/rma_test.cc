// What the door promises about one-sided operations.
#include <algorithm>

#include "side.h"

namespace sluice::contract {
namespace {

constexpr PathId kPath{0};
constexpr uint16_t kIndex = 1;  // Side registers its own memory as device 0

// Memory that peers may touch, as long as it lives.
class Exported {
 public:
  Exported(Device& device, uint64_t bytes) : device_(device) {
    EXPECT_TRUE(Region::create(RegionKind::kPlain, bytes, &region_).ok());
    const Status status = device.reg(*region_, kIndex, true);
    EXPECT_TRUE(status.ok()) << status.describe();
  }
  ~Exported() { withdraw(); }
  Exported(const Exported&) = delete;
  Exported& operator=(const Exported&) = delete;

  void withdraw() {
    if (region_->keys(kIndex).empty()) return;
    EXPECT_TRUE(device_.dereg(*region_, kIndex).ok());
  }
  std::byte* base() const { return region_->base(); }
  const ChunkKey& key() const { return region_->keys(kIndex).at(0); }
  Bytes bytes(uint64_t offset, size_t count) const { return {base() + offset, base() + offset + count}; }

 private:
  Device& device_;
  std::unique_ptr<Region> region_;
};

class OneSided : public Contract {
 protected:
  OneSided() : Contract({.rma = true}) {}

  /// Offer until accepted, and turn both until everything of @p a is home.
  static bool done(Side& a, Side& b, const std::function<bool()>& offer) {
    return wait_for({&a, &b}, offer) && wait_for({&a, &b}, [&] { return a.outstanding() == 0; });
  }
  /// Wait until writes have landed: where a completion does not say so, a read behind them does.
  bool landed(Side& a, Side& b, const ChunkKey& key) {
    return device().caps().delivery_complete || done(a, b, [&] { return a.read(kPath, 1, key, 0); });
  }
};

TEST_P(OneSided, DeviceSaysThatItCan) { EXPECT_TRUE(device().caps().rma); }

TEST_P(OneSided, AWriteLandsWhereItShouldAndNowhereElse) {
  constexpr uint64_t kBytes = 2u << 20;
  Side a(device(), {.msg_bytes = 1u << 20}), b(device(), {.msg_bytes = 64});
  join(a, b);
  Exported memory(device(), kBytes);
  for (const size_t size : {size_t{1}, size_t{63}, size_t{64}, size_t{4096}, size_t{1} << 20}) {
    for (const uint64_t offset : {uint64_t{0}, uint64_t{4097}, kBytes - size}) {
      std::fill_n(memory.base(), kBytes, std::byte{0xee});
      const Bytes sent = pattern(size, size + offset);
      ASSERT_TRUE(done(a, b, [&] { return a.write(kPath, sent, memory.key(), offset); })) << size << " at " << offset;
      ASSERT_TRUE(landed(a, b, memory.key()));
      EXPECT_EQ(memory.bytes(offset, size), sent) << size << " at " << offset;
      const auto touched = [&](uint64_t from, uint64_t to) {
        return std::any_of(memory.base() + from, memory.base() + to, [](std::byte x) { return x != std::byte{0xee}; });
      };
      EXPECT_FALSE(touched(0, offset) || touched(offset + size, kBytes)) << size << " at " << offset;
    }
  }
  EXPECT_EQ(a.ended(Code::kOk), a.accepted());
}

TEST_P(OneSided, AReadBringsWhatIsThere) {
  constexpr uint64_t kBytes = 1u << 20;
  Side a(device(), {.msg_bytes = kBytes}), b(device(), {.msg_bytes = 64});
  join(a, b);
  Exported memory(device(), kBytes);
  const Bytes all = pattern(kBytes, 7);
  std::ranges::copy(all, memory.base());
  for (const size_t size : {size_t{1}, size_t{64}, size_t{4095}, size_t{kBytes}}) {
    const uint64_t offset = kBytes - size;
    ASSERT_TRUE(done(a, b, [&] { return a.read(kPath, size, memory.key(), offset); })) << size;
    ASSERT_EQ(a.fetched().size(), 1u) << size;
    EXPECT_EQ(a.fetched()[0], memory.bytes(offset, size)) << size;
    a.fetched().clear();
  }
}

TEST_P(OneSided, AWriteOfTwoPiecesIsOne) {
  if (device().caps().sge < 2) GTEST_SKIP() << "the device takes one piece";
  Side a(device()), b(device());
  join(a, b);
  Exported memory(device(), 4096);
  const Bytes sent = pattern(2000, 3);
  ASSERT_TRUE(done(a, b, [&] { return a.write(kPath, sent, memory.key(), 96, 64); }));
  ASSERT_TRUE(landed(a, b, memory.key()));
  EXPECT_EQ(memory.bytes(96, 2000), sent);
}

// More than the depth, both kinds mixed with messages: each accepted op ends once.
TEST_P(OneSided, MixesWithMessages) {
  constexpr size_t kRounds = 300, kCell = 256;
  Side a(device(), {.tx_depth = 32}), b(device());
  join(a, b);
  Exported memory(device(), kRounds * kCell);
  std::fill_n(memory.base(), kRounds * kCell, std::byte{0});
  for (size_t i = 0; i < kRounds; ++i) {
    ASSERT_TRUE(wait_for({&a, &b}, [&] { return a.write(kPath, pattern(kCell, i), memory.key(), i * kCell); })) << i;
    ASSERT_TRUE(wait_for({&a, &b}, [&] { return a.send(kPath, pattern(32, i)); })) << i;
    if (i % 3 != 0) continue;
    ASSERT_TRUE(wait_for({&a, &b}, [&] { return a.read(kPath, 8, memory.key(), 0); })) << i;
  }
  ASSERT_TRUE(wait_for({&a, &b}, [&] { return a.outstanding() == 0 && b.inbox().size() == kRounds; }));
  ASSERT_TRUE(landed(a, b, memory.key()));
  for (size_t i = 0; i < kRounds; ++i) ASSERT_EQ(memory.bytes(i * kCell, kCell), pattern(kCell, i)) << i;
  EXPECT_EQ(a.ended(Code::kOk), a.accepted());
  EXPECT_EQ(a.completed(), a.accepted());
}

TEST_P(OneSided, AWrongKeyOrRangeFailsAndTouchesNothing) {
  if (!GetParam().checks_keys) GTEST_SKIP() << "this provider checks neither: the layer above does";
  constexpr uint64_t kBytes = 4096;
  for (const int wrong : {0, 1, 2}) {
    Side a(device()), b(device());  // of each trial its own: a provider may drop the connection
    join(a, b);
    Exported memory(device(), kBytes);
    std::fill_n(memory.base(), kBytes, std::byte{0xee});
    ChunkKey key = memory.key();
    uint64_t offset = 0;
    if (wrong == 0) key.remote_key ^= 0x5a0000;
    if (wrong == 1) offset = kBytes - 10;
    if (wrong == 2) memory.withdraw();
    ASSERT_TRUE(done(a, b, [&] { return a.write(kPath, pattern(64, 1), key, offset); })) << wrong;
    EXPECT_EQ(a.ended(Code::kOk), 0u) << wrong;
    EXPECT_TRUE(std::all_of(memory.base(), memory.base() + kBytes, [](std::byte x) { return x == std::byte{0xee}; }))
        << wrong;
  }
}

class InChunks : public Contract {
 protected:
  static constexpr uint64_t kChunk = 64 << 10;
  InChunks() : Contract({.rma = true, .max_region_bytes = kChunk}) {}
};

// A region beyond the cap is covered by chunks, without gap or overlap, and each chunk's key reaches its bytes.
TEST_P(InChunks, EachKeyReachesItsOwnBytes) {
  constexpr uint64_t kBytes = 3 * kChunk + 100;
  Side a(device(), {.msg_bytes = kChunk}), b(device(), {.msg_bytes = 64});
  join(a, b);
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::create(RegionKind::kPlain, kBytes, &region).ok());
  std::fill_n(region->base(), kBytes, std::byte{0xee});
  ASSERT_TRUE(device().reg(*region, kIndex, true).ok());
  uint64_t at = 0;
  for (const ChunkKey& key : region->keys(kIndex)) {
    EXPECT_EQ(key.offset, at);
    EXPECT_LE(key.length, kChunk);
    at += key.length;
    ASSERT_TRUE(wait_for({&a, &b}, [&] { return a.write(kPath, pattern(key.length, at), key, 0); }));
    ASSERT_TRUE(wait_for({&a, &b}, [&] { return a.outstanding() == 0; }));
    ASSERT_TRUE(wait_for({&a, &b}, [&] { return a.read(kPath, 1, key, key.length - 1); }));
    ASSERT_TRUE(wait_for({&a, &b}, [&] { return a.outstanding() == 0; }));
  }
  EXPECT_EQ(at, kBytes);
  EXPECT_EQ(region->keys(kIndex).size(), 4u);
  EXPECT_EQ(a.ended(Code::kOk), a.accepted());
  for (const ChunkKey& key : region->keys(kIndex)) {
    const Bytes there(region->base() + key.offset, region->base() + key.offset + key.length);
    EXPECT_EQ(there, pattern(key.length, key.offset + key.length)) << key.offset;
  }
  EXPECT_TRUE(device().dereg(*region, kIndex).ok());
}

class NotOneSided : public Contract {};

TEST_P(NotOneSided, ADeviceForMessagesRefusesThem) {
  EXPECT_FALSE(device().caps().rma);
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::create(RegionKind::kPlain, 4096, &region).ok());
  EXPECT_EQ(device().reg(*region, kIndex, true).code(), Code::kUnsupported);
  EXPECT_TRUE(region->keys(kIndex).empty());
  Side a(device()), b(device());
  join(a, b);
  ASSERT_TRUE(wait_for({&a, &b}, [&] { return a.write(kPath, pattern(64, 1), ChunkKey{}, 0); }));
  ASSERT_TRUE(wait_for({&a, &b}, [&] { return a.outstanding() == 0; }));
  EXPECT_EQ(a.ended(Code::kBadArgument), 1u);
}

INSTANTIATE_TEST_SUITE_P(Rows, OneSided, testing::ValuesIn(rows()), row_name);
INSTANTIATE_TEST_SUITE_P(Rows, InChunks, testing::ValuesIn(rows()), row_name);
INSTANTIATE_TEST_SUITE_P(Rows, NotOneSided, testing::ValuesIn(rows()), row_name);

}  // namespace
}  // namespace sluice::contract
