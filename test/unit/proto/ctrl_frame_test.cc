#include "proto/ctrl_frame.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "frame_verdict.h"

namespace sluice {
namespace {

using test::frame_verdict;
using test::parse_hex;
using test::to_hex;
using Bytes = std::vector<std::byte>;

struct Vector {
  Bytes bytes;
  std::string verdict;
};

std::vector<Vector> read_vectors() {
  std::ifstream in(VECTORS);
  std::vector<Vector> all;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t gap = line.find(' ');
    all.push_back({*parse_hex(line.substr(0, gap)), line.substr(gap + 1, line.find(" #") - gap - 1)});
  }
  return all;
}

// Through the encoder of its type where the payload parses, else as it is.
Bytes encode_again(const Frame& frame) {
  Bytes out(kFrameHeaderBytes + frame.payload.size());
  const FrameHeader& h = frame.header;
  size_t written = 0;
  CreditGrant grant;
  SessionOpen open;
  Notify notify;
  DataNak nak;
  uint32_t count;
  if (h.type == FrameType::kCreditGrant && parse_grant(frame.payload, &grant) == Code::kOk) {
    written = encode_grant(out, h, grant);
  } else if (h.type == FrameType::kDataAck && parse_ack(frame.payload, &count) == Code::kOk) {
    std::vector<AckEntry> entries;
    for (uint32_t i = 0; i < count; ++i) entries.push_back(ack_entry(frame.payload, i));
    written = encode_ack(out, h, entries);
  } else if (h.type == FrameType::kSessionOpen && parse_session_open(frame.payload, &open) == Code::kOk) {
    written = encode_session_open(out, h, open);
  } else if (h.type == FrameType::kNotify && parse_notify(frame.payload, &notify) == Code::kOk) {
    written = encode_notify(out, h, notify);
  } else if (h.type == FrameType::kDataNak && parse_nak(frame.payload, &nak) == Code::kOk) {
    written = encode_nak(out, h, nak);
  } else {
    written = encode_frame(out, h, frame.payload);
  }
  EXPECT_EQ(written, out.size());
  return out;
}

constexpr FrameHeader header_of(FrameType type) {
  return {type, kFlagNeedsAck, SessionId{0x1122334455667788}, Epoch{7}, 9, 8};
}

TEST(CtrlFrame, JudgesEveryVectorAsPublished) {
  const auto vectors = read_vectors();
  ASSERT_GT(vectors.size(), 100u);
  for (const Vector& v : vectors) EXPECT_EQ(frame_verdict(v.bytes, kLastPublishedType), v.verdict) << to_hex(v.bytes);
}

TEST(CtrlFrame, AcceptedVectorsEncodeToTheSameBytes) {
  size_t accepted = 0;
  for (const Vector& v : read_vectors()) {
    Frame frame;
    if (parse_frame(v.bytes, kLastPublishedType, &frame) != Code::kOk) continue;
    ++accepted;
    EXPECT_EQ(to_hex(encode_again(frame)), to_hex(v.bytes));
  }
  EXPECT_GT(accepted, 50u);
}

TEST(CtrlFrame, TruncatedAndExtendedFramesAreRefused) {
  for (const Vector& v : read_vectors()) {
    Frame frame;
    if (parse_frame(v.bytes, kLastPublishedType, &frame) != Code::kOk) continue;
    for (size_t size = 0; size < v.bytes.size(); ++size)
      EXPECT_EQ(parse_frame(std::span(v.bytes).first(size), kLastPublishedType, &frame), Code::kBadFrame);
    Bytes longer = v.bytes;
    longer.push_back(std::byte{0});
    EXPECT_EQ(parse_frame(longer, kLastPublishedType, &frame), Code::kBadFrame);
  }
}

TEST(CtrlFrame, RefusedHeaderLeavesTheOutputUntouched) {
  for (const Vector& v : read_vectors()) {
    std::array<std::byte, sizeof(Frame)> before;
    before.fill(std::byte{0xA5});
    Frame frame;
    std::memcpy(&frame, before.data(), sizeof frame);
    if (parse_frame(v.bytes, kLastPublishedType, &frame) == Code::kOk) continue;
    EXPECT_EQ(std::memcmp(&frame, before.data(), sizeof frame), 0);
  }
}

TEST(CtrlFrame, OurTypesOnlyWhenThePeerOfferedThem) {
  Bytes out(100);
  const size_t n = encode_nak(out, header_of(FrameType::kDataNak), {0x0102030405060708, 13});
  ASSERT_EQ(n, kFrameHeaderBytes + 12);
  const auto bytes = std::span<const std::byte>(out).first(n);
  Frame frame;
  EXPECT_EQ(parse_frame(bytes, kLastPublishedType, &frame), Code::kBadFrame);
  ASSERT_EQ(parse_frame(bytes, kLastType, &frame), Code::kOk);
  DataNak nak;
  ASSERT_EQ(parse_nak(frame.payload, &nak), Code::kOk);
  EXPECT_EQ(nak.task, 0x0102030405060708u);
  EXPECT_EQ(nak.code, 13u);
  EXPECT_EQ(parse_nak(frame.payload.first(11), &nak), Code::kBadFrame);
  EXPECT_EQ(to_hex(frame.payload), "08070605040302010d000000");
}

TEST(CtrlFrame, EveryBitOfTheFixedFieldsCounts) {
  Bytes out(kFrameHeaderBytes);
  ASSERT_EQ(encode_frame(out, header_of(FrameType::kFence), {}), kFrameHeaderBytes);
  for (size_t bit = 0; bit < kFrameHeaderBytes * 8; ++bit) {
    Bytes flipped = out;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    Frame frame;
    const bool fixed = bit < 5 * 8 || bit / 8 == 6 || bit / 8 == 7 || bit >= 40 * 8;
    const bool ack_flag = bit == 6 * 8;
    const bool type = bit / 8 == 5;  // a flipped type may be another known one
    if (type) continue;
    EXPECT_EQ(parse_frame(flipped, kLastType, &frame), fixed && !ack_flag ? Code::kBadFrame : Code::kOk) << bit;
  }
}

TEST(CtrlFrame, GrantRefusesRepeatedResourcesAndLeavesTheOutput) {
  const CreditGrant grant{2, {{{Resource::kBounceSlots, 1}, {Resource::kBounceSlots, 2}}}};
  Bytes out(200);
  const size_t n = encode_grant(out, header_of(FrameType::kCreditGrant), grant);
  CreditGrant parsed{3, {{{Resource::kDataBytes, 77}}}};
  EXPECT_EQ(parse_grant(std::span<const std::byte>(out).subspan(kFrameHeaderBytes, n - kFrameHeaderBytes), &parsed),
            Code::kBadFrame);
  EXPECT_EQ(parsed.count, 3u);
  EXPECT_EQ(parsed.entries[0].total, 77u);
}

TEST(CtrlFrame, TotalsOfAllOnesSurvive) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  const CreditGrant grant{4,
                          {{{Resource::kDataBytes, kMax},
                            {Resource::kRequestSlots, 0},
                            {Resource::kBounceBytes, kMax},
                            {Resource::kBounceSlots, kMax - 1}}}};
  Bytes out(kFrameHeaderBytes + 42);
  ASSERT_EQ(encode_grant(out, header_of(FrameType::kCreditGrant), grant), out.size());
  CreditGrant parsed;
  ASSERT_EQ(parse_grant(std::span<const std::byte>(out).subspan(kFrameHeaderBytes), &parsed), Code::kOk);
  EXPECT_EQ(parsed.entries[0].total, kMax);
  EXPECT_EQ(parsed.entries[3].total, kMax - 1);
}

TEST(CtrlFrame, RequestAndDrainAckAreOursOrEmpty) {
  Bytes out(200);
  const auto payload_of = [&](size_t n) {
    Frame frame;
    EXPECT_EQ(parse_frame(std::span<const std::byte>(out).first(n), kLastPublishedType, &frame), Code::kOk);
    return frame.payload;
  };
  CreditRequest request{true, 1, 1};
  ASSERT_EQ(parse_request(payload_of(encode_request(out, header_of(FrameType::kCreditRequest), {})), &request),
            Code::kOk);
  EXPECT_FALSE(request.told);
  EXPECT_EQ(request.slots, 0u);
  const size_t n = encode_request(out, header_of(FrameType::kCreditRequest), {true, 0x10000, 3});
  ASSERT_EQ(n, kFrameHeaderBytes + 16);
  ASSERT_EQ(parse_request(payload_of(n), &request), Code::kOk);
  EXPECT_TRUE(request.told);
  EXPECT_EQ(request.data_bytes, 0x10000u);
  EXPECT_EQ(request.slots, 3u);
  for (size_t size = 1; size < 40; ++size) {
    const auto payload = std::span<const std::byte>(out).first(size);
    CreditRequest kept{true, 5, 6};
    EXPECT_EQ(parse_request(payload, &kept), size == 16 ? Code::kOk : Code::kBadFrame);
    EXPECT_EQ(kept.slots == 6, size != 16);
    DrainAck untouched{true, {4, 3, 2, 1}};
    if (size == 32) continue;
    EXPECT_EQ(parse_drain_ack(payload, &untouched), Code::kBadFrame);
    EXPECT_EQ(untouched.posted[0], 4u);
  }
  DrainAck ack{true, {}};
  ASSERT_EQ(parse_drain_ack(payload_of(encode_drain_ack(out, header_of(FrameType::kDrainAck), {})), &ack), Code::kOk);
  EXPECT_FALSE(ack.told);
  const size_t m = encode_drain_ack(out, header_of(FrameType::kDrainAck), {true, {1, 2, 3, ~uint64_t{0}}});
  ASSERT_EQ(m, kFrameHeaderBytes + 32);
  ASSERT_EQ(parse_drain_ack(payload_of(m), &ack), Code::kOk);
  EXPECT_TRUE(ack.told);
  EXPECT_EQ(ack.posted, (std::array<uint64_t, 4>{1, 2, 3, ~uint64_t{0}}));
}

TEST(CtrlFrame, NotifyStringsStayInsideTheFrame) {
  Bytes out(200);
  const size_t n = encode_notify(out, header_of(FrameType::kNotify), {"node", ""});
  Frame frame;
  ASSERT_EQ(parse_frame(std::span<const std::byte>(out).first(n), kLastPublishedType, &frame), Code::kOk);
  Notify notify{"before", "before"};
  ASSERT_EQ(parse_notify(frame.payload, &notify), Code::kOk);
  EXPECT_EQ(notify.name, "node");
  EXPECT_EQ(notify.message, "");
  EXPECT_EQ(to_hex(frame.payload), "040000006e6f646500000000");
  notify = {"before", "before"};
  for (const char* bad : {"-", "00000000", "ffffffff00000000", "00000000ffffffff", "05000000616263640000000",
                          "0100000061", "000000000100000061ff", "fcffffff0000000000000000"}) {
    const auto payload = parse_hex(bad);
    if (!payload) continue;
    EXPECT_EQ(parse_notify(*payload, &notify), Code::kBadFrame) << bad;
  }
  EXPECT_EQ(notify.name, "before");
}

TEST(CtrlFrame, EncodersWriteNothingThatDoesNotFit) {
  Bytes out(kFrameHeaderBytes + 41, std::byte{0xEE});
  const CreditGrant grant{4, {}};
  EXPECT_EQ(encode_grant(out, header_of(FrameType::kCreditGrant), grant), 0u);
  EXPECT_EQ(encode_notify(std::span(out).first(60), header_of(FrameType::kNotify), {"abcd", "efghi"}), 0u);
  EXPECT_EQ(encode_frame(std::span(out).first(43), header_of(FrameType::kFence), {}), 0u);
  for (std::byte b : out) EXPECT_EQ(b, std::byte{0xEE});
  EXPECT_EQ(ack_entries_in(45), 0u);
  EXPECT_EQ(ack_entries_in(kFrameHeaderBytes + 2 + 3 * 16 + 15), 3u);
}

TEST(CtrlFrame, SetAckSeqChangesNothingElse) {
  Bytes out(kFrameHeaderBytes);
  ASSERT_EQ(encode_frame(out, header_of(FrameType::kFence), {}), kFrameHeaderBytes);
  set_ack_seq(out, 0xFFEEDDCCBBAA9988);
  Frame frame;
  ASSERT_EQ(parse_frame(out, kLastPublishedType, &frame), Code::kOk);
  EXPECT_EQ(frame.header.ack_seq, 0xFFEEDDCCBBAA9988u);
  EXPECT_EQ(frame.header.seq, 9u);
  EXPECT_EQ(frame.header.epoch, Epoch{7});
}

TEST(CtrlFrame, RandomBytesBehindAGoodHeaderNeverEscape) {
  std::mt19937_64 rng(42);
  for (int round = 0; round < 20000; ++round) {
    Bytes payload(rng() % 64);
    for (std::byte& b : payload) b = static_cast<std::byte>(rng() % 3 == 0 ? rng() : rng() % 5);
    Bytes out(kFrameHeaderBytes + payload.size());
    const auto type = static_cast<FrameType>(1 + rng() % kLastType);
    ASSERT_EQ(encode_frame(out, header_of(type), payload), out.size());
    Frame frame;
    ASSERT_EQ(parse_frame(out, kLastType, &frame), Code::kOk);
    ASSERT_EQ(encode_again(frame), out);
  }
}

TEST(CtrlFrame, NamesOfTypes) {
  EXPECT_EQ(frame_type_name(FrameType::kNotify), "NOTIFY_COMPAT");
  EXPECT_EQ(frame_type_name(FrameType::kDataNak), "DATA_NAK");
  EXPECT_EQ(frame_type_name(static_cast<FrameType>(0)), "UNKNOWN");
  EXPECT_EQ(frame_type_name(static_cast<FrameType>(12)), "UNKNOWN");
}

}  // namespace
}  // namespace sluice
