// Probing: one entry for each domain, loopback, names, versions, a missing library.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstdlib>
#include <map>
#include <utility>

#include "fabric/blob.h"
#include "fabric/errors.h"
#include "fabric/fabric_driver.h"
#include "fabric/ofi_loader.h"
#include "fake_ofi.h"

namespace sluice::fabric {
namespace {

class Probe : public testing::Test {
 protected:
  void SetUp() override { reset_fake(); }
  std::vector<DeviceInfo> probe(std::string_view provider) {
    std::vector<DeviceInfo> infos;
    status_ = driver_.probe(provider, &infos);
    return infos;
  }
  FabricDriver driver_{load_fake};
  Status status_;
};

TEST_F(Probe, MissingLibraryNamesThePackage) {
  fake().missing = true;
  EXPECT_TRUE(probe("").empty());
  EXPECT_EQ(status_.code(), Code::kUnsupported);
  EXPECT_NE(status_.text().find("libfabric1"), std::string::npos);
}

// What a provider reads from the environment only: the table's value, unless the user chose one.
TEST(Environment, IsSetForProvidersAndLeavesTheUsersValues) {
  unsetenv("FI_OFI_RXM_MSG_RX_SIZE");
  set_provider_variables(false);
  EXPECT_STREQ(getenv("FI_OFI_RXM_MSG_RX_SIZE"), "32");
  setenv("FI_OFI_RXM_MSG_RX_SIZE", "77", 1);
  set_provider_variables(false);
  EXPECT_STREQ(getenv("FI_OFI_RXM_MSG_RX_SIZE"), "77");
  unsetenv("FI_HMEM");
  set_provider_variables(true);
  EXPECT_EQ(getenv("FI_HMEM"), nullptr);
  set_provider_variables(false);
  EXPECT_STREQ(getenv("FI_HMEM"), "system");
  unsetenv("FI_HMEM");
}

TEST_F(Probe, ListsADomainOnceByItsBestAddress) {
  fake().list = {{.address = "fe80::1"},
                 {.address = "2001:db8::7"},
                 {.address = "192.0.2.7"},
                 {.address = "192.0.2.8"},
                 {.domain = "eth1", .address = "fe80::2"},
                 {.domain = "eth1", .address = "2001:db8::9"}};
  const auto infos = probe("tcp;ofi_rxm");
  ASSERT_EQ(infos.size(), 2u);
  EXPECT_EQ(infos[0].address, "192.0.2.7");
  EXPECT_EQ(infos[1].address, "2001:db8::9");
}

TEST_F(Probe, LoopbackOnlyWhereNothingElseIsOrByName) {
  fake().list = {{.domain = "lo", .address = "127.0.0.1"}, {}, {.provider = "net", .domain = "lo", .address = "::1"}};
  const auto infos = probe("");
  ASSERT_EQ(infos.size(), 2u);
  EXPECT_EQ(infos[0].name, "eth0");
  EXPECT_FALSE(infos[0].loopback);
  EXPECT_EQ(infos[1].provider, "net");
  EXPECT_TRUE(infos[1].loopback);
  std::unique_ptr<Device> device;
  DeviceInfo wanted;
  wanted.name = "lo";
  wanted.provider = "tcp;ofi_rxm";
  EXPECT_TRUE(driver_.open(wanted, {}, &device).ok());
  EXPECT_TRUE(device->info().loopback);
}

TEST_F(Probe, TcpAndNetAreOneAndLayeredProvidersAreNotTaken) {
  fake().list = {{}, {.provider = "tcp;ofi_rxm"}, {.provider = "tcp"}};
  auto infos = probe("net");
  ASSERT_EQ(infos.size(), 1u);
  EXPECT_EQ(infos[0].provider, "tcp");
  fake().list = {{}, {.provider = "net"}};
  infos = probe("tcp");
  ASSERT_EQ(infos.size(), 1u);
  EXPECT_EQ(infos[0].provider, "net");
}

TEST_F(Probe, AutoTakesTheBestAndNeverShm) {
  fake().list = {{.provider = "shm", .domain = "shm"}, {.provider = "net"}, {}};
  auto infos = probe("auto");
  ASSERT_EQ(infos.size(), 1u);
  EXPECT_EQ(infos[0].provider, "tcp;ofi_rxm");
  fake().list.push_back({.provider = "efa", .domain = "efa_0-rdm"});
  infos = probe("auto");
  ASSERT_EQ(infos.size(), 1u);
  EXPECT_EQ(infos[0].provider, "efa");
  fake().list = {{.provider = "shm", .domain = "shm"}};
  EXPECT_TRUE(probe("auto").empty());
  EXPECT_EQ(status_.code(), Code::kNotFound);
}

TEST_F(Probe, AutoSaysWhyNotTheOthers) {
  std::vector<DeviceInfo> infos;
  fake().list = {
      {.provider = "net"}, {.provider = "shm", .domain = "shm"}, {}, {.domain = "lo", .address = "127.0.0.1"}};
  ASSERT_TRUE(driver_.list("auto", &infos).ok());
  std::map<std::string, std::string> why;
  for (const DeviceInfo& info : infos) why[info.provider + " " + info.name] = info.left_out;
  ASSERT_EQ(infos.front().provider, "tcp;ofi_rxm");
  EXPECT_EQ(why.at("tcp;ofi_rxm eth0"), "");
  EXPECT_NE(why.at("tcp;ofi_rxm lo").find("loopback"), std::string::npos);
  EXPECT_NE(why.at("net eth0").find("tcp;ofi_rxm"), std::string::npos);
  EXPECT_NE(why.at("shm shm").find("--provider shm"), std::string::npos);
  EXPECT_NE(why.at("efa ").find("libfabric 1.17"), std::string::npos);
  EXPECT_EQ(why.size(), 6u);
  fake().list.clear();
  probe("auto");
  EXPECT_NE(status_.text().find("shm: is taken only when"), std::string::npos) << status_.text();
}

// libfabric 2 lists a domain under efa and efa-direct, and with keys of both kinds.
TEST_F(Probe, ADomainOfSeveralFabricsIsTakenFromTheOneThatTheTableNames) {
  fake().version = FI_VERSION(2, 1);
  fake().list = {{.provider = "efa", .domain = "rdmap1s0-rdm", .tx_size = 1, .fabric = "efa-direct"},
                 {.provider = "efa", .domain = "rdmap1s0-rdm", .tx_size = 2, .fabric = "efa", .key_size = 16},
                 {.provider = "efa", .domain = "rdmap1s0-rdm", .tx_size = 3, .fabric = "efa"},
                 {.provider = "efa", .domain = "rdmap2s0-rdm", .fabric = "efa-direct"}};
  EXPECT_EQ(probe("efa").size(), 2u);
  EXPECT_EQ(fake().asked_version, FI_VERSION(1, 18));
  std::unique_ptr<Device> device;
  DeviceInfo wanted;
  wanted.name = "rdmap1s0";  // the device's name will do
  wanted.provider = "efa";
  ASSERT_TRUE(driver_.open(wanted, {}, &device).ok());
  EXPECT_EQ(device->caps().tx_depth, 3u);
  EXPECT_EQ(device->info().name, "rdmap1s0-rdm");
}

TEST_F(Probe, UnknownProviderIsRefusedWithTheKnownOnes) {
  probe("verbs");
  EXPECT_EQ(status_.code(), Code::kBadArgument);
  EXPECT_NE(status_.text().find("tcp;ofi_rxm"), std::string::npos);
}

TEST_F(Probe, AsksForWhatTheLibraryHasAndTheHeadersKnow) {
  fake().list = {{}};
  fake().version = FI_VERSION(1, 11);
  probe("tcp;ofi_rxm");
  EXPECT_EQ(fake().asked_version, FI_VERSION(1, 11));
  fake().version = FI_VERSION(9, 0);
  probe("tcp;ofi_rxm");
  EXPECT_EQ(fake().asked_version, FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION));
}

TEST_F(Probe, AFailingLibraryIsAnErrorWithItsWords) {
  fake().getinfo_ret = -FI_ENOMEM;
  probe("net");
  EXPECT_EQ(status_.code(), Code::kNoMemory);
  EXPECT_NE(status_.text().find("fake words"), std::string::npos);
}

TEST_F(Probe, OpenRefusesWhatItCannotHonour) {
  std::unique_ptr<Device> device;
  DeviceInfo wanted;
  wanted.name = "eth0";
  wanted.provider = "tcp;ofi_rxm";
  for (const auto& [bit, name] : {std::pair{FI_MR_RAW, "FI_MR_RAW"},
                                  {FI_MR_MMU_NOTIFY, "FI_MR_MMU_NOTIFY"},
                                  {FI_MR_RMA_EVENT, "FI_MR_RMA_EVENT"}}) {
    fake().list = {{.mr_mode = bit}};
    const Status refused = driver_.open(wanted, {}, &device);
    EXPECT_EQ(refused.code(), Code::kUnsupported);
    EXPECT_NE(refused.text().find(name), std::string::npos) << refused.text();
  }
  fake().list = {{.key_size = 16}};
  EXPECT_NE(driver_.open(wanted, {}, &device).text().find("keys of 16 bytes"), std::string::npos);
  fake().list = {{.threading = FI_THREAD_DOMAIN}};
  EXPECT_EQ(driver_.open(wanted, {}, &device).code(), Code::kUnsupported);
  fake().list = {{.domain = "eth9"}};
  const Status status = driver_.open(wanted, {}, &device);
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_NE(status.text().find("eth9"), std::string::npos);
  fake().list = {{.tx_size = 17, .rx_size = 99, .mr_mode = FI_MR_LOCAL}};
  ASSERT_TRUE(driver_.open(wanted, {}, &device).ok());
  EXPECT_EQ(device->caps().tx_depth, 17u);
  EXPECT_EQ(device->caps().rx_depth, 99u);
  EXPECT_TRUE(device->caps().needs_local_reg);
}

TEST(Errors, TheSignSaysNothing) {
  for (int sign : {1, -1}) {
    EXPECT_EQ(code_of_completion(sign * FI_ECANCELED), Code::kCancelled);
    EXPECT_EQ(code_of_completion(sign * FI_ECONNREFUSED), Code::kPeerDead);
    EXPECT_EQ(code_of_completion(sign * FI_ENOTCONN), Code::kPeerDead);
    EXPECT_EQ(code_of_completion(sign * FI_ETRUNC), Code::kBadArgument);
    EXPECT_EQ(code_of_completion(sign * FI_EIO), Code::kDeviceError);
    EXPECT_EQ(code_of_completion(sign * 9999), Code::kDeviceError);
  }
}

TEST(BlobOf, EveryCutAndEveryLongerOneIsRefused) {
  const std::byte address[16] = {std::byte{AF_INET}};
  auto bytes = encode_blob({"net", FI_SOCKADDR_IN, address});
  Blob blob;
  ASSERT_TRUE(parse_blob(bytes, &blob).ok());
  EXPECT_EQ(blob.provider, "net");
  EXPECT_EQ(blob.address_format, static_cast<uint32_t>(FI_SOCKADDR_IN));
  EXPECT_TRUE(address_fits(blob.address_format, blob.address));
  EXPECT_FALSE(address_fits(FI_SOCKADDR_IN6, blob.address));
  EXPECT_FALSE(address_fits(FI_ADDR_STR, std::span(address).first(1)));
  for (size_t cut = 0; cut < bytes.size(); ++cut)
    EXPECT_EQ(parse_blob(std::span(bytes).first(cut), &blob).code(), Code::kBadArgument) << cut;
  bytes.push_back(std::byte{0});
  EXPECT_EQ(parse_blob(bytes, &blob).code(), Code::kBadArgument);
}

}  // namespace
}  // namespace sluice::fabric
