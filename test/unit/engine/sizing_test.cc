// What is said of settings that do not fit the device, the limits or the machine; where workers are placed.
#include "engine/sizing.h"

#include <gtest/gtest.h>

#include "base/log.h"
#include "engine/placement.h"
#include "two_nodes.h"

namespace sluice::test {
namespace {

NodeSettings defaults() {
  NodeSettings s;
  EXPECT_TRUE(read_node_settings(Settings({node_rows()}), &s).ok());
  return s;
}

TEST(Sizing, WhatFitsGivesNoLine) {
  NodeSettings s = defaults();
  const Sizing out = size_pools(s, "dev0", {1024, 1024});
  EXPECT_EQ(out.rx_slots, s.rx_slots);
  EXPECT_EQ(out.rx_slots_max, s.rx_slots_max);
  EXPECT_EQ(out.window, s.rx_slots_max);
  EXPECT_TRUE(out.chosen_cuts.empty());
  EXPECT_TRUE(out.default_cuts.empty());
}

TEST(Sizing, EachCutNamesSettingAskedGotAndWhy) {
  struct Row {
    uint32_t tx_depth, rx_slots, rx_slots_max, extent_slots;
    QueueDepth depth;
    uint32_t got_slots, got_max, got_window;
    std::vector<std::string> lines;
  };
  const std::string gives = " is used, the most that a queue on dev0 takes";
  const Row rows[] = {
      {4096, 16, 512, 16, {256, 1024}, 16, 512, 512, {"tx-depth = 4096: 256" + gives}},
      {0, 100, 200, 16, {256, 64}, 64, 64, 200, {"rx-slots = 100: 64" + gives, "rx-slots-max = 200: 64" + gives}},
      {0, 16, 500, 4, {256, 1024}, 16, 256, 500, {"rx-slots-max = 500: 256 is used, 64 extents of extent-slots = 4"}},
      {0,
       16,
       4096,
       256,
       {256, 65536},
       16,
       4096,
       1024,
       {"rx-slots-max = 4096: 1024 is used, the most for one peer; the rest is for others"}},
  };
  for (const Row& row : rows) {
    NodeSettings s = defaults();
    s.tx_depth = row.tx_depth;
    s.rx_slots = row.rx_slots;
    s.rx_slots_max = row.rx_slots_max;
    s.extent_slots = row.extent_slots;
    const Sizing out = size_pools(s, "dev0", row.depth);
    EXPECT_EQ(out.rx_slots, row.got_slots);
    EXPECT_EQ(out.rx_slots_max, row.got_max);
    EXPECT_EQ(out.window, row.got_window);
    EXPECT_EQ(out.chosen_cuts, row.lines);
    EXPECT_TRUE(out.default_cuts.empty());
  }
  const Sizing small = size_pools(defaults(), "dev0", {256, 256});
  EXPECT_TRUE(small.chosen_cuts.empty()) << "nobody asked for the default";
  EXPECT_EQ(small.default_cuts, std::vector<std::string>{"rx-slots-max = 512: 256" + gives});
}

TEST(Sizing, AFailedRegistrationSaysWhatIsShort) {
  EalFacts facts;
  facts.memlock_bytes = 1 << 20;
  const Status no_memory{Code::kNoMemory, "registering 2097152 bytes on dev0 failed"};
  const Status told = with_shortage(no_memory, facts, 3 << 20, 0);
  EXPECT_EQ(told.code(), Code::kNoMemory);
  EXPECT_EQ(told.text().rfind(no_memory.text() + "; locked memory: 3145728 bytes needed, the limit is 1048576", 0), 0u)
      << told.text();
  EXPECT_NE(told.text().find("ulimit -l"), std::string::npos) << told.text();
  facts.memlock_bytes = UINT64_MAX;
  EXPECT_EQ(with_shortage(no_memory, facts, 3 << 20, 0).text(), no_memory.text()) << "nothing is short";
  const Status other{Code::kDeviceError, "x"};
  EXPECT_EQ(with_shortage(other, EalFacts{}, UINT64_MAX, 0).text(), "x");
}

// What a start says on stderr.
std::string words_of_start(const NodeSettings& settings, Status* status) {
  testing::internal::CaptureStderr();
  OneNode node;
  *status = node.start(settings);
  node.engine.reset();
  return testing::internal::GetCapturedStderr();
}

TEST(Sizing, AStartTellsWhatItCutsAndWhatIsShort) {
  Status status;
  NodeSettings s = small_settings("cut");
  EXPECT_EQ(words_of_start(s, &status), "");
  EXPECT_TRUE(status.ok()) << status.describe();
  s.tx_depth = 5000;
  const std::string cut = words_of_start(s, &status);
  EXPECT_TRUE(status.ok()) << status.describe();
  EXPECT_NE(cut.find("tx-depth = 5000: 1024 is used"), std::string::npos) << cut;
  EXPECT_EQ(std::count(cut.begin(), cut.end(), '\n'), 1) << cut;
  s = small_settings("short");
  s.slot_bytes = 4 << 20;
  s.rx_slots = s.rx_slots_min = s.rx_slots_max = s.extent_slots = 65536;
  s.workers = 64;
  const std::string memory = words_of_start(s, &status);
  EXPECT_EQ(status.code(), Code::kNoMemory) << status.describe();
  EXPECT_NE(memory.find("memory: 17"), std::string::npos) << memory;
  EXPECT_NE(memory.find(" available"), std::string::npos) << memory;
}

TEST(Placement, WorkersRunOnTheNodeOfTheirDevice) {
  Machine machine;
  for (int cpu = 0; cpu < 8; ++cpu) machine.cpus.push_back({cpu, cpu, cpu / 4});
  machine.distance = {{10, 21}, {21, 10}};
  machine.devices = {{"nic1", 1}};
  NodeSettings s = defaults();
  s.workers = 2;
  for (const WorkerPlace& place : place_workers(s, machine, "nic1")) {
    EXPECT_GE(place.cpu, 4);
    EXPECT_EQ(place.may_use, (std::vector<int>{4, 5, 6, 7}));
  }
  s.cpus = {1, 6};
  const auto named = place_workers(s, machine, "nic1");
  ASSERT_EQ(named.size(), 2u);
  EXPECT_EQ(named[0].cpu, 1);
  EXPECT_EQ(named[0].may_use, std::vector<int>{1});
  EXPECT_EQ(named[1].may_use, std::vector<int>{6});
}

TEST(Placement, AMachineThatTellsNothingIsUsedWhole) {
  Machine machine;
  for (int cpu = 2; cpu < 5; ++cpu) machine.cpus.push_back({cpu, cpu, -1});
  NodeSettings s = defaults();
  s.workers = 4;
  const auto places = place_workers(s, machine, "");
  ASSERT_EQ(places.size(), 4u);
  for (const WorkerPlace& place : places) EXPECT_EQ(place.may_use, (std::vector<int>{2, 3, 4}));
  EXPECT_NE(places[0].cpu, places[1].cpu);
  s.cpus = {7, 7, 7, 7};  // EAL will refuse it, and says why
  EXPECT_EQ(place_workers(s, machine, "")[0].may_use, std::vector<int>{7});
}

TEST(Log, ALimitGivesOneLineAndThenCounts) {
  LogLimit limit;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 1000; ++i) limit.warn(5'000'000'000 + static_cast<uint64_t>(i), "peer", "refused");
  limit.warn(7'000'000'000, "peer", "refused");
  limit.warn(9'000'000'000, "peer", "refused");
  const std::string out = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 3) << out;
  EXPECT_NE(out.find("refused (and 999 lines not shown)\n"), std::string::npos) << out;
}

}  // namespace
}  // namespace sluice::test
