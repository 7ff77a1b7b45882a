// Where a device sits, on canned folders.
#include "fabric/place.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace sluice::fabric {
namespace {

namespace fs = std::filesystem;

class PlaceOf : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/sluice_place_XXXXXX";
    root_ = ::mkdtemp(name);
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& file, const std::string& text) {
    fs::create_directories(fs::path(root_ + file).parent_path());
    std::ofstream(root_ + file) << text;
  }
  /// A device of @p kind that hangs on a PCI device.
  void make(const std::string& kind, const std::string& name, const std::string& pci, const std::string& node) {
    write("/devices/" + pci + "/numa_node", node);
    fs::create_directories(root_ + "/class/" + kind + "/" + name);
    fs::create_symlink("../../../devices/" + pci, root_ + "/class/" + kind + "/" + name + "/device");
  }
  std::string root_;
};

TEST_F(PlaceOf, ANetworkInterfaceTellsMegabits) {
  make("net", "eth0", "0000:c1:00.1", "1\n");
  write("/class/net/eth0/speed", "25000\n");
  const Place place = read_place(root_, "eth0", "");
  EXPECT_EQ(place.pci, "0000:c1:00.1");
  EXPECT_EQ(place.numa_node, 1);
  EXPECT_EQ(place.bits_per_s, 25'000'000'000u);
}

TEST_F(PlaceOf, AnRdmaPortTellsGigabits) {
  make("infiniband", "rdmap1s0", "0001:00:1f.0", "0\n");
  write("/class/infiniband/rdmap1s0/ports/1/rate", "100 Gb/sec (4X EDR)\n");
  const Place place = read_place(root_, "rdmap1s0", "");
  EXPECT_EQ(place.pci, "0001:00:1f.0");
  EXPECT_EQ(place.numa_node, 0);
  EXPECT_EQ(place.bits_per_s, 100'000'000'000u);
}

TEST_F(PlaceOf, WhatIsNotToldIsUnknown) {
  make("net", "virt0", "virtio0", "-1\n");
  write("/class/net/virt0/speed", "-1\n");
  const Place place = read_place(root_, "virt0", "");
  EXPECT_EQ(place.pci, "");
  EXPECT_EQ(place.numa_node, -1);
  EXPECT_EQ(place.bits_per_s, 0u);
  EXPECT_EQ(read_place(root_, "none", "").numa_node, -1);
}

// A name that the kernel does not have, at an address that it has.
TEST_F(PlaceOf, ThePciAddressWillDo) {
  write("/bus/pci/devices/0000:c1:00.0/numa_node", "3\n");
  EXPECT_EQ(read_place(root_, "shm", "0000:c1:00.0").numa_node, 3);
}

}  // namespace
}  // namespace sluice::fabric
