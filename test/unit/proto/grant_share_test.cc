#include "proto/grant_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace sluice {
namespace {

using Window = GrantShare::Window;

std::vector<Window> share(GrantShare& grants, size_t room = 64) {
  std::vector<Window> out(room);
  out.resize(grants.share(out));
  return out;
}

uint32_t slots_of(const std::vector<Window>& windows, uint32_t session) {
  for (const Window& w : windows)
    if (w.session == session) return w.slots;
  return 0;
}

TEST(GrantShare, AddRefusesWhatCannotBe) {
  GrantShare grants(4);
  grants.set_capacity(10);
  EXPECT_EQ(grants.add(4, 1, 1), Code::kBadArgument);
  EXPECT_EQ(grants.add(0, 0, 1), Code::kBadArgument);
  EXPECT_EQ(grants.add(0, 3, 2), Code::kBadArgument);
  EXPECT_EQ(grants.add(0, 11, 11), Code::kLimit);
  EXPECT_EQ(grants.add(0, 6, 10), Code::kOk);
  EXPECT_EQ(grants.add(0, 1, 10), Code::kExists);
  EXPECT_EQ(grants.add(1, 5, 10), Code::kLimit);
  EXPECT_EQ(grants.add(1, 4, 0xFFFFFFFF), Code::kOk);
  EXPECT_EQ(grants.promised(), 10u);
  EXPECT_EQ(grants.remove(2), Code::kNotFound);
  EXPECT_EQ(grants.remove(9), Code::kNotFound);
  EXPECT_EQ(grants.remove(0), Code::kOk);
  EXPECT_EQ(grants.remove(0), Code::kNotFound);
  EXPECT_EQ(grants.promised(), 4u);
}

TEST(GrantShare, FloorsAreGrantedWithoutDemand) {
  GrantShare grants(3);
  grants.set_capacity(30);
  for (uint32_t s = 0; s < 3; ++s) ASSERT_EQ(grants.add(s, 2 + s, 20), Code::kOk);
  const auto windows = share(grants);
  ASSERT_EQ(windows.size(), 3u);
  for (uint32_t s = 0; s < 3; ++s) EXPECT_EQ(slots_of(windows, s), 2 + s);
  EXPECT_FALSE(grants.short_of_slots());
  EXPECT_TRUE(share(grants).empty()) << "what was given counts as held";
}

TEST(GrantShare, OneWithDemandGetsAllUpToItsCeiling) {
  GrantShare grants(2);
  grants.set_capacity(30);
  ASSERT_EQ(grants.add(0, 2, 20), Code::kOk);
  ASSERT_EQ(grants.add(1, 2, 20), Code::kOk);
  grants.update(0, 0, true);
  EXPECT_EQ(slots_of(share(grants), 0), 20u);
  EXPECT_FALSE(grants.short_of_slots());
  grants.update(1, 2, true);
  EXPECT_EQ(slots_of(share(grants), 1), 10u);
  EXPECT_TRUE(grants.short_of_slots());
  EXPECT_EQ(grants.promised(), 30u);
}

TEST(GrantShare, LoweringRevokesNothingAndFloorsStay) {
  GrantShare grants(2);
  grants.set_capacity(40);
  ASSERT_EQ(grants.add(0, 4, 36), Code::kOk);
  ASSERT_EQ(grants.add(1, 4, 36), Code::kOk);
  grants.update(0, 0, true);
  ASSERT_EQ(slots_of(share(grants), 0), 36u);
  grants.set_capacity(16);
  EXPECT_EQ(grants.promised(), 40u);
  grants.update(1, 0, true);
  auto windows = share(grants);
  ASSERT_EQ(windows.size(), 1u) << "nobody's window falls, only the floor is given";
  EXPECT_EQ(slots_of(windows, 1), 4u);
  EXPECT_TRUE(grants.short_of_slots());
  grants.update(0, 20, true);
  EXPECT_TRUE(share(grants).empty()) << "still above the capacity: windows stop growing";
  grants.update(0, 10, true);
  windows = share(grants);
  EXPECT_EQ(slots_of(windows, 0) + slots_of(windows, 1), 11u + 5u);
  EXPECT_EQ(grants.promised(), 16u);
}

TEST(GrantShare, WhatDoesNotFitTheSpanComesInTheNextCall) {
  GrantShare grants(8);
  grants.set_capacity(80);
  for (uint32_t s = 0; s < 8; ++s) ASSERT_EQ(grants.add(s, 1, 10), Code::kOk);
  for (uint32_t s = 0; s < 8; ++s) grants.update(s, 0, true);
  std::vector<uint32_t> windows(8);
  for (int call = 0; call < 40; ++call)
    for (const Window& w : share(grants, 3)) windows[w.session] = w.slots;
  EXPECT_EQ(windows, std::vector<uint32_t>(8, 10));
  EXPECT_TRUE(share(grants, 0).empty());
}

// One free slot at a time: everybody has it in turn.
TEST(GrantShare, ASingleSlotGoesRound) {
  GrantShare grants(3);
  grants.set_capacity(4);
  for (uint32_t s = 0; s < 3; ++s) ASSERT_EQ(grants.add(s, 1, 4), Code::kOk);
  share(grants, 0);
  std::vector<int> turns(3);
  for (uint32_t s = 0; s < 3; ++s) grants.update(s, 1, true);
  for (int call = 0; call < 30; ++call) {
    const auto windows = share(grants);
    ASSERT_EQ(windows.size(), 1u);
    ASSERT_EQ(windows[0].slots, 2u);
    ++turns[windows[0].session];
    grants.update(windows[0].session, 1, true);
  }
  EXPECT_EQ(turns, std::vector<int>(3, 10));
}

double jain(const std::vector<uint64_t>& x) {
  double sum = 0, squares = 0;
  for (uint64_t v : x) sum += static_cast<double>(v), squares += static_cast<double>(v) * static_cast<double>(v);
  return sum * sum / (static_cast<double>(x.size()) * squares);
}

// N peers with always more to send; each turn every one uses up some of what it holds. One of them came first and
// holds all there is.
TEST(GrantShare, IncastOfEqualPeersIsFair) {
  for (uint32_t peers : {2u, 3u, 7u, 16u, 61u}) {
    std::mt19937 rng(peers);
    GrantShare grants(peers);
    const uint32_t capacity = peers * 3 + 5;
    grants.set_capacity(capacity);
    std::vector<uint32_t> held(peers);
    std::vector<uint64_t> moved(peers);
    for (uint32_t s = 0; s < peers; ++s) ASSERT_EQ(grants.add(s, 1, capacity), Code::kOk);
    grants.update(0, 0, true);
    for (const Window& w : share(grants)) held[w.session] = w.slots;
    for (int turn = 0; turn < 4000; ++turn) {
      for (uint32_t s = 0; s < peers; ++s) {
        const auto used = std::min<uint32_t>(held[s], static_cast<uint32_t>(rng() % 4));
        held[s] -= used;
        moved[s] += used;
        grants.update(s, held[s], true);
      }
      for (const Window& w : share(grants)) {
        ASSERT_GE(w.slots, held[w.session]) << "a window never falls";
        held[w.session] = w.slots;
      }
      ASSERT_LE(grants.promised(), capacity);
      ASSERT_LE(std::accumulate(held.begin(), held.end(), 0u), capacity);
      for (uint32_t s = 0; s < peers; ++s) ASSERT_GE(held[s], 1u) << "the floor, always";
      if (turn == 200) std::fill(moved.begin(), moved.end(), 0);  // the first one's lead is used up
    }
    EXPECT_GE(jain(moved), 0.95) << peers << " peers";
  }
}

TEST(GrantShare, RandomOperationsKeepThePromise) {
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    std::mt19937 rng(seed);
    constexpr uint32_t kSessions = 12;
    GrantShare grants(kSessions);
    struct Member {
      bool present = false;
      uint32_t floor = 0, ceiling = 0, held = 0;
    };
    std::vector<Member> members(kSessions);
    const auto promised = [&] {
      uint32_t sum = 0;
      for (const Member& m : members) sum += m.present ? std::max(m.floor, m.held) : 0;
      return sum;
    };
    uint32_t capacity = 100;
    grants.set_capacity(capacity);
    for (int step = 0; step < 4000; ++step) {
      const auto s = static_cast<uint32_t>(rng() % kSessions);
      Member& m = members[s];
      const uint32_t before = promised();
      switch (rng() % 8) {
        case 0: {
          const auto floor = static_cast<uint32_t>(1 + rng() % 6), ceiling = static_cast<uint32_t>(floor + rng() % 50);
          const Code code = grants.add(s, floor, ceiling);
          if (m.present) {
            ASSERT_EQ(code, Code::kExists);
          } else {
            ASSERT_EQ(code == Code::kOk, before + floor <= capacity);
            if (code == Code::kOk) m = {true, floor, ceiling, 0};
          }
          break;
        }
        case 1:
          ASSERT_EQ(grants.remove(s), m.present ? Code::kOk : Code::kNotFound);
          m = {};
          break;
        case 2:
          capacity = rng() % 3 == 0 ? before / 2 : static_cast<uint32_t>(50 + rng() % 100);
          grants.set_capacity(capacity);
          break;
        case 3:
        case 4:
        case 5:
          m.held = m.held == 0 ? 0 : static_cast<uint32_t>(rng() % (m.held + 1));
          grants.update(s, m.held, rng() % 4 != 0);
          break;
        default:
          for (const Window& w : share(grants, rng() % 14)) {
            ASSERT_TRUE(members[w.session].present);
            ASSERT_GT(w.slots, members[w.session].held) << "only rising windows are told, and none falls";
            ASSERT_LE(w.slots, members[w.session].ceiling);
            members[w.session].held = w.slots;
          }
          ASSERT_LE(promised(), std::max(capacity, before)) << "above the capacity nothing grows but the floors";
      }
      ASSERT_EQ(grants.promised(), promised()) << "seed " << seed << " step " << step;
    }
  }
}

}  // namespace
}  // namespace sluice
