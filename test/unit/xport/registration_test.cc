// A region on several devices: one grid, all or nothing, a bounded number at a time, and words that name the limit.
#include "xport/registration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

namespace sluice {
namespace {

constexpr uint64_t kPage = 4096;

class FakeDevice final : public Device {
 public:
  const DeviceInfo& info() const noexcept override { return info_; }
  const DeviceCaps& caps() const noexcept override { return caps_; }
  Status reg(Region& region, uint16_t index, bool remote) override {
    if (before) before();
    ++regs;
    if (!answer.ok()) return answer;
    const uint64_t chunk = largest_chunk(region, caps_.max_region_bytes, caps_.page_entries);
    for (uint64_t at = 0; at < region.bytes(); at += chunk) {
      const uint64_t key = remote && region.takes(index, region.keys(index).size()) ? at + 1 : 0;
      region.keys(index).push_back({at, std::min(chunk, region.bytes() - at), 0, key, 0, nullptr});
    }
    return Code::kOk;
  }
  uint64_t mapped_pages() const noexcept override { return mapped_; }
  Status dereg(Region& region, uint16_t index) override {
    ++deregs;
    region.keys(index).clear();
    return undo;
  }
  Status open_queue(const QueueParams&, std::unique_ptr<Queue>*) override { return Code::kUnsupported; }

  DeviceInfo info_;
  DeviceCaps caps_;
  uint64_t mapped_ = 0;
  Status answer, undo;
  std::function<void()> before;
  int regs = 0, deregs = 0;
};

class Registering : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(Region::create(RegionKind::kPlain, 100 * kPage, &region_).ok()); }
  void make(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      devices_.push_back(std::make_unique<FakeDevice>());
      list_.push_back(devices_.back().get());
    }
  }
  FakeDevice& device(size_t i) { return *devices_[i]; }
  std::unique_ptr<Region> region_;
  std::vector<std::unique_ptr<FakeDevice>> devices_;
  std::vector<Device*> list_;
};

TEST_F(Registering, OneGridForAllDevices) {
  make(3);
  device(0).caps_.max_region_bytes = 40 * kPage;
  device(1).caps_.max_region_bytes = 30 * kPage + 5;
  ASSERT_TRUE(register_region(*region_, list_, {.remote = true}).ok());
  for (uint16_t i = 0; i < 3; ++i) {
    const auto& keys = region_->keys(i);
    ASSERT_EQ(keys.size(), 4u) << i;
    for (size_t c = 0; c < keys.size(); ++c) EXPECT_EQ(keys[c].offset, c * 30 * kPage);
    EXPECT_EQ(keys[3].length, 10 * kPage);
    EXPECT_NE(keys[3].remote_key, 0u);
  }
  EXPECT_TRUE(deregister_region(*region_, list_, {}).ok());
  for (uint16_t i = 0; i < 3; ++i) EXPECT_TRUE(region_->keys(i).empty());
}

TEST_F(Registering, AnErrorUndoesTheOthersAndSaysWhatWasAsked) {
  make(4);
  device(2).answer = {Code::kNoMemory, "device 2 says no"};
  device(2).caps_.max_region_bytes = 60 * kPage;
  device(2).caps_.page_entries = 50;
  device(1).undo = {Code::kDeviceError, "undoing fails too"};
  const Status status = register_region(*region_, list_, {.memlock_bytes = 300 * kPage});
  EXPECT_EQ(status.code(), Code::kNoMemory);
  for (const char* word : {"409600 bytes on 4 devices", "device 2 says no", "limited to 1228800 bytes", "245760 bytes",
                           "100 pages of 4096 bytes", "about 50 "})
    EXPECT_NE(status.text().find(word), std::string::npos) << word << " is not in: " << status.text();
  for (uint16_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(region_->keys(i).empty()) << i;
    EXPECT_EQ(device(i).deregs, i == 2 ? 0 : device(i).regs) << i;
  }
}

TEST_F(Registering, WhatIsNotLimitedNamesNoLimit) {
  make(1);
  device(0).answer = {Code::kNoMemory, "no"};
  EXPECT_EQ(register_region(*region_, list_, {.memlock_bytes = UINT64_MAX}).text(),
            "registering 409600 bytes on 1 device: no");
  device(0).caps_.page_entries = 5;
  device(0).answer = {Code::kExists, "twice"};
  EXPECT_EQ(register_region(*region_, list_, {}).code(), Code::kExists);
  EXPECT_EQ(register_region(*region_, list_, {}).text().find("pages"), std::string::npos);
  EXPECT_EQ(register_region(*region_, {}, {}).code(), Code::kBadArgument);
}

TEST_F(Registering, DeregisteringTriesAllAndReturnsTheFirstError) {
  make(3);
  ASSERT_TRUE(register_region(*region_, list_, {}).ok());
  device(0).undo = {Code::kDeviceError, "first"};
  device(2).undo = {Code::kBusy, "last"};
  EXPECT_EQ(deregister_region(*region_, list_, {.max_parallel = 1}).text(), "first");
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(device(i).deregs, 1);
}

TEST_F(Registering, OnlyNearDevicesWhereThatIsAskedForAndThereAreSome) {
  make(4);
  device(1).info_.numa_node = device(3).info_.numa_node = 1;
  device(0).caps_.max_region_bytes = 50 * kPage;  // the grid is that of all
  ASSERT_TRUE(register_region(*region_, list_, {.near_only = true, .numa_node = 1}).ok());
  for (uint16_t i = 0; i < 4; ++i) EXPECT_EQ(region_->keys(i).size(), i % 2 == 1 ? 2u : 0u) << i;
  EXPECT_EQ(region_->chunk_bytes(), 50 * kPage);
  EXPECT_TRUE(deregister_region(*region_, list_, {}).ok());
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(device(i).deregs, i % 2 == 1 ? 1 : 0) << i;
  for (const int node : {2, -1}) {
    ASSERT_TRUE(register_region(*region_, list_, {.near_only = true, .numa_node = node}).ok());
    for (uint16_t i = 0; i < 4; ++i) EXPECT_FALSE(region_->keys(i).empty()) << i << " of node " << node;
    EXPECT_TRUE(deregister_region(*region_, list_, {}).ok());
  }
}

// Of three devices that have room for 40 of 100 pages each has a third, and every page is on one of them.
TEST_F(Registering, WhatOneDeviceCannotMapIsSharedOut) {
  make(3);
  for (const auto& one : devices_) one->caps_.page_entries = 60;
  device(1).mapped_ = 20;
  ASSERT_TRUE(register_region(*region_, list_, {.remote = true, .share_out = true}).ok());
  std::vector<int> times(100);
  for (uint16_t i = 0; i < 3; ++i) {
    uint64_t pages = 0;
    for (const ChunkKey& key : region_->keys(i)) {
      if (key.remote_key == 0) continue;
      pages += key.length / kPage;
      for (uint64_t at = key.offset / kPage; at < (key.offset + key.length) / kPage; ++at) ++times[at];
    }
    EXPECT_LE(pages, i == 1 ? 40u : 60u);
    EXPECT_GT(pages, 0u);
    EXPECT_EQ(region_->keys(i).size(), region_->keys(0).size()) << "one grid";
  }
  EXPECT_EQ(std::count(times.begin(), times.end(), 1), 100);
  EXPECT_TRUE(deregister_region(*region_, list_, {}).ok());
  device(1).mapped_ = 0;
  for (const auto& one : devices_) one->caps_.page_entries = 200;
  ASSERT_TRUE(register_region(*region_, list_, {.remote = true, .share_out = true}).ok());  // now all have room for all
  for (uint16_t i = 0; i < 3; ++i)
    for (const ChunkKey& key : region_->keys(i)) EXPECT_NE(key.remote_key, 0u);
}

// Each device waits until as many are inside as may be, and never meets more.
TEST_F(Registering, AsManyAtATimeAsAllowed) {
  make(6);
  std::atomic<int> inside{0}, most{0}, arrived{0};
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (const auto& one : devices_)
    one->before = [&] {
      const int now = ++inside;
      most = std::max(most.load(), now);
      ++arrived;
      while (arrived < 3 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
      --inside;
    };
  ASSERT_TRUE(register_region(*region_, list_, {.max_parallel = 3}).ok());
  EXPECT_EQ(most, 3);
  EXPECT_EQ(arrived, 6);
}

// It is told while it goes on: the device is only done when it was.
TEST_F(Registering, WhatTakesLongSaysSo) {
  make(2);
  std::atomic<bool> told{false};
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  device(1).before = [&] {
    while (!told && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  };
  std::string line;
  ASSERT_TRUE(register_region(*region_, list_,
                              {.tell_ms = 1,
                               .tell =
                                   [&](const std::string& text) {
                                     line = text;
                                     told = true;
                                   }})
                  .ok());
  EXPECT_NE(line.find("registering 409600 bytes on 2 devices: "), std::string::npos) << line;
}

}  // namespace
}  // namespace sluice
