// Requests of mode kv: as the models' configurations make them, and how their descriptors lie.
#include "kv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace sluice::bench {
namespace {

Status shape_of(std::vector<std::string> words, KvShape* out) {
  Settings settings({kv_rows()});
  std::string help;
  Status status = settings.parse_command_line("bench", "", words, &help);
  return status.ok() ? read_kv_shape(settings, out) : status;
}

struct Published {
  const char* model;
  const char* ranks;
  uint32_t count_by_layer;
  uint64_t bytes_by_layer, bytes_by_block;
};

TEST(KvShapes, AreThoseOfTheModels) {
  constexpr uint64_t kK = 1024;
  for (const Published& row : {Published{"llama-3-70b", "1", 40960, 64 * kK, 5120 * kK},
                               {"llama-3-70b", "8", 40960, 8 * kK, 640 * kK},
                               {"llama-3.1-8b", "1", 16384, 64 * kK, 2048 * kK},
                               {"qwen3-235b", "1", 48128, 32 * kK, 3008 * kK},
                               {"qwen3-235b", "4", 48128, 8 * kK, 752 * kK},
                               {"qwen3-235b", "8", 48128, 8 * kK, 752 * kK},
                               {"deepseek-v3", "1", 31232, 18 * kK, 1098 * kK},
                               {"deepseek-v3", "8", 31232, 18 * kK, 1098 * kK}}) {
    KvShape shape;
    ASSERT_TRUE(shape_of({"--kv-model", row.model, "--kv-tensor-parallel", row.ranks}, &shape).ok());
    EXPECT_EQ(shape.descriptors, row.count_by_layer) << row.model;
    EXPECT_EQ(shape.block, row.bytes_by_layer) << row.model;
    ASSERT_TRUE(
        shape_of({"--kv-model", row.model, "--kv-tensor-parallel", row.ranks, "--kv-layout", "block"}, &shape).ok());
    EXPECT_EQ(shape.descriptors, 512u) << row.model;
    EXPECT_EQ(shape.block, row.bytes_by_block) << row.model;
  }
  KvShape shape;
  ASSERT_TRUE(shape_of({"--kv-page", "64", "--kv-tokens", "8193"}, &shape).ok());
  EXPECT_EQ(shape.descriptors, 80u * 129);
  EXPECT_EQ(shape.block, 256u * 1024);
}

// Runs are contiguous and no longer than asked for; all of the memory is used, and nothing beside it.
TEST(KvShapes, RunsAreAsLongAsAskedFor) {
  for (const uint64_t run : {1u, 4u, 16u, 0u}) {
    for (const char* memory : {"1G", "1M", "64k"}) {
      KvShape shape;
      ASSERT_TRUE(shape_of({"--kv-model", "deepseek-v3", "--kv-tokens", "160", "--kv-run", std::to_string(run),
                            "--kv-memory", memory},
                           &shape)
                      .ok());
      ASSERT_EQ(shape.offsets.size(), shape.descriptors);
      const uint64_t slots = shape.range_bytes / shape.block;
      const uint64_t length = run == 0 ? slots : std::min(run, slots);
      EXPECT_EQ(slots % length, 0u);
      for (uint64_t i = 1; i < shape.descriptors; ++i) {
        const bool follows = shape.offsets[i] == shape.offsets[i - 1] + shape.block;
        const bool inside = i % length != 0;
        if (inside || slots / length > 2) {
          EXPECT_EQ(follows, inside) << i << " in runs of " << length << " of " << slots;
        }
      }
      const std::set<uint64_t> places(shape.offsets.begin(), shape.offsets.end());
      EXPECT_EQ(places.size(), slots);
      EXPECT_EQ(*places.rbegin() + shape.block, shape.range_bytes);
    }
  }
}

TEST(KvShapes, RefusesWhatCannotBeShared) {
  KvShape shape;
  const Status status = shape_of({"--kv-tensor-parallel", "3"}, &shape);
  EXPECT_EQ(status.code(), Code::kBadArgument);
  EXPECT_NE(status.text().find("has 8 heads"), std::string::npos) << status.text();
  EXPECT_EQ(shape_of({"--kv-tokens", "1048576", "--kv-page", "1"}, &shape).code(), Code::kBadArgument);
  EXPECT_TRUE(shape_of({"--kv-model", "deepseek-v3", "--kv-tensor-parallel", "3"}, &shape).ok());
}

}  // namespace
}  // namespace sluice::bench
