/// @file plan.h
/// Which CPU each worker takes, which rails it serves, and where control sits.
///
/// Model    plan() is a pure function of a description of the machine, so that machines we do not have can be tested.
///          read_machine() describes this one. Rails are spread evenly over the workers, each worker near its rails.
/// Threads  Slow calls, any thread.
/// Memory   Allocates.
/// Errors   read_machine gives kSystemError. plan() always answers: with too few CPUs, workers share them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace sluice {

struct MachineCpu {
  int id;
  int core;  ///< Physical core; hardware threads of one core share it.
  int numa;  ///< -1: unknown.
};

struct MachineDevice {
  std::string name;
  int numa;  ///< -1: unknown.
};

struct Machine {
  std::vector<MachineCpu> cpus;  ///< Those that this process may use.
  std::vector<MachineDevice> devices;
  std::vector<std::vector<uint32_t>> distance;  ///< By NUMA node, 10 for itself as firmware counts; may be empty.
};

struct PlanRequest {
  uint32_t workers = 1;
  std::vector<int> cpus = {};           ///< Of the workers, in order; empty: the plan chooses.
  std::vector<std::string> rails = {};  ///< Device names. One that the machine does not list has no known place.
  bool own_control_cpu = false;         ///< Control on a CPU of its own where one is left.
};

struct WorkerPlan {
  int cpu;
  std::vector<uint32_t> rails;  ///< Indices into PlanRequest::rails; each rail has a worker, and each worker a rail.
};

struct Plan {
  std::vector<WorkerPlan> workers;
  int control_cpu;                ///< The CPU of control; a worker's when they share.
  bool control_shares;            ///< Control runs on worker 0's lcore.
  std::vector<uint32_t> penalty;  ///< Of each rail to its worker: 1 near, 5 one hop or unknown, 10 farther.
};

/// What a transfer between two NUMA nodes costs: 1 inside one, 5 one hop or unknown, 10 farther.
uint32_t numa_penalty(const Machine& machine, int a, int b) noexcept;

Plan plan(const Machine& machine, const PlanRequest& request);

/// This machine, as hwloc and the process's affinity describe it. @return kSystemError.
Status read_machine(Machine* out);

}  // namespace sluice
