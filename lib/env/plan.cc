#include "env/plan.h"

#include <algorithm>
#include <climits>
#include <numeric>
#include <tuple>

namespace sluice {
namespace {
constexpr uint32_t kOneHop = 21;  // firmware writes 20 or 21 for the other socket

int device_numa(const Machine& machine, std::string_view name) noexcept {
  for (const MachineDevice& device : machine.devices)
    if (device.name == name) return device.numa;
  return -1;
}

int cpu_numa(const Machine& machine, int id) noexcept {
  for (const MachineCpu& cpu : machine.cpus)
    if (cpu.id == id) return cpu.numa;
  return -1;
}

// The CPU for one more agent near @p numa: the least shared, then the nearest, then one whose core has least to do.
int choose_cpu(const Machine& machine, const std::vector<int>& taken, int numa) {
  const auto core_of = [&](int id) {
    for (const MachineCpu& cpu : machine.cpus)
      if (cpu.id == id) return cpu.core;
    return -1;
  };
  int best = 0;
  std::tuple<long, uint32_t, long, int> least{LONG_MAX, 0, 0, 0};
  for (const MachineCpu& cpu : machine.cpus) {
    const long here = std::ranges::count(taken, cpu.id);
    const long core = std::ranges::count_if(taken, [&](int id) { return core_of(id) == cpu.core; });
    const std::tuple cost{here, numa_penalty(machine, cpu.numa, numa), core, cpu.id};
    if (cost >= least) continue;
    least = cost;
    best = cpu.id;
  }
  return best;
}
}  // namespace

uint32_t numa_penalty(const Machine& machine, int a, int b) noexcept {
  if (machine.distance.size() == 1 || (a == b && a >= 0)) return 1;
  if (a < 0 || b < 0) return 5;
  const auto i = static_cast<size_t>(a);
  const auto j = static_cast<size_t>(b);
  if (i >= machine.distance.size() || j >= machine.distance[i].size()) return 5;
  return machine.distance[i][j] <= kOneHop ? 5 : 10;
}

Plan plan(const Machine& machine, const PlanRequest& request) {
  const uint32_t workers = std::max(1u, request.workers);
  const auto rails = static_cast<uint32_t>(request.rails.size());
  std::vector<int> numa;
  for (const std::string& rail : request.rails) numa.push_back(device_numa(machine, rail));
  std::vector<uint32_t> by_numa(rails);
  std::iota(by_numa.begin(), by_numa.end(), 0);
  std::ranges::stable_sort(by_numa, {},
                           [&](uint32_t rail) { return static_cast<unsigned>(numa[rail]); });  // unknown last
  // Worker w starts beside the rail that stands w/workers of the way along.
  const auto anchor = [&](uint32_t w) { return by_numa[uint64_t{w} * rails / workers]; };

  Plan made{};
  std::vector<int> taken;
  for (uint32_t w = 0; w < workers; ++w) {
    const int cpu = request.cpus.empty() ? choose_cpu(machine, taken, rails == 0 ? -1 : numa[anchor(w)])
                                         : request.cpus[w % request.cpus.size()];
    taken.push_back(cpu);
    made.workers.push_back({cpu, {}});
  }
  for (uint32_t rail = 0; rail < rails; ++rail) {
    const auto cost = [&](const WorkerPlan& worker) {
      return std::pair(numa_penalty(machine, cpu_numa(machine, worker.cpu), numa[rail]), worker.rails.size());
    };
    WorkerPlan& worker = *std::ranges::min_element(made.workers, {}, cost);
    made.penalty.push_back(cost(worker).first);
    worker.rails.push_back(rail);
  }
  for (uint32_t w = 0; w < workers && rails != 0; ++w)
    if (made.workers[w].rails.empty()) made.workers[w].rails.push_back(anchor(w));

  const int first = made.workers.front().cpu;
  made.control_cpu = request.own_control_cpu ? choose_cpu(machine, taken, cpu_numa(machine, first)) : first;
  if (std::ranges::find(taken, made.control_cpu) != taken.end()) made.control_cpu = first;
  made.control_shares = made.control_cpu == first;
  return made;
}

}  // namespace sluice
