// The tables behind the engine: registered memory and open segments.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/data_plane.h"
#include "engine/memory_table.h"
#include "engine/segment_table.h"

namespace sluice::test {
namespace {

class Memory : public ::testing::Test {
 protected:
  Status add(uint64_t offset, uint64_t bytes, MemoryHandle* out) {
    std::unique_ptr<Region> region;
    EXPECT_TRUE(Region::import(memory_.data() + offset, bytes, &region).ok());
    return table_.add(&region, out);
  }
  std::array<std::byte, 4096> memory_{};
  MemoryTable table_{3};
};

TEST_F(Memory, RegistrationsDoNotOverlap) {
  MemoryHandle first, second;
  ASSERT_TRUE(add(1000, 1000, &first).ok());
  const std::pair<uint64_t, uint64_t> bad[] = {{1000, 1000}, {0, 1001}, {1999, 1}, {1500, 10}, {0, 4096}};
  for (const auto& [offset, bytes] : bad) EXPECT_EQ(add(offset, bytes, &second).code(), Code::kExists) << offset;
  EXPECT_TRUE(add(0, 1000, &second).ok());
  EXPECT_TRUE(add(2000, 96, &second).ok());
  EXPECT_NE(add(1000, 1000, &second).text().find("already"), std::string::npos);
  EXPECT_NE(add(1000, 999, &second).text().find("overlaps"), std::string::npos);
}

// Against a plain list: whatever comes and goes, an address is found in its registration and nowhere else.
TEST(Snapshot, FindsWhatIsThere) {
  constexpr size_t kPlaces = 3000, kBytes = 16;
  std::vector<std::byte> memory(kPlaces * kBytes);
  std::vector<bool> in(kPlaces);
  auto snapshot = std::make_shared<MemorySnapshot>();
  std::mt19937 rng(7);
  for (int step = 0; step < 6000; ++step) {
    const size_t at = rng() % kPlaces;
    std::byte* base = memory.data() + at * kBytes;
    if (in[at] && step > 4000)
      snapshot = snapshot->without(base);
    else if (!in[at])
      snapshot = snapshot->with({base, kBytes - 1, std::make_shared<MemoryUse>()});
    in[at] = in[at] ? step <= 4000 : true;
    if (step % 500 != 0) continue;
    for (size_t i = 0; i < kPlaces; ++i) {
      const MemorySpan* found = snapshot->find(memory.data() + i * kBytes + 3, 12);
      ASSERT_EQ(found != nullptr, in[i]) << i;
      ASSERT_TRUE(found == nullptr || found->base == memory.data() + i * kBytes) << i;
      ASSERT_EQ(snapshot->find(memory.data() + i * kBytes + 3, 13), nullptr);
    }
  }
}

TEST_F(Memory, AHandleEndsWithItsRegistration) {
  MemoryHandle first, second;
  ASSERT_TRUE(add(0, 100, &first).ok());
  const uint64_t version = table_.version();
  ASSERT_TRUE(table_.remove(first).ok());
  EXPECT_GT(table_.version(), version);
  EXPECT_EQ(table_.remove(first).code(), Code::kStale);
  ASSERT_TRUE(add(0, 100, &second).ok());
  EXPECT_NE(first, second);
  EXPECT_EQ(table_.remove(first).code(), Code::kStale);
  EXPECT_EQ(table_.remove(MemoryHandle{99}).code(), Code::kStale);
  EXPECT_TRUE(table_.remove(second).ok());
}

TEST_F(Memory, WhatIsInUseStays) {
  MemoryHandle handle;
  ASSERT_TRUE(add(0, 100, &handle).ok());
  const std::shared_ptr<MemoryUse> use = table_.snapshot()->find(memory_.data(), 1)->use;
  use->uses = 2;
  const Status s = table_.remove(handle);
  EXPECT_EQ(s.code(), Code::kBusy);
  EXPECT_NE(s.text().find("2 tasks"), std::string::npos) << s.text();
  EXPECT_FALSE(use->closing.load()) << "it can be used on";
  use->uses = 0;
  EXPECT_TRUE(table_.remove(handle).ok());
  EXPECT_TRUE(use->closing.load()) << "a port with the old snapshot sees that it has gone";
}

TEST_F(Memory, NothingIsKeptOfWhatWasUnregistered) {
  std::vector<std::weak_ptr<MemoryUse>> gone;
  const auto old = table_.snapshot();  // as a port that was not used since has it
  for (int i = 0; i < 100'000; ++i) {
    MemoryHandle handle;
    ASSERT_TRUE(add(0, 100, &handle).ok());
    if (i % 100 == 0) gone.push_back(table_.snapshot()->find(memory_.data(), 1)->use);
    ASSERT_TRUE(table_.remove(handle).ok());
  }
  for (const auto& use : gone) EXPECT_TRUE(use.expired());
  EXPECT_EQ(table_.snapshot()->find(memory_.data(), 1), nullptr);
}

TEST_F(Memory, ASnapshotKeepsWhatItNames) {
  MemoryHandle handle;
  ASSERT_TRUE(add(0, 100, &handle).ok());
  auto held = table_.snapshot();
  ASSERT_TRUE(table_.remove(handle).ok());
  EXPECT_TRUE(held->find(memory_.data(), 1)->use->closing.load());
  const std::weak_ptr<MemoryUse> use = held->find(memory_.data(), 1)->use;
  held.reset();
  EXPECT_TRUE(use.expired());
}

TEST_F(Memory, WhatIsExportedStaysUntilItIsForgotten) {
  MemoryHandle handle;
  ASSERT_TRUE(add(0, 100, &handle).ok());
  MemoryTable::Exported one, two;
  ASSERT_TRUE(table_.export_memory("pool", handle, &one).ok());
  ASSERT_TRUE(table_.export_memory("pool", handle, &two).ok());
  EXPECT_NE(one.id, two.id);
  std::vector<MemoryTable::Exported> buffers;
  ASSERT_TRUE(table_.segment("pool", &buffers).ok());
  EXPECT_EQ(buffers.size(), 2u);
  EXPECT_EQ(table_.remove(handle).code(), Code::kBusy);
  ASSERT_TRUE(table_.withdraw("pool", &buffers).ok());
  EXPECT_EQ(table_.segment("pool", &buffers).code(), Code::kNotFound);
  EXPECT_EQ(table_.withdraw("pool", &buffers).code(), Code::kNotFound);
  EXPECT_EQ(table_.remove(handle).code(), Code::kBusy);
  table_.forget(one.id);
  table_.forget(two.id);
  EXPECT_TRUE(table_.remove(handle).ok());
}

TEST_F(Memory, RefusesBadExports) {
  MemoryHandle handle;
  ASSERT_TRUE(add(0, 100, &handle).ok());
  MemoryTable::Exported out;
  EXPECT_EQ(table_.export_memory("", handle, &out).code(), Code::kBadArgument);
  EXPECT_EQ(table_.export_memory(std::string(256, 'n'), handle, &out).code(), Code::kBadArgument);
  EXPECT_EQ(table_.export_memory("pool", MemoryHandle{7}, &out).code(), Code::kStale);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(table_.export_memory("pool", handle, &out).ok());
  EXPECT_EQ(table_.export_memory("pool", handle, &out).code(), Code::kLimit);
  table_.forget(1);
  EXPECT_TRUE(table_.export_memory("other", handle, &out).ok());
  EXPECT_EQ(out.id % 4, 1u) << "places are used again";
  EXPECT_NE(out.id, 1u) << "numbers are not: a peer may have the old one";
}

std::unique_ptr<OpenSegment> segment(const char* name, uint16_t generation = 1) {
  auto s = std::make_unique<OpenSegment>();
  s->name = name;
  s->peer = PeerId{3};
  s->peer_generation = generation;
  s->buffers = {{0, 100}};
  return s;
}

TEST(Segments, TheSameSegmentOfTheSameLifeIsOneEntry) {
  const auto table = std::make_unique<SegmentTable>();
  SegmentHandle a, b, c;
  ASSERT_EQ(table->open(segment("pool"), &a), Code::kOk);
  ASSERT_EQ(table->open(segment("pool"), &b), Code::kOk);
  EXPECT_EQ(a, b);
  ASSERT_EQ(table->open(segment("other"), &c), Code::kOk);
  EXPECT_NE(a, c);
  EXPECT_EQ(table->close(a), Code::kOk);
  EXPECT_NE(table->find(a), nullptr) << "it was opened twice";
  EXPECT_EQ(table->close(a), Code::kOk);
  EXPECT_EQ(table->find(a), nullptr);
  EXPECT_EQ(table->close(a), Code::kStale);
  ASSERT_EQ(table->open(segment("pool"), &b), Code::kOk);
  EXPECT_NE(a, b) << "the place is used again, by another generation";
  EXPECT_EQ(table->find(a), nullptr);
}

TEST(Segments, ALostPeersSegmentsAreDeadAndItsNextLifeIsAnother) {
  const auto table = std::make_unique<SegmentTable>();
  SegmentHandle old, fresh;
  ASSERT_EQ(table->open(segment("pool", 1), &old), Code::kOk);
  table->peer_lost(PeerId{3}, 2);
  EXPECT_TRUE(table->find(old)->alive.load()) << "of another life";
  table->peer_lost(PeerId{3}, 1);
  EXPECT_FALSE(table->find(old)->alive.load());
  ASSERT_EQ(table->open(segment("pool", 2), &fresh), Code::kOk);
  EXPECT_NE(old, fresh);
  EXPECT_TRUE(table->find(fresh)->alive.load());
}

TEST(Segments, ClosedOnesAreFreedWhenNobodyReadsThemAnyMore) {
  const auto table = std::make_unique<SegmentTable>();
  SegmentReader reader;
  table->add_reader(&reader);
  SegmentHandle handle;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(table->open(segment(std::to_string(i).c_str()), &handle), Code::kOk);
    ASSERT_EQ(table->close(handle), Code::kOk);
  }
  EXPECT_EQ(table->kept(), 0u);
  ASSERT_EQ(table->open(segment("read"), &handle), Code::kOk);
  {
    const SegmentReader::Section reading(reader, *table);
    const OpenSegment* found = table->find(handle);
    ASSERT_EQ(table->close(handle), Code::kOk);
    EXPECT_EQ(found->name, "read");
    EXPECT_EQ(table->kept(), 1u);
  }
  ASSERT_EQ(table->open(segment("other"), &handle), Code::kOk);
  EXPECT_EQ(table->kept(), 0u);
  table->remove_reader(&reader);
}

TEST(Extents, NamesNeverComeAgainAndFit) {
  std::set<std::string> names;
  for (const uint64_t number : {0ull, 1ull, 999'999ull, 1'000'000ull, 1'000'001ull, 9'999'999'999'999ull}) {
    EXPECT_TRUE(names.insert(extent_name(number)).second) << number;
    EXPECT_LE(extent_name(number).size(), 20u);
  }
}

// The place of a closed segment is opened for the next one while somebody looks the old handle up.
TEST(Segments, AnOldHandleNeverGivesANewSegment) {
  const auto table = std::make_unique<SegmentTable>();
  constexpr uint16_t kLives = 8'000;
  std::atomic<uint64_t> last{0};
  std::atomic<bool> done{false};
  uint64_t found = 0, wrong = 0;
  SegmentReader reading;
  table->add_reader(&reading);
  std::thread reader([&] {
    while (!done.load(std::memory_order_relaxed)) {
      const SegmentHandle handle{last.load(std::memory_order_relaxed)};
      const SegmentReader::Section section(reading, *table);
      const OpenSegment* segment = table->find(handle);
      if (segment == nullptr) continue;
      ++found;
      if (segment->peer_generation != static_cast<uint64_t>(handle) >> 32) ++wrong;
    }
  });
  for (uint16_t life = 1; life <= kLives; ++life) {
    SegmentHandle handle;
    ASSERT_EQ(table->open(segment("pool", life), &handle), Code::kOk);
    ASSERT_EQ(static_cast<uint64_t>(handle), uint64_t{life} << 32) << "the same place, the next generation";
    last = static_cast<uint64_t>(handle);
    ASSERT_EQ(table->close(handle), Code::kOk);
  }
  done = true;
  reader.join();
  table->remove_reader(&reading);
  EXPECT_EQ(wrong, 0u) << "of " << found;
}

TEST(Segments, HandlesThatNeverWereAreRefused) {
  const auto table = std::make_unique<SegmentTable>();
  EXPECT_EQ(table->find(SegmentHandle{}), nullptr);
  EXPECT_EQ(table->find(SegmentHandle{UINT64_MAX}), nullptr);
  EXPECT_EQ(table->find(SegmentHandle{1ull << 32 | 5}), nullptr);
}

}  // namespace
}  // namespace sluice::test
