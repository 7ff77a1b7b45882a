#include "program/device_list.h"

#include <cstdio>

#include "engine/engine.h"

namespace sluice {

Status print_devices(const NodeSettings& node) {
  std::vector<DeviceEntry> devices;
  if (Status s = Engine::list_devices(node, &devices); !s.ok()) return s;
  std::printf("%-24s %-14s %-8s %-5s %s\n", "DEVICE", "PROVIDER", "GBIT/S", "NUMA", "ADDRESS");
  for (const DeviceEntry& d : devices) {
    const std::string rate = d.bits_per_s != 0 ? std::to_string(d.bits_per_s / 1'000'000'000) : "-";
    const std::string numa = d.numa_node >= 0 ? std::to_string(d.numa_node) : "-";
    std::printf("%-24s %-14s %-8s %-5s %s\n", d.name.c_str(), d.provider.empty() ? "-" : d.provider.c_str(),
                rate.c_str(), numa.c_str(), d.address.c_str());
  }
  return Code::kOk;
}

}  // namespace sluice
