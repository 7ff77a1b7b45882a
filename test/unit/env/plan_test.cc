#include "env/plan.h"

#include <gtest/gtest.h>

#include <set>

namespace sluice {
namespace {

// @p sockets of @p cores each; CPU ids run over all sockets' cores first, then over their second hardware threads.
Machine machine(int sockets, int cores, int threads) {
  Machine made;
  for (int t = 0; t < threads; ++t)
    for (int s = 0; s < sockets; ++s)
      for (int c = 0; c < cores; ++c) made.cpus.push_back({(t * sockets + s) * cores + c, s * cores + c, s});
  made.distance.assign(static_cast<size_t>(sockets), std::vector<uint32_t>(static_cast<size_t>(sockets), 21));
  for (size_t i = 0; i < made.distance.size(); ++i) made.distance[i][i] = 10;
  return made;
}

std::set<int> cpus_of(const Plan& made) {
  std::set<int> cpus;
  for (const WorkerPlan& worker : made.workers) cpus.insert(worker.cpu);
  return cpus;
}

TEST(Plan, TwoCoresOneNode) {
  Machine small = machine(1, 2, 1);
  small.devices = {{"eth0", -1}};
  const Plan one = plan(small, {.rails = {"eth0"}});
  ASSERT_EQ(one.workers.size(), 1u);
  EXPECT_EQ(one.workers[0].rails, std::vector<uint32_t>{0});
  EXPECT_EQ(one.penalty, std::vector<uint32_t>{1});  // there is only one node to be on
  EXPECT_TRUE(one.control_shares);
  EXPECT_EQ(one.control_cpu, one.workers[0].cpu);

  const Plan apart = plan(small, {.rails = {"eth0"}, .own_control_cpu = true});
  EXPECT_FALSE(apart.control_shares);
  EXPECT_NE(apart.control_cpu, apart.workers[0].cpu);

  const Plan many = plan(small, {.workers = 5, .rails = {"eth0"}, .own_control_cpu = true});
  EXPECT_EQ(cpus_of(many), (std::set<int>{0, 1}));  // they share
  EXPECT_TRUE(many.control_shares);
  for (const WorkerPlan& worker : many.workers) EXPECT_EQ(worker.rails.size(), 1u);
}

TEST(Plan, TwoSocketsEightDevicesEachServedFromItsOwn) {
  Machine large = machine(2, 16, 2);
  PlanRequest request{.workers = 8};
  for (int i = 0; i < 8; ++i) {
    large.devices.push_back({"mlx5_" + std::to_string(i), i % 2});  // interleaved, on purpose
    request.rails.push_back(large.devices.back().name);
  }
  for (uint32_t workers : {2u, 4u, 8u, 16u}) {
    request.workers = workers;
    const Plan made = plan(large, request);
    std::multiset<uint32_t> served;
    std::set<int> cores;
    for (const WorkerPlan& worker : made.workers) {
      EXPECT_EQ(worker.rails.size(), std::max(1u, 8 / workers));
      for (uint32_t rail : worker.rails) EXPECT_EQ(large.cpus[static_cast<size_t>(worker.cpu)].numa, rail % 2);
      served.insert(worker.rails.begin(), worker.rails.end());
      cores.insert(large.cpus[static_cast<size_t>(worker.cpu)].core);
    }
    EXPECT_EQ(made.penalty, std::vector<uint32_t>(8, 1));
    for (uint32_t rail = 0; rail < 8; ++rail) EXPECT_GE(served.count(rail), 1u);
    EXPECT_EQ(cores.size(), workers);  // no two on the threads of one core
  }
}

TEST(Plan, OneWorkerServesBothSocketsAtAPrice) {
  Machine large = machine(2, 4, 1);
  large.devices = {{"near", 0}, {"far", 1}};
  const Plan made = plan(large, {.rails = {"near", "far"}});
  EXPECT_EQ(made.workers[0].rails, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(made.penalty, (std::vector<uint32_t>{1, 5}));
  large.distance[0][1] = large.distance[1][0] = 32;
  EXPECT_EQ(plan(large, {.rails = {"near", "far"}}).penalty, (std::vector<uint32_t>{1, 10}));
}

TEST(Plan, SocketWithoutDeviceStaysIdle) {
  Machine large = machine(2, 4, 1);
  large.devices = {{"mlx5_0", 1}};
  const Plan made = plan(large, {.workers = 3, .rails = {"mlx5_0"}, .own_control_cpu = true});
  for (const WorkerPlan& worker : made.workers) EXPECT_GE(worker.cpu, 4);
  EXPECT_GE(made.control_cpu, 4);
  EXPECT_EQ(cpus_of(made).size(), 3u);
  // More workers than the near socket has: the other's CPUs before two on one.
  EXPECT_EQ(cpus_of(plan(large, {.workers = 6, .rails = {"mlx5_0"}})).size(), 6u);
}

TEST(Plan, NoDeviceAtAll) {
  const Plan made = plan(machine(1, 4, 1), {.workers = 2});
  EXPECT_EQ(cpus_of(made).size(), 2u);
  EXPECT_TRUE(made.workers[0].rails.empty());
  EXPECT_TRUE(made.penalty.empty());
}

TEST(Plan, KeepsToARestrictedSet) {
  Machine part = machine(2, 8, 1);
  std::erase_if(part.cpus, [](const MachineCpu& cpu) { return cpu.id != 3 && cpu.id != 12; });
  part.devices = {{"a", 0}, {"b", 1}};
  const Plan made = plan(part, {.workers = 2, .rails = {"a", "b"}});
  EXPECT_EQ(made.workers[0].cpu, 3);
  EXPECT_EQ(made.workers[1].cpu, 12);
  EXPECT_EQ(made.penalty, (std::vector<uint32_t>{1, 1}));
}

TEST(Plan, UnknownPlaceIsNeitherNearNorFar) {
  Machine large = machine(2, 4, 1);
  large.devices = {{"vnic", -1}, {"mlx5_0", 1}};
  const Plan made = plan(large, {.workers = 2, .rails = {"vnic", "unlisted", "mlx5_0"}});
  EXPECT_EQ(made.penalty, (std::vector<uint32_t>{5, 5, 1}));
}

TEST(Plan, GivenCpusAreTaken) {
  const Plan made = plan(machine(1, 8, 1), {.workers = 3, .cpus = {7, 2}, .rails = {"x"}});
  EXPECT_EQ(made.workers[0].cpu, 7);
  EXPECT_EQ(made.workers[1].cpu, 2);
  EXPECT_EQ(made.workers[2].cpu, 7);
}

TEST(Plan, NothingIsStillAPlan) {
  const Plan made = plan({}, {.workers = 0, .own_control_cpu = true});
  ASSERT_EQ(made.workers.size(), 1u);
  EXPECT_EQ(made.workers[0].cpu, 0);
  EXPECT_TRUE(made.control_shares);
}

TEST(Machine, IsReadFromHwloc) {
  Machine here;
  const Status status = read_machine(&here);
  ASSERT_TRUE(status.ok()) << status.text();
  EXPECT_FALSE(here.cpus.empty());
  EXPECT_FALSE(here.distance.empty());
  for (const auto& row : here.distance) EXPECT_EQ(row.size(), here.distance.size());
  for (const MachineCpu& cpu : here.cpus) EXPECT_LT(cpu.numa, static_cast<int>(here.distance.size()));
}

}  // namespace
}  // namespace sluice
