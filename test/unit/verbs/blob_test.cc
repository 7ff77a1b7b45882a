// The address of a path's end on the wire.
#include "verbs/blob.h"

#include <gtest/gtest.h>

#include "base/bytes.h"

namespace sluice::verbs {
namespace {

EndAddress some() {
  EndAddress end;
  end.kind = GidKind::kRoceV1;
  end.mtu_code = 5;
  end.port = 2;
  end.lid = 0x1234;
  end.reads = 16;
  end.qp_number = 0xabcdef;
  end.psn = 0x123456;
  end.msg_bytes = 1u << 20;
  end.rx_depth = 512;
  for (size_t i = 0; i < end.gid.size(); ++i) end.gid[i] = static_cast<uint8_t>(i + 1);
  return end;
}

TEST(EndAddressBlob, ComesBackAsItWas) {
  EndAddress got;
  ASSERT_TRUE(parse_address(encode_address(some()), &got).ok());
  EXPECT_EQ(got.kind, GidKind::kRoceV1);
  EXPECT_EQ(got.mtu_code, 5);
  EXPECT_EQ(got.port, 2);
  EXPECT_EQ(got.lid, 0x1234);
  EXPECT_EQ(got.reads, 16);
  EXPECT_EQ(got.qp_number, 0xabcdefu);
  EXPECT_EQ(got.psn, 0x123456u);
  EXPECT_EQ(got.msg_bytes, 1u << 20);
  EXPECT_EQ(got.rx_depth, 512u);
  EXPECT_EQ(got.gid, some().gid);
}

TEST(EndAddressBlob, WhatCannotBeIsRefusedAndLeavesTheOutput) {
  const auto good = encode_address(some());
  const auto refused = [&](size_t at, uint8_t value) {
    auto bytes = good;
    bytes[at] = std::byte{value};
    EndAddress out;
    out.lid = 7;
    const Status status = parse_address(bytes, &out);
    EXPECT_EQ(out.lid, 7) << "byte " << at;
    return status.code() == Code::kBadArgument && !status.text().empty();
  };
  EXPECT_TRUE(refused(0, 0));  // magic
  EXPECT_TRUE(refused(4, 2));  // version
  EXPECT_TRUE(refused(5, 0));  // kind
  EXPECT_TRUE(refused(5, 4));
  EXPECT_TRUE(refused(6, 0));  // MTU
  EXPECT_TRUE(refused(6, 6));
  EXPECT_TRUE(refused(7, 0));   // port
  EXPECT_TRUE(refused(11, 1));  // zeros
  EXPECT_TRUE(refused(30, 1));
  EXPECT_TRUE(refused(15, 1));     // 25 bits of queue pair number
  EXPECT_TRUE(refused(19, 0x80));  // of PSN
  EndAddress out;
  for (size_t size = 0; size < 80; ++size) {
    if (size == good.size()) continue;
    auto bytes = good;
    bytes.resize(size);
    EXPECT_EQ(parse_address(bytes, &out).code(), Code::kBadArgument) << size;
  }
}

}  // namespace
}  // namespace sluice::verbs
