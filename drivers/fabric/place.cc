#include "place.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace sluice::fabric {
namespace {

template <typename T>
T read_number(const std::string& path, T otherwise) {
  T value = otherwise;
  std::ifstream file(path);
  return file >> value ? value : otherwise;
}

/// The last part of the link @p path when it is a PCI address; else empty.
std::string pci_of(const std::string& path) {
  char target[512];
  const ssize_t length = ::readlink(path.c_str(), target, sizeof target - 1);
  if (length <= 0) return {};
  std::string name(target, static_cast<size_t>(length));
  name.erase(0, name.rfind('/') + 1);
  unsigned part[4];
  char rest;
  return std::sscanf(name.c_str(), "%x:%x:%x.%x%c", &part[0], &part[1], &part[2], &part[3], &rest) == 4 ? name : "";
}

}  // namespace

Place read_place(const std::string& sys, const std::string& device, const std::string& pci) {
  constexpr uint64_t kMega = 1'000'000;
  Place place;
  place.pci = pci;
  for (const char* kind : {"net", "infiniband", "cxi"}) {
    std::string folder = sys + "/class/";
    folder.append(kind).append("/").append(device);
    if (::access(folder.c_str(), F_OK) != 0) continue;
    if (place.pci.empty()) place.pci = pci_of(folder + "/device");
    place.numa_node = read_number(folder + "/device/numa_node", -1);
    // Of a network interface megabits; of an RDMA port text that begins with gigabits.
    const auto megabits = read_number<int64_t>(folder + "/speed", 0);
    if (megabits > 0) place.bits_per_s = static_cast<uint64_t>(megabits) * kMega;
    const auto gigabits = read_number<double>(folder + "/ports/1/rate", 0);
    if (gigabits > 0) place.bits_per_s = static_cast<uint64_t>(gigabits * 1000) * kMega;
    break;
  }
  if (place.numa_node < 0 && !place.pci.empty())
    place.numa_node = read_number(sys + "/bus/pci/devices/" + place.pci + "/numa_node", -1);
  return place;
}

}  // namespace sluice::fabric
