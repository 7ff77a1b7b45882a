/// @file place.h
/// Where a device sits, as the kernel tells it: for what libfabric leaves out.
///
/// Model    Read from the folder of the device's class (net, infiniband, cxi) and of its PCI device.
/// Threads  Slow calls, any thread.
/// Memory   Allocates.
/// Errors   What is not told stays unknown.
#pragma once

#include <cstdint>
#include <string>

namespace sluice::fabric {

struct Place {
  std::string pci;  ///< Empty: none.
  int numa_node = -1;
  uint64_t bits_per_s = 0;
};

/// @p sys: where sysfs is. @p pci: the device's PCI address where it is known already, else empty.
Place read_place(const std::string& sys, const std::string& device, const std::string& pci);

}  // namespace sluice::fabric
