// Small bounce pools, and the clock that tests turn by hand.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "mem/bounce_pool.h"

namespace sluice::test {

inline uint64_t fake_now = 1;
inline uint64_t fake_ticks() noexcept { return fake_now; }

inline std::unique_ptr<Extent> make_extent(uint32_t slots, uint32_t slot_bytes) {
  static uint32_t number = 0;
  std::unique_ptr<Extent> extent;
  const Status s =
      Extent::make(RegionKind::kPlain, ("ua_" + std::to_string(number++)).c_str(), slots, slot_bytes, &extent);
  EXPECT_TRUE(s.ok()) << s.describe();
  return extent;
}
inline std::unique_ptr<BouncePool> make_pool(uint32_t extents, uint32_t slots, uint32_t slot_bytes) {
  auto pool = std::make_unique<BouncePool>(slot_bytes, uint16_t{0});
  for (uint32_t i = 0; i < extents; ++i) {
    ExtentId id;
    EXPECT_EQ(pool->add_extent(make_extent(slots, slot_bytes), &id), Code::kOk);
  }
  return pool;
}

}  // namespace sluice::test
