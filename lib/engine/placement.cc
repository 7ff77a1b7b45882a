#include "engine/placement.h"

namespace sluice {

std::vector<WorkerPlace> place_workers(const NodeSettings& settings, const Machine& machine, const std::string& rail) {
  PlanRequest request;
  request.workers = settings.workers;
  request.cpus = settings.cpus;
  if (!rail.empty()) request.rails.push_back(rail);
  std::vector<WorkerPlace> places;
  for (const WorkerPlan& worker : plan(machine, request).workers) {
    WorkerPlace place{worker.cpu, {}};
    int numa = -1;
    for (const MachineCpu& cpu : machine.cpus)
      if (cpu.id == worker.cpu) numa = cpu.numa;
    for (const MachineCpu& cpu : machine.cpus)
      if (settings.cpus.empty() ? cpu.numa == numa || numa < 0 : cpu.id == worker.cpu) place.may_use.push_back(cpu.id);
    if (place.may_use.empty()) place.may_use.push_back(worker.cpu);
    places.push_back(std::move(place));
  }
  return places;
}

}  // namespace sluice
