#include "meta/address.h"

#include <gtest/gtest.h>

#include "meta/directory.h"

namespace sluice {
namespace {

struct Row {
  const char* text;
  AddressUse use;
  uint16_t default_port;
  const char* host;  ///< nullptr: refused.
  uint16_t port;
  const char* remedy;  ///< Part of the refusal.
};
constexpr AddressUse kL = AddressUse::kListen, kC = AddressUse::kConnect;

constexpr Row kRows[] = {
    {"host:7000", kC, 0, "host", 7000, ""},
    {"node-1.example_a:1", kC, 0, "node-1.example_a", 1, ""},
    {"192.0.2.1:65535", kC, 0, "192.0.2.1", 65535, ""},
    {"[::1]:340", kC, 0, "::1", 340, ""},
    {"[fe80::1%lo]:7000", kC, 0, "fe80::1%lo", 7000, ""},
    {"[2001:db8::2]", kC, 7000, "2001:db8::2", 7000, ""},
    {"host", kC, 7000, "host", 7000, ""},
    {"::1", kC, 7000, "::1", 7000, ""},
    {"a:b:c::d", kC, 7000, "a:b:c::d", 7000, ""},
    {"fe80::1%lo", kC, 7000, "fe80::1%lo", 7000, ""},
    {"1:2:3:4:5:6:7:8", kC, 7000, "1:2:3:4:5:6:7:8", 7000, ""},
    {"::ffff:192.0.2.1", kC, 7000, "::ffff:192.0.2.1", 7000, ""},
    {":7000", kL, 0, "", 7000, ""},
    {"[::]:0", kL, 0, "::", 0, ""},
    {"127.0.0.1:0", kL, 0, "127.0.0.1", 0, ""},
    {"lo:0", kL, 0, "lo", 0, ""},
    {"", kC, 0, nullptr, 0, "HOST:PORT"},
    {":7000", kC, 0, nullptr, 0, "HOST:PORT"},
    {"host", kC, 0, nullptr, 0, "host:PORT"},
    {"::1", kC, 0, nullptr, 0, "[::1]:PORT"},
    {"[::1]", kC, 0, nullptr, 0, "[::1]:PORT"},
    {"host:", kC, 7000, nullptr, 0, "1 to 65535"},
    {"host:0", kC, 7000, nullptr, 0, "listener"},
    {"host:65536", kC, 0, nullptr, 0, "1 to 65535"},
    {"host:99999999999999999999", kC, 0, nullptr, 0, "1 to 65535"},
    {"host:-1", kC, 0, nullptr, 0, "1 to 65535"},
    {"host:+1", kC, 0, nullptr, 0, "1 to 65535"},
    {"host: 1", kC, 0, nullptr, 0, "1 to 65535"},
    {"host:70x", kC, 0, nullptr, 0, "1 to 65535"},
    {"::1:7000", kC, 0, nullptr, 0, "[::1]:7000, or [::1:7000]:PORT"},
    {"fe80::1%lo:7000", kC, 0, nullptr, 0, "[fe80::1%lo]:7000"},
    {"1:2:3:4:5:6:7:8:9", kC, 0, nullptr, 0, "[1:2:3:4:5:6:7:8]:9"},
    {"a:b:c", kC, 7000, nullptr, 0, "no IPv6 literal"},
    {"[::1", kC, 7000, nullptr, 0, "closing bracket"},
    {"[::1]7000", kC, 7000, nullptr, 0, "after the bracket"},
    {"[host]:7000", kC, 0, nullptr, 0, "no IPv6 literal"},
    {"[fe80::1%]:7000", kC, 0, nullptr, 0, "zone"},
    {"[fe80::1%a b]:7000", kC, 0, nullptr, 0, "zone"},
    {"1.2.3:7000", kC, 0, nullptr, 0, "four numbers"},
    {"256.1.1.1:7000", kC, 0, nullptr, 0, "four numbers"},
    {"ho st:7000", kC, 0, nullptr, 0, "valid host"},
    {"http://host:7000", kC, 0, nullptr, 0, "http://host:7000"},
};

TEST(Address, Matrix) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.text);
    Address got;
    const Status status = parse_address(row.text, row.use, row.default_port, &got);
    ASSERT_EQ(status.ok(), row.host != nullptr) << status.describe();
    if (!status.ok()) {
      EXPECT_EQ(status.code(), Code::kBadArgument);
      EXPECT_NE(status.text().find(row.remedy), std::string::npos) << status.text();
      EXPECT_NE(status.text().find("'" + std::string(row.text) + "'"), std::string::npos) << status.text();
      continue;
    }
    EXPECT_EQ(got, (Address{row.host, row.port}));
    Address again;
    ASSERT_TRUE(parse_address(format_address(got), kL, 0, &again).ok());
    EXPECT_EQ(again, got);
  }
}

TEST(Address, UnprintableInputIsShownSafely) {
  Address got;
  const Status status = parse_address("a\nb\x1b:1", kC, 0, &got);
  EXPECT_EQ(status.text().find('\n'), std::string::npos);
  EXPECT_NE(status.text().find("a?b?:1"), std::string::npos) << status.text();
}

TEST(Address, NulEndsNothing) {
  using std::string_view_literals::operator""sv;
  for (const std::string_view text : {"[::1\0|]:1"sv, "::1\0"sv, "1.2.3.4\0:1"sv, "host\0:1"sv}) {
    Address got;
    EXPECT_EQ(parse_address(text, kC, 7000, &got).code(), Code::kBadArgument) << text.size();
  }
}

TEST(Address, ResolvesBothFamilies) {
  for (const char* text : {"127.0.0.1:7000", "[::1]:7000"}) {
    Address address;
    ASSERT_TRUE(parse_address(text, kC, 0, &address).ok());
    std::vector<SockAddr> got;
    ASSERT_TRUE(resolve(address, kC, &got).ok());
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(format_sockaddr(got[0]), text);
    EXPECT_EQ(got[0].port(), 7000);
    EXPECT_EQ(address_of(got[0]), address);
  }
}

TEST(Address, ListensOnEveryInterfaceOrOneByName) {
  std::vector<SockAddr> got;
  ASSERT_TRUE(resolve({"", 7000}, kL, &got).ok());
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(format_sockaddr(got[0]), "[::]:7000");
  EXPECT_EQ(format_sockaddr(got[1]), "0.0.0.0:7000");
  ASSERT_TRUE(resolve({"lo", 7000}, kL, &got).ok());
  EXPECT_EQ(format_sockaddr(got[0]), "127.0.0.1:7000");
}

TEST(Address, UnknownNameSaysSo) {
  std::vector<SockAddr> got;
  const Status status = resolve({"no-such-node.invalid", 7000}, kC, &got);
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_NE(status.text().find("'no-such-node.invalid:7000'"), std::string::npos) << status.text();
}

TEST(Address, MappedV4IsTheSameHost) {
  std::vector<SockAddr> v4, v6, other;
  ASSERT_TRUE(resolve({"127.0.0.1", 1}, kC, &v4).ok());
  ASSERT_TRUE(resolve({"::ffff:127.0.0.1", 2}, kC, &v6).ok());
  ASSERT_TRUE(resolve({"127.0.0.2", 1}, kC, &other).ok());
  EXPECT_TRUE(same_host(v4[0], v6[0]));
  EXPECT_FALSE(same_host(v4[0], other[0]));
}

TEST(Directory, P2pNameIsAnAddress) {
  P2pDirectory strict, lenient(7000);
  Address got;
  ASSERT_TRUE(strict.lookup("[::1]:9", &got).ok());
  EXPECT_EQ(got, (Address{"::1", 9}));
  EXPECT_EQ(strict.lookup("node", &got).code(), Code::kBadArgument);
  ASSERT_TRUE(lenient.lookup("node", &got).ok());
  EXPECT_EQ(got, (Address{"node", 7000}));
}

}  // namespace
}  // namespace sluice
