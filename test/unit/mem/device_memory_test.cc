// Memory of a GPU over a fake driver library: where it is, whose context is current, and what is said without one.
#include "mem/device_memory.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "fake_cuda.h"
#include "mem/region.h"

namespace sluice {
namespace {

class OnDevice : public testing::Test {
 protected:
  void SetUp() override {
    void* library = dlopen(FAKE_CUDA, RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    fake_ = reinterpret_cast<FakeCuda* (*)()>(dlsym(library, "fake_cuda"))();
    *fake_ = FakeCuda{};
    fake_->base = 0x7000'0000'0000;  // nothing is mapped there: who touches it dies
    fake_->bytes = 1 << 20;
    ASSERT_TRUE(DeviceMemory::load(FAKE_CUDA, &memory_).ok());
  }
  void* at(uint64_t offset) const { return reinterpret_cast<void*>(fake_->base + offset); }
  FakeCuda* fake_ = nullptr;
  std::unique_ptr<DeviceMemory> memory_;
};

TEST_F(OnDevice, WithoutADriverOrAGpuOneLineSaysSo) {
  std::unique_ptr<DeviceMemory> none;
  Status status = DeviceMemory::load("libno-such-gpu.so.1", &none);
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_EQ(status.text(), "no device memory here: the GPU driver's libno-such-gpu.so.1 is not installed");
  status = DeviceMemory::load("libm.so.6", &none);
  EXPECT_NE(status.text().find("has no cuInit"), std::string::npos) << status.text();
  fake_->devices = 0;
  status = DeviceMemory::load(FAKE_CUDA, &none);
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.text().find("CUDA_ERROR_NO_DEVICE (100)"), std::string::npos) << status.text();
  EXPECT_EQ(none, nullptr);
}

TEST_F(OnDevice, ARegionKnowsItsGpuAndIsNeverTouched) {
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::import_device(*memory_, at(4096), 8192, &region).ok());
  EXPECT_EQ(region->kind(), RegionKind::kDevice);
  EXPECT_EQ(region->device(), 1);
  EXPECT_EQ(region->base(), at(4096));
  EXPECT_EQ(region->page_bytes(), 65536u);
  region.reset();
}

TEST_F(OnDevice, WhatIsNotOneAllocationOfADeviceIsRefused) {
  std::unique_ptr<Region> region;
  int host = 0;
  EXPECT_EQ(Region::import_device(*memory_, &host, sizeof host, &region).code(), Code::kBadArgument);
  EXPECT_EQ(Region::import_device(*memory_, at(4096), 1 << 20, &region).code(), Code::kBadArgument);
  EXPECT_EQ(Region::import_device(*memory_, at(0), 0, &region).code(), Code::kBadArgument);
  EXPECT_EQ(Region::import_device(*memory_, at(4096), UINT64_MAX - 5, &region).code(), Code::kBadArgument);
  fake_->on_device = false;
  EXPECT_EQ(Region::import_device(*memory_, at(0), 4096, &region).code(), Code::kBadArgument);
  EXPECT_EQ(region, nullptr);
}

// Also on a thread that has another device's, which is there again afterwards.
TEST_F(OnDevice, TheBuffersOwnContextIsCurrentAndTheCallersComesBack) {
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::import_device(*memory_, at(0), 4096, &region).ok());
  for (const std::vector<int>& before : {std::vector<int>{}, std::vector<int>{0}}) {
    fake_->stack = before;
    int current = -1;
    const Status status = region->in_context([&]() -> Status {
      current = fake_->stack.back();
      return {Code::kLimit, "what the work said"};
    });
    EXPECT_EQ(current, 1);
    EXPECT_EQ(status.text(), "what the work said");
    EXPECT_EQ(fake_->stack, before);
    EXPECT_EQ(fake_->retains, fake_->releases);
  }
  EXPECT_EQ(fake_->retains, 2);
}

TEST_F(OnDevice, ErrorsNameCallDeviceAndAddressAndLeaveNothingHeld) {
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::import_device(*memory_, at(0), 4096, &region).ok());
  bool ran = false;
  const auto work = [&]() -> Status {
    ran = true;
    return Code::kOk;
  };
  fake_->fail_retain = 2;
  EXPECT_EQ(region->in_context(work).text(),
            "cuDevicePrimaryCtxRetain failed: CUDA_ERROR_FAKE (2), device 1, memory at 0x700000000000");
  fake_->fail_retain = 0;
  fake_->fail_push = 201;
  EXPECT_NE(region->in_context(work).text().find("cuCtxPushCurrent"), std::string::npos);
  EXPECT_FALSE(ran);
  fake_->fail_push = 0;
  fake_->fail_pop = 7;
  EXPECT_EQ(region->in_context(work).code(), Code::kDeviceError);
  EXPECT_TRUE(ran);
  EXPECT_EQ(fake_->retains, fake_->releases);
}

TEST_F(OnDevice, MemoryOfTheHostNeedsNoContext) {
  char memory[64];
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::import(memory, sizeof memory, &region).ok());
  EXPECT_EQ(region->device(), -1);
  EXPECT_TRUE(region->in_context([]() -> Status { return Code::kOk; }).ok());
  EXPECT_EQ(fake_->retains, 0);
}

}  // namespace
}  // namespace sluice
