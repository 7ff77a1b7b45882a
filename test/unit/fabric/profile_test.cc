// The five rows of the table, with the fi_info that each gives: what the driver derives, asks for and registers.
#include <gtest/gtest.h>

#include <numeric>
#include <ostream>

#include "base/log.h"
#include "fabric/fabric_driver.h"
#include "fake_ofi.h"

namespace sluice::fabric {
namespace {

constexpr uint64_t kM = 1 << 20;

struct Case {
  const char* name;
  const char* asked;  // of the driver
  FakeInfo info;
  uint32_t version;
  bool own_keys, addresses, bind, local;
  uint64_t max_region;  // as libibverbs says; 0: never asked
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

// As the providers give them; efa and cxi from their documentation and source.
const Case kCases[] = {
    {"efa",
     "efa",
     {.provider = "efa",
      .domain = "rdmap16s27-rdm",
      .tx_size = 8192,
      .rx_size = 8192,
      .mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
      .fabric = "efa",
      .key_size = 4,
      .max_msg = SIZE_MAX / 2,
      .inject = 3328,
      .pci = true},
     FI_VERSION(1, 22),
     true,
     true,
     false,
     true,
     64 * 1024},
    {"cxi",
     "cxi",
     {.provider = "cxi",
      .domain = "cxi0",
      .tx_size = 256,
      .rx_size = 512,
      .mr_mode = FI_MR_ENDPOINT | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
      .fabric = "cxi",
      .key_size = 8,
      .max_msg = size_t{1} << 30,
      .inject = 192,
      .pci = true},
     FI_VERSION(1, 20),
     true,
     false,
     true,
     false,
     0},
    {"tcp_rxm",
     "tcp;ofi_rxm",
     {.provider = "tcp;ofi_rxm",
      .tx_size = 2048,
      .rx_size = 2048,
      .mr_mode = 0,
      .fabric = "10.0.0.0/8",
      .max_msg = size_t{1} << 62,
      .inject = 64},
     FI_VERSION(1, 17),
     false,
     false,
     false,
     false,
     0},
    {"tcp",
     "tcp",
     {.provider = "net", .tx_size = 256, .rx_size = 256, .mr_mode = 0, .inject = 128},
     FI_VERSION(1, 17),
     false,
     false,
     false,
     false,
     0},
    {"shm",
     "shm",
     {.provider = "shm", .domain = "shm", .tx_size = 1024, .rx_size = 1024, .mr_mode = FI_MR_VIRT_ADDR, .inject = 4096},
     FI_VERSION(1, 17),
     false,
     true,
     false,
     false,
     0},
};

class RowOf : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    reset_fake();
    fake().list = {GetParam().info};
    fake().version = GetParam().version;
    fake().max_region = GetParam().max_region;
    ASSERT_TRUE(Region::create(RegionKind::kPlain, kM, &region_).ok());
  }
  void TearDown() override {
    queue_.reset();
    device_.reset();
    EXPECT_FALSE(fake().closed_before_its_regions);
    EXPECT_FALSE(fake().enabled_unbound);
  }
  Status open(const DeviceUse& use) {
    DeviceInfo wanted;
    wanted.name = GetParam().info.domain;
    wanted.provider = GetParam().asked;
    return FabricDriver(load_fake).open(wanted, use, &device_);
  }
  Status open_queue() { return device_->open_queue({.tx_depth = 16, .rx_depth = 16, .max_paths = 2}, &queue_); }
  const std::vector<ChunkKey>& keys() { return region_->keys(0); }

  std::unique_ptr<Region> region_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Queue> queue_;
};
INSTANTIATE_TEST_SUITE_P(Rows, RowOf, testing::ValuesIn(kCases), [](const auto& test) { return test.param.name; });

TEST_P(RowOf, CapsAreWhatTheProviderGives) {
  const Case& row = GetParam();
  ASSERT_TRUE(open({.rma = true}).ok());
  const DeviceCaps& caps = device_->caps();
  EXPECT_EQ(caps.tx_depth, row.info.tx_size);
  EXPECT_EQ(caps.rx_depth, row.info.rx_size);
  EXPECT_EQ(caps.max_msg_bytes, row.info.max_msg);
  EXPECT_EQ(caps.inject_bytes, row.info.inject);
  EXPECT_EQ(caps.needs_local_reg, row.local);
  EXPECT_EQ(caps.one_target, row.bind);
  EXPECT_EQ(caps.max_region_bytes, row.max_region);
  EXPECT_EQ(fake().asked_device, row.max_region != 0 ? "rdmap16s27" : "");
  EXPECT_EQ(device_->info().pci, row.info.pci ? "0001:c1:00.2" : "");
  EXPECT_EQ(device_->info().bits_per_s, row.info.pci ? 100'000'000'000u : 0u);
}

TEST_P(RowOf, HintsAskForWhatTheRowCanHonour) {
  ASSERT_TRUE(open({.rma = true}).ok());
  EXPECT_EQ(fake().asked_caps, FI_MSG | FI_RMA);
  EXPECT_EQ(fake().asked_mr_mode & GetParam().info.mr_mode, GetParam().info.mr_mode) << "the provider would refuse";
  EXPECT_EQ(fake().asked_mr_mode & FI_MR_HMEM, 0);
}

// Every byte registered once, with an address, a key and an endpoint as the domain wants them.
TEST_P(RowOf, RegistersForPeers) {
  const Case& row = GetParam();
  ASSERT_TRUE(open({.rma = true}).ok());
  ASSERT_TRUE(open_queue().ok());
  ASSERT_TRUE(device_->reg(*region_, 0, true).ok());
  EXPECT_EQ(keys().size(), row.max_region != 0 ? kM / row.max_region : 1u);
  uint64_t at = 0;
  for (size_t i = 0; i < keys().size(); ++i) {
    const ChunkKey& key = keys()[i];
    EXPECT_EQ(key.offset, at);
    EXPECT_EQ(key.remote_addr, row.addresses ? reinterpret_cast<uintptr_t>(region_->base()) + at : 0u);
    const FakeRegion& made = fake().regions.at(i);
    EXPECT_EQ(made.base, region_->base() + at);
    EXPECT_EQ(made.bytes, key.length);
    EXPECT_EQ(made.access & (FI_REMOTE_READ | FI_REMOTE_WRITE), FI_REMOTE_READ | FI_REMOTE_WRITE);
    EXPECT_EQ(made.bound, row.bind);
    EXPECT_EQ(made.enabled, row.bind);
    EXPECT_EQ(key.remote_key, row.own_keys ? 0xffff'0000'0000'0000 + i : made.requested_key);
    EXPECT_EQ(made.requested_key == 0, row.own_keys) << "a key that can be guessed";
    at += key.length;
  }
  EXPECT_EQ(at, kM);
  EXPECT_EQ(device_->reg(*region_, 0, true).code(), Code::kExists);
  EXPECT_TRUE(device_->dereg(*region_, 0).ok());
  for (const FakeRegion& made : fake().regions) EXPECT_TRUE(made.closed);
}

TEST_P(RowOf, RegistersForItselfOnlyWhereTheDomainAsks) {
  ASSERT_TRUE(open({}).ok());
  ASSERT_TRUE(device_->reg(*region_, 0, false).ok());
  EXPECT_EQ(fake().regions.empty(), !GetParam().local);
  for (const FakeRegion& made : fake().regions) EXPECT_EQ(made.access, FI_SEND | FI_RECV);
  for (const ChunkKey& key : keys()) EXPECT_EQ(key.local_desc != 0, GetParam().local);
  EXPECT_TRUE(device_->dereg(*region_, 0).ok());
}

// Before a queue is there; and again with the next one.
TEST_P(RowOf, ARegionOutlivesTheQueueThatItIsBoundTo) {
  const bool bind = GetParam().bind;
  ASSERT_TRUE(open({.rma = true}).ok());
  ASSERT_TRUE(device_->reg(*region_, 0, true).ok());
  EXPECT_FALSE(fake().regions.at(0).bound);
  ASSERT_TRUE(open_queue().ok());
  EXPECT_EQ(fake().regions.at(0).enabled, bind);
  const uint64_t first = keys().at(0).remote_key;
  EXPECT_NE(first, FI_KEY_NOTAVAIL);
  queue_.reset();
  EXPECT_EQ(fake().regions.at(0).closed, bind);
  ASSERT_TRUE(open_queue().ok());
  EXPECT_EQ(keys().at(0).remote_key != first, bind);
  EXPECT_EQ(fake().regions.back().enabled, bind);
  queue_.reset();
  EXPECT_TRUE(device_->dereg(*region_, 0).ok());
  for (const FakeRegion& made : fake().regions) EXPECT_TRUE(made.closed);
}

TEST_P(RowOf, AFailedBindFailsTheQueueAndLeavesTheRegion) {
  ASSERT_TRUE(open({.rma = true}).ok());
  ASSERT_TRUE(device_->reg(*region_, 0, true).ok());
  fake().bind_ret = -FI_EINVAL;
  const Status status = open_queue();
  EXPECT_EQ(status.ok(), !GetParam().bind) << "only some bind at all";
  EXPECT_EQ(status.text().find("binding a region") != std::string::npos, GetParam().bind);
  fake().bind_ret = 0;
  ASSERT_TRUE(open_queue().ok());
  EXPECT_EQ(fake().regions.back().enabled, GetParam().bind);
  EXPECT_TRUE(device_->dereg(*region_, 0).ok());
}

TEST_P(RowOf, AFailingChunkUndoesThoseBefore) {
  ASSERT_TRUE(open({.rma = true, .max_region_bytes = 64 * 1024}).ok());
  fake().failing_region = 5;
  const Status status = device_->reg(*region_, 0, true);
  EXPECT_EQ(status.code(), Code::kNoMemory);
  EXPECT_NE(status.text().find("65536 bytes of 1048576"), std::string::npos) << status.text();
  EXPECT_TRUE(keys().empty());
  EXPECT_EQ(fake().regions.size(), 5u);
  for (const FakeRegion& made : fake().regions) EXPECT_TRUE(made.closed);
}

// Of a region in two parts every other chunk is registered, and the pages are counted where they are limited.
TEST_P(RowOf, APartOfARegion) {
  ASSERT_TRUE(open({.rma = true, .max_region_bytes = 64 * 1024}).ok());
  ASSERT_TRUE(open_queue().ok());
  region_->set_part(0, 1, 2);
  ASSERT_TRUE(device_->reg(*region_, 0, true).ok());
  EXPECT_EQ(fake().regions.size(), 8u);
  ASSERT_EQ(keys().size(), 16u);
  for (size_t i = 0; i < keys().size(); ++i) EXPECT_EQ(keys()[i].remote_key != 0, i % 2 == 1) << i;
  EXPECT_EQ(device_->mapped_pages(), device_->caps().page_entries != 0 ? 8u * 16 : 0u);
  queue_.reset();
  ASSERT_TRUE(open_queue().ok());
  for (size_t i = 0; i < keys().size(); ++i) EXPECT_EQ(keys()[i].remote_key != 0, i % 2 == 1) << i;
  EXPECT_TRUE(device_->dereg(*region_, 0).ok());
  EXPECT_EQ(device_->mapped_pages(), 0u);
  for (const FakeRegion& made : fake().regions) EXPECT_TRUE(made.closed);
}

TEST_P(RowOf, DeregisteringTriesAllAndTellsTheFirstError) {
  ASSERT_TRUE(open({.rma = true, .max_region_bytes = 128 * 1024}).ok());
  ASSERT_TRUE(open_queue().ok());
  ASSERT_TRUE(device_->reg(*region_, 0, true).ok());
  ASSERT_GT(keys().size(), 1u);
  fake().close_region_ret = -FI_EBUSY;
  EXPECT_FALSE(device_->dereg(*region_, 0).ok());
  for (const FakeRegion& made : fake().regions) EXPECT_TRUE(made.closed);
  EXPECT_TRUE(keys().empty());
}

// Only an endpoint that can be asked is asked, and only when one-sided operations are wanted.
TEST_P(RowOf, EmulatedOperationsAreToldOf) {
  const bool efa = GetParam().info.provider == "efa";
  for (const int emulates : {-1, 0, 1, 2, 3}) {
    for (const bool rma : {false, true}) {
      fake().emulates = emulates;
      fake().asked_options.clear();
      ASSERT_TRUE(open({.rma = rma}).ok());
      testing::internal::CaptureStderr();
      ASSERT_TRUE(open_queue().ok());
      const std::string log = testing::internal::GetCapturedStderr();
      queue_.reset();
      EXPECT_EQ(fake().asked_options.size(), efa && rma ? 2u : 0u);
      const bool can = efa && rma && emulates > 0;
      EXPECT_EQ(log.find("emulates one-sided reads") != std::string::npos, can && (emulates & 1) != 0) << log;
      EXPECT_EQ(log.find("emulates one-sided writes") != std::string::npos, can && (emulates & 2) != 0) << log;
    }
  }
}

// The three numbers of a depth, for who looks for them.
TEST_P(RowOf, TheDepthIsToldWithWhatItCameFrom) {
  ASSERT_TRUE(open({}).ok());
  set_log_level(LogLevel::kDebug);
  testing::internal::CaptureStderr();
  ASSERT_TRUE(device_->open_queue({.tx_depth = 100'000, .rx_depth = 16, .max_paths = 2}, &queue_).ok());
  const std::string log = testing::internal::GetCapturedStderr();
  set_log_level(LogLevel::kWarn);
  const std::string depth = std::to_string(GetParam().info.tx_size);
  EXPECT_NE(log.find("sends 100000 asked, " + depth + " the provider's, " + depth + " used"), std::string::npos) << log;
}

}  // namespace
}  // namespace sluice::fabric
