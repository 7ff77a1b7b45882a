#include "program/device_list.h"

#include <cstdio>

#include "engine/engine.h"

namespace sluice {
namespace {
const char* or_dash(const std::string& text) { return text.empty() ? "-" : text.c_str(); }
}  // namespace

Status print_devices(const NodeSettings& node) {
  std::vector<DeviceEntry> devices;
  if (Status s = Engine::list_devices(node, &devices); !s.ok()) return s;
  std::printf("%-24s %-14s %-8s %-5s %-13s %s\n", "DEVICE", "PROVIDER", "GBIT/S", "NUMA", "PCI", "ADDRESS");
  bool offered = true;
  for (const DeviceEntry& d : devices) {
    if (offered && !d.left_out.empty()) std::printf("left out:\n");
    offered = d.left_out.empty();
    const std::string rate = d.bits_per_s != 0 ? std::to_string(d.bits_per_s / 1'000'000'000) : "-";
    const std::string numa = d.numa_node >= 0 ? std::to_string(d.numa_node) : "-";
    std::printf("%-24s %-14s %-8s %-5s %-13s %s%s%s\n", or_dash(d.name), or_dash(d.provider), rate.c_str(),
                numa.c_str(), or_dash(d.pci), or_dash(d.address), offered ? "" : "  ", d.left_out.c_str());
  }
  return Code::kOk;
}

}  // namespace sluice
