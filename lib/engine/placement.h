/// @file placement.h
/// Where the workers of a node run.
///
/// Model    With `cpus` each worker has the CPU that was named. Without, the plan (env/plan.h) chooses one near the
///          device for each, and the worker may run on any CPU of that CPU's NUMA node: other processes may be there.
/// Threads  Any.
/// Memory   Slow; allocates.
/// Errors   None: a machine that tells nothing gives CPUs in turn.
#pragma once

#include <string>
#include <vector>

#include "env/node_settings.h"
#include "env/plan.h"

namespace sluice {

struct WorkerPlace {
  int cpu;
  std::vector<int> may_use;  ///< That CPU alone when it was named.
};

/// @p rail: the device's name as in @p machine; empty when its place does not matter.
std::vector<WorkerPlace> place_workers(const NodeSettings& settings, const Machine& machine, const std::string& rail);

}  // namespace sluice
