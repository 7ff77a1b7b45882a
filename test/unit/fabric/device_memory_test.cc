// Memory of a GPU through libfabric: asked for in hints, registered under its device and in its context.
#include "mem/device_memory.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "fabric/fabric_driver.h"
#include "fake_cuda.h"
#include "fake_ofi.h"

namespace sluice::fabric {
namespace {

class GpuOf : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    void* library = dlopen(FAKE_CUDA, RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    cuda_ = reinterpret_cast<FakeCuda* (*)()>(dlsym(library, "fake_cuda"))();
    *cuda_ = FakeCuda{};
    cuda_->base = 0x7000'0000'0000;  // nothing is mapped there: who touches it dies
    cuda_->bytes = 1 << 20;
    cuda_->stack = {0};  // this thread works with another GPU
    ASSERT_TRUE(DeviceMemory::load(FAKE_CUDA, &memory_).ok());
    ASSERT_TRUE(Region::import_device(*memory_, reinterpret_cast<void*>(cuda_->base), cuda_->bytes, &region_).ok());
    reset_fake();
    fake().list = {{.provider = GetParam(), .mr_mode = FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_HMEM}};
    fake().on_region = [this] { contexts_.push_back(cuda_->stack.back()); };
  }
  void TearDown() override { reset_fake(); }  // it calls into this object
  Status open(const DeviceUse& use) {
    DeviceInfo wanted;
    wanted.name = "eth0";
    wanted.provider = GetParam();
    return FabricDriver(load_fake).open(wanted, use, &device_);
  }
  FakeCuda* cuda_ = nullptr;
  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<Region> region_;
  std::unique_ptr<Device> device_;
  std::vector<int> contexts_;
};

class GpuRow : public GpuOf {};
INSTANTIATE_TEST_SUITE_P(Rows, GpuRow, testing::Values("efa", "cxi"), [](const auto& one) { return one.param; });

TEST_P(GpuRow, IsRegisteredUnderItsDeviceAndInItsContext) {
  ASSERT_TRUE(open({.rma = true, .device_memory = true, .max_region_bytes = 512 << 10}).ok());
  EXPECT_TRUE(device_->caps().device_memory);
  EXPECT_EQ(fake().asked_caps, FI_MSG | FI_RMA | FI_HMEM);
  EXPECT_NE(fake().asked_mr_mode & FI_MR_HMEM, 0);
  ASSERT_TRUE(device_->reg(*region_, 0, true).ok());
  ASSERT_EQ(fake().regions.size(), 2u);
  for (const FakeRegion& made : fake().regions) {
    EXPECT_EQ(made.iface, FI_HMEM_CUDA);
    EXPECT_EQ(made.device, 1);
  }
  EXPECT_TRUE(device_->dereg(*region_, 0).ok());
  EXPECT_EQ(contexts_, std::vector<int>(4, 1)) << "of two registrations and two closes";
  EXPECT_EQ(cuda_->stack, std::vector<int>{0});
  EXPECT_EQ(cuda_->retains, cuda_->releases);
}

TEST_P(GpuRow, MemoryOfTheHostIsRegisteredAsSuch) {
  ASSERT_TRUE(open({.rma = true, .device_memory = true}).ok());
  std::unique_ptr<Region> host;
  ASSERT_TRUE(Region::create(RegionKind::kPlain, 4096, &host).ok());
  ASSERT_TRUE(device_->reg(*host, 0, true).ok());
  EXPECT_EQ(fake().regions.at(0).iface, FI_HMEM_SYSTEM);
  EXPECT_EQ(cuda_->retains, 0);
  EXPECT_TRUE(device_->dereg(*host, 0).ok());
}

TEST_P(GpuRow, AFailureIsToldWhereItHappens) {
  ASSERT_TRUE(open({.rma = true, .device_memory = true}).ok());
  fake().failing_region = 0;
  fake().region_ret = -FI_EOPNOTSUPP;
  Status status = device_->reg(*region_, 0, true);
  EXPECT_NE(status.text().find("of GPU 1"), std::string::npos) << status.text();
  cuda_->fail_retain = 2;
  status = device_->reg(*region_, 0, true);
  EXPECT_NE(status.text().find("cuDevicePrimaryCtxRetain failed"), std::string::npos) << status.text();
  EXPECT_TRUE(region_->keys(0).empty());
}

TEST_P(GpuRow, ADeviceThatWasNotOpenedForItRefuses) {
  fake().list[0].mr_mode = 0;
  ASSERT_TRUE(open({.rma = true}).ok());
  EXPECT_EQ(fake().asked_mr_mode & FI_MR_HMEM, 0);
  EXPECT_EQ(device_->reg(*region_, 0, true).code(), Code::kUnsupported);
}

class NoGpuRow : public GpuOf {};
INSTANTIATE_TEST_SUITE_P(Rows, NoGpuRow, testing::Values("tcp;ofi_rxm", "net", "shm"), [](const auto& one) {
  return one.param == std::string("tcp;ofi_rxm") ? "tcp_rxm" : one.param;
});

TEST_P(NoGpuRow, RefusesToOpenForIt) {
  const Status status = open({.rma = true, .device_memory = true});
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.text().find("does not take device memory"), std::string::npos) << status.text();
}

}  // namespace
}  // namespace sluice::fabric
