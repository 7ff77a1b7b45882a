#include "mem/bounce_pool.h"

#include <gtest/gtest.h>
#include <rte_mempool.h>

#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>

#include "main.h"

namespace sluice {
namespace {
constexpr uint32_t kSlotBytes = 1000;  // no multiple of a cache line, on purpose

std::unique_ptr<Extent> make_extent(uint32_t slots, uint32_t slot_bytes = kSlotBytes) {
  static int made = 0;
  std::unique_ptr<Extent> extent;
  const Status status =
      Extent::make(RegionKind::kPlain, ("t" + std::to_string(made++)).c_str(), slots, slot_bytes, &extent);
  EXPECT_TRUE(status.ok()) << status.text();
  return extent;
}

ExtentId add(BouncePool& pool, uint32_t slots) {
  ExtentId id{};
  EXPECT_EQ(pool.add_extent(make_extent(slots), &id), Code::kOk);
  return id;
}

std::vector<Slot> take(BouncePool& pool, uint32_t n) {
  std::vector<Slot> slots(n);
  slots.resize(pool.get(slots));
  return slots;
}

TEST(Extent, RefusesBadArguments) {
  std::unique_ptr<Extent> out;
  EXPECT_EQ(Extent::make(RegionKind::kPlain, "z", 0, 64, &out).code(), Code::kBadArgument);
  EXPECT_EQ(Extent::make(RegionKind::kPlain, "z", 1, 0, &out).code(), Code::kBadArgument);
  EXPECT_EQ(Extent::make(RegionKind::kPlain, "z", UINT32_MAX, 64, &out).code(), Code::kBadArgument);
  EXPECT_EQ(Extent::make(RegionKind::kPlain, "z", 1, UINT32_MAX, &out).code(), Code::kBadArgument);
  EXPECT_EQ(Extent::make(RegionKind::kPlain, "a_name_of_21_letters_", 1, 64, &out).code(), Code::kBadArgument);
  EXPECT_EQ(out, nullptr);
}

TEST(Extent, RefusesANameInUseAndTakesItAgainLater) {
  std::unique_ptr<Extent> first;
  std::unique_ptr<Extent> second;
  ASSERT_TRUE(Extent::make(RegionKind::kPlain, "same", 4, 64, &first).ok());
  const Status status = Extent::make(RegionKind::kPlain, "same", 4, 64, &second);
  EXPECT_EQ(status.code(), Code::kBadArgument);
  EXPECT_NE(status.text().find("name is in use"), std::string::npos) << status.text();
  first.reset();
  EXPECT_TRUE(Extent::make(RegionKind::kPlain, "same", 4, 64, &second).ok());
}

TEST(BouncePool, SlotsAreAlignedApartAndInsideTheRegion) {
  for (uint32_t bytes : {1u, 64u, 1000u, 4096u, 65536u}) {
    BouncePool pool(bytes, 0);
    auto extent = make_extent(33, bytes);
    const Region& region = extent->region();
    ExtentId id{};
    ASSERT_EQ(pool.add_extent(std::move(extent), &id), Code::kOk);
    std::set<uintptr_t> starts;
    for (const Slot& slot : take(pool, 64)) {
      EXPECT_TRUE(region.contains(slot.addr, bytes));
      std::memset(slot.addr, 0xff, bytes);
      starts.insert(reinterpret_cast<uintptr_t>(slot.addr));
    }
    ASSERT_EQ(starts.size(), 33u);
    uintptr_t end = 0;
    for (uintptr_t start : starts) {
      EXPECT_EQ(start % 64, 0u);
      EXPECT_GE(start, end);
      end = start + bytes;
    }
  }
}

TEST(BouncePool, GivesNoMoreThanThereIs) {
  BouncePool pool(kSlotBytes, 0);
  EXPECT_TRUE(take(pool, 4).empty());
  add(pool, 100);
  add(pool, 30);
  EXPECT_EQ(pool.live_slots(), 130u);
  EXPECT_EQ(pool.free_slots(), 130u);
  auto all = take(pool, 200);
  EXPECT_EQ(all.size(), 130u);
  EXPECT_EQ(pool.free_slots(), 0u);
  EXPECT_EQ(pool.out_slots(), 130u);
  std::set<SlotHandle> handles;
  for (const Slot& slot : all) handles.insert(slot.handle);
  EXPECT_EQ(handles.size(), 130u);
  EXPECT_FALSE(handles.contains(SlotHandle::kNone));
  for (const Slot& slot : all) EXPECT_EQ(pool.put(slot.handle), Code::kOk);
  EXPECT_EQ(pool.free_slots(), 130u);
  EXPECT_EQ(pool.out_slots(), 0u);
}

TEST(BouncePool, LastInIsFirstOut) {
  BouncePool pool(kSlotBytes, 0);
  add(pool, 256);
  auto slots = take(pool, 8);
  for (const Slot& slot : slots) ASSERT_EQ(pool.put(slot.handle), Code::kOk);
  auto again = take(pool, 8);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(again[i].handle, slots[7 - i].handle);
}

TEST(BouncePool, DrawsOnTheLowestExtentFirst) {
  BouncePool pool(kSlotBytes, 0);
  add(pool, 128);
  const ExtentId second = add(pool, 128);
  take(pool, 128);
  ExtentId victim{};
  ASSERT_EQ(pool.pick_victim(&victim), Code::kOk);
  EXPECT_EQ(victim, second);
}

TEST(BouncePool, PutIsRefusedTwiceAndForWhatNeverWas) {
  BouncePool pool(kSlotBytes, 0);
  add(pool, 8);
  const Slot slot = take(pool, 1)[0];
  EXPECT_EQ(pool.put(slot.handle), Code::kOk);
  EXPECT_EQ(pool.put(slot.handle), Code::kStale);
  EXPECT_EQ(pool.put(SlotHandle::kNone), Code::kStale);
  EXPECT_EQ(pool.put(SlotHandle{UINT64_MAX}), Code::kStale);
  EXPECT_EQ(pool.put(SlotHandle{1ull << 32 | 8}), Code::kStale);           // index beyond
  EXPECT_EQ(pool.put(SlotHandle{2ull << 32 | 0}), Code::kStale);           // generation to come
  EXPECT_EQ(pool.put(SlotHandle{1ull << 56 | 1ull << 32}), Code::kStale);  // extent that is not
  EXPECT_EQ(pool.stale_puts(), 6u);
  EXPECT_EQ(pool.free_slots(), 8u);
  Slot found{};
  EXPECT_FALSE(pool.find(slot.handle, &found));
}

TEST(BouncePool, FindGivesTheSlotThatIsOut) {
  BouncePool pool(kSlotBytes, 2);
  auto extent = make_extent(8);
  extent->region().keys(2).push_back({0, extent->region().bytes(), 77, 0, 0, nullptr});
  ExtentId id{};
  ASSERT_EQ(pool.add_extent(std::move(extent), &id), Code::kOk);
  for (const Slot& slot : take(pool, 8)) {
    Slot found{};
    ASSERT_TRUE(pool.find(slot.handle, &found));
    EXPECT_EQ(found.addr, slot.addr);
    EXPECT_EQ(found.local_desc, 77u);
    EXPECT_EQ(found.handle, slot.handle);
  }
}

TEST(BouncePool, RefusesExtentsThatDoNotFit) {
  BouncePool pool(kSlotBytes, 0);
  ExtentId id{};
  EXPECT_EQ(pool.add_extent(nullptr, &id), Code::kBadArgument);
  EXPECT_EQ(pool.add_extent(make_extent(4, 64), &id), Code::kBadArgument);
  auto chunked = make_extent(4);
  chunked->region().keys(0).resize(2);
  EXPECT_EQ(pool.add_extent(std::move(chunked), &id), Code::kBadArgument);
  for (uint32_t i = 0; i < BouncePool::kMaxExtents; ++i) EXPECT_EQ(pool.add_extent(make_extent(1), &id), Code::kOk);
  EXPECT_EQ(pool.add_extent(make_extent(1), &id), Code::kLimit);
  EXPECT_EQ(take(pool, 100).size(), BouncePool::kMaxExtents);
}

TEST(BouncePool, RetiringWaitsForTheLastSlot) {
  BouncePool pool(kSlotBytes, 0);
  const ExtentId first = add(pool, 4);
  EXPECT_EQ(pool.pick_victim(nullptr), Code::kLimit);
  add(pool, 4);
  auto slots = take(pool, 2);
  EXPECT_EQ(pool.retire_extent(first), Code::kOk);
  EXPECT_EQ(pool.retire_extent(first), Code::kBusy);
  EXPECT_EQ(pool.retire_extent(ExtentId{5}), Code::kStale);
  EXPECT_EQ(pool.retire_extent(ExtentId{999}), Code::kStale);
  EXPECT_EQ(pool.live_slots(), 4u);
  EXPECT_EQ(pool.free_slots(), 4u);
  EXPECT_EQ(pool.out_slots(), 2u);
  EXPECT_EQ(pool.pick_victim(nullptr), Code::kLimit);
  EXPECT_EQ(pool.take_retired(), nullptr);
  EXPECT_EQ(take(pool, 8).size(), 4u);  // none of the retiring one
  EXPECT_EQ(pool.put(slots[0].handle), Code::kOk);
  EXPECT_EQ(pool.take_retired(), nullptr);
  EXPECT_EQ(pool.put(slots[1].handle), Code::kOk);
  auto gone = pool.take_retired();
  ASSERT_NE(gone, nullptr);
  EXPECT_TRUE(rte_mempool_full(gone->mempool()));
  EXPECT_EQ(pool.retiring(), 0u);
  EXPECT_EQ(pool.extents(), 1u);
  EXPECT_EQ(pool.take_retired(), nullptr);
}

TEST(BouncePool, HandlesOfADeadExtentAreRefusedAlsoInItsSuccessor) {
  BouncePool pool(kSlotBytes, 0);
  const ExtentId first = add(pool, 4);
  auto old = take(pool, 4);
  for (const Slot& slot : old) ASSERT_EQ(pool.put(slot.handle), Code::kOk);
  ASSERT_EQ(pool.retire_extent(first), Code::kOk);
  ASSERT_NE(pool.take_retired(), nullptr);
  Slot found{};
  for (const Slot& slot : old) EXPECT_EQ(pool.put(slot.handle), Code::kStale);
  EXPECT_EQ(add(pool, 4), first);  // the entry is used again
  auto fresh = take(pool, 4);
  for (const Slot& slot : old) {
    EXPECT_FALSE(pool.find(slot.handle, &found));
    EXPECT_EQ(pool.put(slot.handle), Code::kStale);
  }
  EXPECT_EQ(pool.out_slots(), 4u);
  for (const Slot& slot : fresh) EXPECT_EQ(pool.put(slot.handle), Code::kOk);
}

TEST(BouncePool, AnExtentPassesFromPoolToPool) {
  BouncePool one(kSlotBytes, 0);
  BouncePool two(kSlotBytes, 0);
  const ExtentId id = add(one, 8);
  auto slots = take(one, 3);
  for (const Slot& slot : slots) ASSERT_EQ(one.put(slot.handle), Code::kOk);
  ASSERT_EQ(one.retire_extent(id), Code::kOk);
  ExtentId other{};
  ASSERT_EQ(two.add_extent(one.take_retired(), &other), Code::kOk);
  EXPECT_EQ(take(two, 9).size(), 8u);
}

// Random traffic against a reference that knows who holds which slot: once out, once home.
class BouncePoolRandom : public testing::TestWithParam<unsigned> {
 protected:
  struct Life {
    uint32_t slots;
    bool retiring;
    uint32_t out;
  };

  uint32_t draw(size_t below) { return static_cast<uint32_t>(rng_() % below); }
  void get_some() {
    for (const Slot& slot : take(pool_, draw(40))) {
      ASSERT_TRUE(held_.emplace(slot.addr, slot.handle).second) << "given out twice";
      Life& life = lives_.at(raw(slot.handle) >> 56);
      ASSERT_FALSE(life.retiring);
      ++life.out;
    }
  }
  void put_some() {
    for (uint32_t n = draw(40); n > 0 && !held_.empty(); --n) {
      auto it = std::next(held_.begin(), draw(held_.size()));
      ASSERT_EQ(pool_.put(it->second), Code::kOk);
      --lives_.at(raw(it->second) >> 56).out;
      dead_.push_back(it->second);
      held_.erase(it);
    }
    if (dead_.empty()) return;
    const SlotHandle handle = dead_[draw(dead_.size())];  // home now, perhaps out again under the same name
    for (const auto& [addr, out] : held_)
      if (out == handle) return;
    ASSERT_EQ(pool_.put(handle), Code::kStale);
  }
  void grow() {
    if (lives_.size() >= 6) return;
    const uint32_t slots = 1 + draw(100);
    ASSERT_TRUE(lives_.emplace(raw(add(pool_, slots)), Life{slots, false, 0}).second);
  }
  void shrink() {
    ExtentId id{};
    if (pool_.pick_victim(&id) == Code::kOk) {
      ASSERT_EQ(pool_.retire_extent(id), Code::kOk);
      lives_.at(raw(id)).retiring = true;
    }
  }
  void collect() {
    uint32_t due = 0;
    for (const auto& [id, life] : lives_) due += life.retiring && life.out == 0;
    while (auto gone = pool_.take_retired()) {
      ASSERT_GT(due--, 0u);
      ASSERT_TRUE(rte_mempool_full(gone->mempool()));
    }
    ASSERT_EQ(due, 0u);
    std::erase_if(lives_, [](const auto& entry) { return entry.second.retiring && entry.second.out == 0; });
  }
  void check() {
    uint32_t live = 0;
    uint32_t home = 0;
    uint32_t retiring = 0;
    for (const auto& [id, life] : lives_) {
      live += life.retiring ? 0 : life.slots;
      home += life.retiring ? 0 : life.slots - life.out;
      retiring += life.retiring;
    }
    ASSERT_EQ(pool_.live_slots(), live);
    ASSERT_EQ(pool_.free_slots(), home);
    ASSERT_EQ(pool_.out_slots(), held_.size());
    ASSERT_EQ(pool_.extents(), lives_.size());
    ASSERT_EQ(pool_.retiring(), retiring);
  }

  BouncePool pool_{kSlotBytes, 0};
  std::mt19937 rng_{GetParam()};
  std::map<std::byte*, SlotHandle> held_;
  std::map<uint64_t, Life> lives_;
  std::vector<SlotHandle> dead_;
};

TEST_P(BouncePoolRandom, OnceOutOnceHome) {
  for (int step = 0; step < 3000 && !HasFatalFailure(); ++step) {
    switch (draw(16)) {
      case 0: grow(); break;
      case 1: shrink(); break;
      case 2: collect(); break;
      default: draw(2) == 0 ? get_some() : put_some();
    }
    check();
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, BouncePoolRandom, testing::Range(1u, 21u));

TEST(BouncePool, GetAndPutNeverTouchTheHeap) {
  BouncePool pool(kSlotBytes, 0);
  add(pool, 200);
  ExtentId extra_id{};
  auto extra = make_extent(50);
  std::array<Slot, 150> slots;
  const uint64_t before = heap_calls();
  ASSERT_EQ(pool.add_extent(std::move(extra), &extra_id), Code::kOk);
  for (uint32_t round = 0; round < 10000; ++round) {
    const uint32_t n = pool.get(std::span(slots).first(1 + round % 150));
    for (uint32_t i = 0; i < n; ++i) pool.put(slots[i].handle);
  }
  ASSERT_EQ(pool.retire_extent(extra_id), Code::kOk);
  extra = pool.take_retired();
  EXPECT_EQ(heap_calls(), before);
  EXPECT_NE(extra, nullptr);
}

}  // namespace
}  // namespace sluice
