#include <hwloc.h>

#include <memory>

#include "env/eal_args.h"
#include "env/plan.h"

namespace sluice {
namespace {
using Topology = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

int numa_of(hwloc_const_bitmap_t nodes) noexcept {
  // Memory that spans all nodes names none of them.
  return nodes != nullptr && hwloc_bitmap_weight(nodes) == 1 ? hwloc_bitmap_first(nodes) : -1;
}

void read_distances(hwloc_topology_t topology, Machine* machine) {
  const int deepest = hwloc_bitmap_last(hwloc_topology_get_topology_nodeset(topology));
  const size_t nodes = deepest < 0 ? 1 : static_cast<size_t>(deepest) + 1;
  machine->distance.assign(nodes, std::vector<uint32_t>(nodes, 20));
  for (size_t i = 0; i < nodes; ++i) machine->distance[i][i] = 10;
  unsigned count = 1;
  hwloc_distances_s* found = nullptr;
  const unsigned long kind = HWLOC_DISTANCES_KIND_MEANS_LATENCY;
  if (hwloc_distances_get_by_type(topology, HWLOC_OBJ_NUMANODE, &count, &found, kind, 0) != 0 || count == 0) return;
  for (unsigned i = 0; i < found->nbobjs; ++i)
    for (unsigned j = 0; j < found->nbobjs; ++j)
      machine->distance[found->objs[i]->os_index][found->objs[j]->os_index] =
          static_cast<uint32_t>(found->values[i * found->nbobjs + j]);
  hwloc_distances_release(topology, found);
}
}  // namespace

Status read_machine(Machine* out) {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return {Code::kSystemError, "hwloc does not start: no memory for its topology"};
  const Topology topology(made, hwloc_topology_destroy);
  // Linux tells all that is needed. These would start GPU drivers, or (pci) leak what they allocate.
  for (const char* component : {"pci", "cuda", "nvml", "opencl", "rsmi", "levelzero", "gl"})
    hwloc_topology_set_components(made, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
  hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_load(made) != 0)
    return {Code::kSystemError, "hwloc cannot read the machine: is /sys mounted in this container?"};
  Machine machine;
  for (int cpu : read_eal_facts().allowed_cpus) {
    hwloc_obj_t unit = hwloc_get_pu_obj_by_os_index(made, static_cast<unsigned>(cpu));
    hwloc_obj_t core = unit != nullptr ? hwloc_get_ancestor_obj_by_type(made, HWLOC_OBJ_CORE, unit) : nullptr;
    machine.cpus.push_back({cpu, core != nullptr ? static_cast<int>(core->logical_index) : cpu,
                            unit != nullptr ? numa_of(unit->nodeset) : -1});
  }
  for (hwloc_obj_t device = nullptr; (device = hwloc_get_next_osdev(made, device)) != nullptr;) {
    const auto type = device->attr->osdev.type;
    if (type != HWLOC_OBJ_OSDEV_NETWORK && type != HWLOC_OBJ_OSDEV_OPENFABRICS) continue;
    hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(made, device);
    machine.devices.push_back({device->name, place != nullptr ? numa_of(place->nodeset) : -1});
  }
  read_distances(made, &machine);
  *out = std::move(machine);
  return Code::kOk;
}

}  // namespace sluice
