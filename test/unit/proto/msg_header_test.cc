#include "proto/msg_header.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "frame_verdict.h"

namespace sluice {
namespace {

using Bytes = std::vector<std::byte>;
constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

MsgHeader write_header() {
  return {kMsgMagic,
          kMsgVersion,
          MsgType::kWrite,
          kMsgAckNow | kMsgHasCrc,
          0x0102,
          0x0304,
          SessionId{0x1112131415161718},
          0x21222324,
          9,
          TaskId{0x3132333435363738},
          0x4142434445464748,
          0x5152535455565758,
          0x61626364,
          0x71727374,
          0x81828384,
          0xE3069283};
}

std::span<const std::byte> digits() { return std::as_bytes(std::span(std::string_view("123456789"))); }

Bytes message(const MsgHeader& header, size_t payload_bytes) {
  Bytes bytes(kMsgHeaderBytes + payload_bytes, std::byte{0x33});
  encode_message(bytes.data(), header);
  return bytes;
}

Code judge(const MsgHeader& header, size_t payload_bytes) {
  MsgHeader out;
  return parse_message(message(header, payload_bytes), &out);
}

// The bytes that doc/wire.md shows. A change of them is a new version of the protocol.
TEST(MsgHeader, GoldenBytes) {
  Bytes bytes = message(write_header(), 9);
  std::memcpy(bytes.data() + kMsgHeaderBytes, digits().data(), 9);
  EXPECT_EQ(test::to_hex(std::span(bytes).first(kMsgHeaderBytes)),
            "5c01010502010403"
            "1817161514131211"
            "2423222109000000"
            "3837363534333231"
            "4847464544434241"
            "5857565554535251"
            "6463626174737271"
            "8483828183"
            "9206e3");
  MsgHeader parsed;
  ASSERT_EQ(parse_message(bytes, &parsed), Code::kOk);
  EXPECT_EQ(std::memcmp(&parsed, bytes.data(), sizeof parsed), 0);
  EXPECT_EQ(parsed.task, TaskId{0x3132333435363738});
  EXPECT_EQ(parsed.ctrl_ack, 0x0304);
}

TEST(MsgHeader, WrongPayloadOrCrcIsRefused) {
  Bytes bytes = message(write_header(), 9);
  std::memcpy(bytes.data() + kMsgHeaderBytes, digits().data(), 9);
  MsgHeader parsed;
  ASSERT_EQ(parse_message(bytes, &parsed), Code::kOk);
  for (size_t bit = 0; bit < 9 * 8; ++bit) {
    Bytes flipped = bytes;
    flipped[kMsgHeaderBytes + bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_EQ(parse_message(flipped, &parsed), Code::kBadFrame);
  }
  MsgHeader no_flag = write_header();
  no_flag.flags = 0;
  EXPECT_EQ(judge(no_flag, 9), Code::kBadFrame) << "a crc that is not announced";
  no_flag.crc = 0;
  EXPECT_EQ(judge(no_flag, 9), Code::kOk);
}

TEST(MsgHeader, SizeMustBeExact) {
  const Bytes bytes = message({kMsgMagic, kMsgVersion, MsgType::kWrite, 0, 0, 0, {}, 1, 10, {}, 0, 10, 0, 0, 1, 0}, 10);
  MsgHeader parsed;
  ASSERT_EQ(parse_message(bytes, &parsed), Code::kOk);
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_EQ(parse_message(std::span(bytes).first(size), &parsed), Code::kBadFrame);
  Bytes longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_EQ(parse_message(longer, &parsed), Code::kBadFrame);
}

TEST(MsgHeader, MagicVersionTypeAndFlags) {
  for (size_t at = 0; at < 4; ++at) {
    for (int value = 0; value < 256; ++value) {
      Bytes bytes = message({kMsgMagic, kMsgVersion, MsgType::kWrite, 0, 0, 0, {}, 1, 8, {}, 0, 8, 0, 0, 1, 0}, 8);
      bytes[at] = static_cast<std::byte>(value);
      bool good = value == 1;
      if (at == 0) good = value == 0x5C;
      if (at == 2) good = value == 1 || value == 3;  // these fields would do for a READ_RESP too
      if (at == 3) good = value < 4;                 // the third flag announces a CRC, which is not there
      std::array<std::byte, sizeof(MsgHeader)> before;
      before.fill(std::byte{0xA5});
      MsgHeader parsed;
      std::memcpy(&parsed, before.data(), sizeof parsed);
      EXPECT_EQ(parse_message(bytes, &parsed) == Code::kOk, good) << at << ' ' << value;
      EXPECT_EQ(std::memcmp(&parsed, before.data(), sizeof parsed) == 0, !good);
    }
  }
}

TEST(MsgHeader, FieldsAgreeForEachType) {
  const MsgHeader write{kMsgMagic, kMsgVersion, MsgType::kWrite, 0, 1, 0, {}, 1, 8, {}, 100, 50, 3, 0, 1, 0};
  const auto with = [](MsgHeader h, auto change) {
    change(h);
    return h;
  };
  EXPECT_EQ(judge(write, 8), Code::kOk);
  EXPECT_EQ(judge(with(write, [](auto& h) { h.total = 7; }), 8), Code::kBadFrame);
  EXPECT_EQ(judge(with(write, [](auto& h) { h.length = 0; }), 0), Code::kBadFrame);
  EXPECT_EQ(judge(with(write, [](auto& h) { h.length = 0xFFFFFFFF; }), 8), Code::kBadFrame);
  EXPECT_EQ(judge(with(write, [](auto& h) { h.offset = kMax - 7; }), 8), Code::kBadFrame);
  EXPECT_EQ(judge(with(write, [](auto& h) { h.offset = kMax - 8; }), 8), Code::kOk);

  const MsgHeader read = with(write, [](auto& h) { h.type = MsgType::kReadReq, h.length = 0; });
  EXPECT_EQ(judge(read, 0), Code::kOk);
  EXPECT_EQ(judge(read, 1), Code::kBadFrame);
  EXPECT_EQ(judge(with(read, [](auto& h) { h.length = 1; }), 1), Code::kBadFrame);
  EXPECT_EQ(judge(with(read, [](auto& h) { h.total = 0; }), 0), Code::kBadFrame);
  EXPECT_EQ(judge(with(read, [](auto& h) { h.total = kMax, h.offset = 1; }), 0), Code::kBadFrame);

  const MsgHeader response = with(write, [](auto& h) { h.type = MsgType::kReadResp, h.buffer = 0, h.offset = 42; });
  EXPECT_EQ(judge(response, 8), Code::kOk);
  EXPECT_EQ(judge(with(response, [](auto& h) { h.offset = 43; }), 8), Code::kBadFrame);
  EXPECT_EQ(judge(with(response, [](auto& h) { h.offset = kMax; }), 8), Code::kBadFrame);
  EXPECT_EQ(judge(with(response, [](auto& h) { h.buffer = 1; }), 8), Code::kBadFrame);
  EXPECT_EQ(judge(with(response, [](auto& h) { h.length = 0; }), 0), Code::kBadFrame);

  const MsgHeader abort =
      with(write, [](auto& h) { h.type = MsgType::kAbort, h.length = 0, h.buffer = 0, h.offset = 0; });
  EXPECT_EQ(judge(abort, 0), Code::kOk);
  EXPECT_EQ(judge(with(abort, [](auto& h) { h.total = 0; }), 0), Code::kOk);
  EXPECT_EQ(judge(abort, 1), Code::kBadFrame);
  EXPECT_EQ(judge(with(abort, [](auto& h) { h.buffer = 1; }), 0), Code::kBadFrame);
  EXPECT_EQ(judge(with(abort, [](auto& h) { h.offset = 1; }), 0), Code::kBadFrame);
}

TEST(Crc32c, KnownValues) {
  EXPECT_EQ(crc32c({}), 0u);
  EXPECT_EQ(crc32c(digits()), 0xE3069283u);
  EXPECT_EQ(crc32c(Bytes(32, std::byte{0})), 0x8A9136AAu);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(Bytes(32, std::byte{0xFF})), 0x62A8AB43u);
  Bytes rising(32), falling(32);
  for (size_t i = 0; i < 32; ++i) {
    rising[i] = static_cast<std::byte>(i);
    falling[i] = static_cast<std::byte>(31 - i);
  }
  EXPECT_EQ(crc32c(rising), 0x46DD794Eu);
  EXPECT_EQ(crc32c(falling), 0x113FDB5Cu);
}

TEST(Crc32c, EveryLengthAndAlignment) {
  Bytes bytes(80);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
  for (size_t from = 0; from < 9; ++from) {
    for (size_t length = 0; length + from <= bytes.size(); ++length) {
      const auto part = std::span<const std::byte>(bytes).subspan(from, length);
      uint32_t crc = 0xFFFFFFFF;  // bit by bit
      for (std::byte b : part) {
        crc ^= std::to_integer<uint32_t>(b);
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
      }
      ASSERT_EQ(crc32c(part), ~crc) << from << ' ' << length;
    }
  }
}

}  // namespace
}  // namespace sluice
