// The choice of a port's address, over tables as they were recorded on machines of several kinds.
#include "verbs/gid.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "verbs/discovery.h"
#include "xport/pair_options.h"

namespace sluice::verbs {
namespace {
constexpr uint16_t kAny = PairOptions::kAnyGid;
constexpr auto kV1 = GidKind::kRoceV1, kV2 = GidKind::kRoceV2;

GidEntry entry(uint32_t index, GidKind kind, const std::string& text, bool netdev = true) {
  GidEntry out{index, kind, {}, netdev};
  const std::string as_v6 = text.find(':') == std::string::npos ? "::ffff:" + text : text;
  EXPECT_EQ(inet_pton(AF_INET6, as_v6.c_str(), out.gid.data()), 1) << text;
  return out;
}

struct Table {
  const char* what;
  std::vector<GidEntry> entries;
  uint32_t best;
  bool doubtful = false;
};

std::vector<Table> tables() {
  return {
      {"a NIC with one address: the link-local entries come first in the table",
       {entry(0, kV1, "fe80::ba59:9fff:fe12:3456"), entry(1, kV2, "fe80::ba59:9fff:fe12:3456"),
        entry(2, kV1, "10.1.2.3"), entry(3, kV2, "10.1.2.3")},
       3},
      {"several addresses: the first", {entry(0, kV2, "192.168.7.1"), entry(1, kV2, "10.0.0.1")}, 0},
      {"global IPv6 before unique local, in whatever order",
       {entry(0, kV2, "fd12:3456::1"), entry(1, kV2, "fe80::1"), entry(2, kV2, "2001:db8::1")},
       2},
      {"unique local IPv6 before link-local", {entry(0, kV2, "fe80::1"), entry(1, kV2, "fd12:3456::1")}, 1},
      {"IPv4 before IPv6", {entry(0, kV2, "2001:db8::1"), entry(5, kV2, "172.16.0.9")}, 5},
      {"RoCE v2 that is not routed before v1 that is named by a routed address",
       {entry(0, kV1, "10.0.0.1"), entry(1, kV2, "fe80::1")},
       1,
       true},
      {"169.254 is link-local too", {entry(0, kV2, "169.254.3.4"), entry(1, kV2, "fd00::1")}, 1},
      {"an overlay's address has no network device here",
       {entry(0, kV2, "100.64.0.1", false), entry(1, kV2, "fe80::1")},
       1,
       true},
      {"nothing has a network device, as in a container",
       {entry(0, kV2, "fe80::1", false), entry(1, kV2, "10.0.0.1", false)},
       1,
       true},
      {"soft RDMA on an interface with one IPv4 address", {entry(0, kV2, "fe80::1"), entry(1, kV2, "10.0.1.1")}, 1},
      {"an index that is not used lies between", {entry(0, kV2, "::"), entry(7, kV2, "10.0.0.1")}, 7},
  };
}

TEST(GidChoice, TakesTheBestOfRecordedTables) {
  for (const Table& table : tables()) {
    GidChoice choice;
    ASSERT_TRUE(choose_gid(table.entries, kAny, false, &choice).ok()) << table.what;
    EXPECT_EQ(choice.entry.index, table.best) << table.what << ": " << choice.reason;
    EXPECT_EQ(choice.doubtful, table.doubtful) << table.what << ": " << choice.reason;
    EXPECT_NE(choice.reason.find("GID " + std::to_string(table.best)), std::string::npos) << choice.reason;
  }
}

TEST(GidChoice, DoesNotDependOnTheOrderOfTheTable) {
  for (Table& table : tables()) {
    std::reverse(table.entries.begin(), table.entries.end());
    GidChoice choice;
    ASSERT_TRUE(choose_gid(table.entries, kAny, false, &choice).ok());
    EXPECT_EQ(choice.entry.index, table.best) << table.what;
  }
}

TEST(GidChoice, TheSettingOverridesIt) {
  const std::vector<GidEntry> table{entry(0, kV1, "fe80::1"), entry(3, kV2, "10.0.0.1"),
                                    entry(4, kV2, "10.0.0.2", false)};
  GidChoice choice;
  ASSERT_TRUE(choose_gid(table, 0, false, &choice).ok());
  EXPECT_EQ(choice.entry.index, 0u);
  EXPECT_FALSE(choice.doubtful);
  ASSERT_TRUE(choose_gid(table, 4, false, &choice).ok());
  EXPECT_EQ(choice.entry.index, 4u);
  EXPECT_TRUE(choice.doubtful) << "one without a network device is taken, with a warning";
  const Status status = choose_gid(table, 2, false, &choice);
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_NE(status.text().find("0, 3, 4"), std::string::npos) << status.text();
}

TEST(GidChoice, InfiniBandGoesByLidAndNeedsNone) {
  GidChoice choice;
  EXPECT_TRUE(choose_gid({}, kAny, true, &choice).ok());
  const std::vector<GidEntry> table{entry(0, GidKind::kInfiniBand, "fe80::1", false)};
  ASSERT_TRUE(choose_gid(table, kAny, true, &choice).ok());
  EXPECT_EQ(choice.entry.kind, GidKind::kInfiniBand);
  EXPECT_FALSE(choice.doubtful);
}

TEST(GidChoice, NothingUsableSaysWhatToDo) {
  GidChoice choice;
  for (const auto& table : {std::vector<GidEntry>{}, {entry(0, kV2, "::")}, {entry(0, kV2, "127.0.0.1")}}) {
    const Status status = choose_gid(table, kAny, false, &choice);
    EXPECT_EQ(status.code(), Code::kNotFound);
    EXPECT_NE(status.text().find("address"), std::string::npos) << status.text();
  }
}

TEST(GidChoice, TextIsWhatPeopleWrite) {
  EXPECT_EQ(gid_text(entry(0, kV2, "10.0.1.2").gid), "10.0.1.2");
  EXPECT_EQ(gid_text(entry(0, kV2, "fe80::1").gid), "fe80::1");
}

// Kinds of devices as rdma-core describes them.
TEST(Ports, OnlyThoseOfInfiniBandAndRoceAreOffered) {
  EXPECT_TRUE(refusal_of(IBV_NODE_CA, IBV_TRANSPORT_IB, IBV_LINK_LAYER_ETHERNET).empty());
  EXPECT_TRUE(refusal_of(IBV_NODE_CA, IBV_TRANSPORT_IB, IBV_LINK_LAYER_INFINIBAND).empty());
  EXPECT_FALSE(refusal_of(IBV_NODE_RNIC, IBV_TRANSPORT_IWARP, IBV_LINK_LAYER_ETHERNET).empty());
  EXPECT_FALSE(refusal_of(IBV_NODE_USNIC_UDP, IBV_TRANSPORT_USNIC_UDP, IBV_LINK_LAYER_ETHERNET).empty());
  EXPECT_FALSE(refusal_of(IBV_NODE_CA, IBV_TRANSPORT_IB, IBV_LINK_LAYER_UNSPECIFIED).empty());
  // EFA: reliable datagrams only.
  const std::string_view efa = refusal_of(IBV_NODE_UNSPECIFIED, IBV_TRANSPORT_UNSPECIFIED, IBV_LINK_LAYER_UNSPECIFIED);
  EXPECT_NE(efa.find("fabric"), std::string_view::npos) << "it must say where to go";
}

TEST(Ports, NamesGoBothWays) {
  std::string device;
  uint32_t port = 0;
  parse_port_name(port_name("dev_0", 1), &device, &port);
  EXPECT_EQ(device, "dev_0");
  EXPECT_EQ(port, 1u);
  parse_port_name(port_name("dev_0", 2), &device, &port);
  EXPECT_EQ(device, "dev_0");
  EXPECT_EQ(port, 2u);
  for (const char* odd : {"dev:", "dev:0", "dev:x", "dev:300", "dev:1x"}) {
    parse_port_name(odd, &device, &port);
    EXPECT_EQ(device, odd);
    EXPECT_EQ(port, 1u);
  }
}

TEST(Ports, RatesAreThoseOfTheTables) {
  EXPECT_EQ(port_rate(32, 2), 100'000'000'000u);   // EDR, four lanes
  EXPECT_EQ(port_rate(128, 2), 400'000'000'000u);  // NDR, four lanes
  EXPECT_EQ(port_rate(0, 2), 0u);
  EXPECT_EQ(port_rate(32, 0), 0u);
}

}  // namespace
}  // namespace sluice::verbs
