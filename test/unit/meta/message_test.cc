#include "meta/message.h"

#include <gtest/gtest.h>

#include "meta/descriptor.h"
#include "meta/frame_auth.h"

namespace sluice {
namespace {

Hello sample_hello() {
  return {.name = "node-a",
          .incarnation = Incarnation{UINT64_MAX},
          .nonce = 1ull << 63,
          .transport = "fabric_twosided",
          .provider = "tcp;ofi_rxm",
          .features = {"data_nak", "crc"},
          .max_message_bytes = 65536,
          .lease_ms = 3000,
          .port = 7000,
          .secret = true};
}

PathOffer sample_offer() {
  PathOffer offer;
  offer.attempt = 9;
  offer.ctrl_address = {std::byte{0}, std::byte{0xff}};
  offer.lanes = {{1, 2, 3, SessionId{UINT64_MAX - 1}, {std::byte{0xab}}}, {0, 0, 4, SessionId{7}, {}}};
  offer.slot_bytes = 65600;
  offer.slots = 512;
  return offer;
}

template <typename M>
M round_trip(const M& message) {
  std::string text;
  EXPECT_TRUE(encode_message(message, &text).ok());
  OobMessage got;
  const Status status = parse_message(text, &got);
  EXPECT_TRUE(status.ok()) << status.describe();
  EXPECT_TRUE(std::holds_alternative<M>(got));
  std::string again;
  EXPECT_TRUE(encode_message(got, &again).ok());
  EXPECT_EQ(text, again);
  return std::holds_alternative<M>(got) ? std::get<M>(got) : M{};
}

Status parse(const std::string& text) {
  OobMessage out;
  return parse_message(text, &out);
}

TEST(Message, HelloRoundTrip) {
  const Hello got = round_trip(sample_hello());
  EXPECT_EQ(got.incarnation, Incarnation{UINT64_MAX});  // past what a double holds
  EXPECT_EQ(got.nonce, 1ull << 63);
  EXPECT_EQ(got.provider, "tcp;ofi_rxm");
  EXPECT_EQ(got.port, 7000);
  EXPECT_TRUE(got.secret);
  EXPECT_TRUE(got.has_feature("crc"));
  EXPECT_FALSE(got.has_feature("cr"));
}

TEST(Message, OfferRoundTrip) {
  const PathOffer got = round_trip(sample_offer());
  ASSERT_EQ(got.lanes.size(), 2u);
  EXPECT_EQ(got.lanes[0].session, SessionId{UINT64_MAX - 1});
  EXPECT_EQ(got.lanes[0].address, std::vector<std::byte>{std::byte{0xab}});
  EXPECT_EQ(got.ctrl_address, sample_offer().ctrl_address);
  EXPECT_EQ(got.slots, 512u);
  PathAnswer answer;
  answer.refusal = "no";
  EXPECT_EQ(round_trip(answer).refusal, "no");
}

TEST(Message, OthersRoundTrip) {
  EXPECT_EQ(round_trip(Welcome{5}).nonce, 5u);
  EXPECT_EQ(round_trip(Ping{6}).nonce, 6u);
  EXPECT_EQ(round_trip(Pong{7}).nonce, 7u);
  EXPECT_EQ(round_trip(SegmentQuery{8, "kv"}).name, "kv");
  const SegmentReply reply = round_trip(SegmentReply{9, "", {{BufferId{3}, UINT64_MAX}}});
  EXPECT_EQ(reply.buffers, (std::vector<SegmentBuffer>{{BufferId{3}, UINT64_MAX}}));
  const Bye bye = round_trip(Bye{.reason = "done", .fenced = true});
  EXPECT_TRUE(bye.fenced);
  EXPECT_FALSE(bye.duplicate);
}

// Keys are 64 bits, which a double does not hold.
TEST(Message, KeysOfEveryRailRoundTrip) {
  constexpr uint64_t kLarge = (uint64_t{1} << 53) + 1;
  SegmentBuffer buffer{BufferId{3}, 100};
  buffer.chunks = {{0, 60, {kLarge, UINT64_MAX}, {UINT64_MAX - 1, kLarge}}, {60, 40, {1, 2}, {3, 0}}};
  EXPECT_EQ(round_trip(SegmentReply{9, "", {buffer}}).buffers[0], buffer);
  EXPECT_EQ(round_trip(BuffersEnd{4, {7, UINT64_MAX}}).ids, (std::vector<uint64_t>{7, UINT64_MAX}));
  EXPECT_EQ(round_trip(BuffersLeft{4}).request, 4u);
  const PathMove move = round_trip(PathMove{2, 3, {std::byte{1}}});
  EXPECT_EQ(move.rail, 2u);
  EXPECT_EQ(move.worker, 3u);
  EXPECT_EQ(move.address.size(), 1u);
}

TEST(Message, ChunksThatDoNotAddUpAreRefused) {
  const auto refused = [](const std::string& chunks, const char* why) {
    const Status s = parse(R"({"type":"segment_reply","request":"1","buffers":[{"id":1,"length":"100","chunks":[)" +
                           chunks + "]}]}");
    EXPECT_EQ(s.code(), Code::kBadFrame) << chunks;
    EXPECT_NE(s.text().find(why), std::string::npos) << s.text();
  };
  const std::string one = R"("addrs":["1"],"keys":["2"]})";
  EXPECT_TRUE(
      parse(R"({"type":"segment_reply","buffers":[{"id":1,"length":"100","chunks":[{"length":"100",)" + one + "]}]}")
          .ok());
  refused(R"({"length":"99",)" + one, "cover");
  refused(R"({"length":"101",)" + one, "beyond");
  refused(R"({"length":"50",)" + one + R"(,{"offset":"51","length":"49",)" + one, "follow");
  refused(R"({"length":"50",)" + one + R"(,{"offset":"50","length":"18446744073709551615",)" + one, "beyond");
  refused(R"({"offset":"1","length":"99",)" + one, "follow");
  refused(R"({"length":"100","addrs":["1","2"],"keys":["2"]})", "keys");
  refused(R"({"length":"100","addrs":[],"keys":[]})", "keys");
  refused(R"({"length":"50",)" + one + R"(,{"offset":"50","length":"50","addrs":["1","2"],"keys":["1","2"]})", "first");
  refused(R"({"length":"100","addrs":[1],"keys":["2"]})", "addrs");
  refused(R"({"length":"0",)" + one, "length");
  std::string many;
  for (int i = 0; i < 17; ++i) many += std::string(i == 0 ? "" : ",") + "\"1\"";
  refused(R"({"length":"100","addrs":[)" + many + R"(],"keys":[)" + many + "]}", "addrs");
}

TEST(Message, TextsForPeopleAlwaysFit) {
  for (const char c : {'x', '\xff', '\n'}) {
    std::string text;
    ASSERT_TRUE(encode_message(Bye{.reason = std::string(5000, c)}, &text).ok());
    EXPECT_TRUE(parse(text).ok()) << parse(text).text();
  }
}

TEST(Message, UnknownFieldsAreIgnoredAndMissingOnesDefaulted) {
  OobMessage got;
  ASSERT_TRUE(parse_message(R"({"type":"offer","later":{"x":[1]},"lanes":[{"session":"4","also":null}]})", &got).ok());
  const auto& offer = std::get<PathOffer>(got);
  EXPECT_EQ(offer.slots, 0u);
  ASSERT_EQ(offer.lanes.size(), 1u);
  EXPECT_EQ(offer.lanes[0].session, SessionId{4});
}

TEST(Message, AnotherVersionIsReadAsFarAsItsNumber) {
  OobMessage got;
  ASSERT_TRUE(parse_message(R"({"type":"hello","version":2,"name":{"new":"form"}})", &got).ok());
  EXPECT_EQ(std::get<Hello>(got).version, 2u);
}

struct BadRow {
  const char* text;
  const char* names;  ///< What the error must name.
};
TEST(Message, BadInputNamesTheField) {
  const std::string deep = R"({"type":"ping","nonce":)" + std::string(1000, '[') + std::string(1000, ']') + "}";
  const BadRow rows[] = {
      {"", "not JSON"},
      {"GET / HTTP/1.1", "not JSON"},
      {"[]", "not a JSON object"},
      {"{}", "'type' is missing"},
      {R"({"type":7})", "'type' is no string"},
      {R"({"type":"ping"})", "ping: field 'nonce' is missing"},
      {R"({"type":"ping","nonce":5})", "'nonce' is no string of digits"},
      {R"({"type":"ping","nonce":"0"})", "'nonce' is 0"},
      {R"({"type":"ping","nonce":"-1"})", "'nonce'"},
      {R"({"type":"ping","nonce":"18446744073709551616"})", "'nonce'"},
      {R"({"type":"hello","version":1,"incarnation":"1","nonce":"1","lease_ms":1})", "'name' is missing"},
      {R"({"type":"hello","version":1,"name":"","incarnation":"1","nonce":"1","lease_ms":1})", "'name' is empty"},
      {R"({"type":"hello","version":1,"name":"a\nb","incarnation":"1","nonce":"1","lease_ms":1})",
       "control characters"},
      {R"({"type":"hello","version":4294967296})", "at most 4294967295"},
      {R"({"type":"hello","version":1.5})", "no whole number"},
      {R"({"type":"offer","slots":-1})", "'slots' is no whole number"},
      {R"({"type":"offer","lanes":{}})", "'lanes' is no list"},
      {R"({"type":"offer","lanes":[5]})", "offer.lanes[0] is no object"},
      {R"({"type":"offer","lanes":[{"session":"1"},{"session":"2","rail":65536}]})", "offer.lanes[1]: field 'rail'"},
      {R"({"type":"offer","ctrl_address":"abc"})", "odd number"},
      {R"({"type":"offer","ctrl_address":"zz"})", "hexadecimal"},
      {R"({"type":"bye","fenced":1})", "neither true nor false"},
      {deep.c_str(), "nested deeper"},
  };
  for (const BadRow& row : rows) {
    const Status status = parse(row.text);
    EXPECT_EQ(status.code(), Code::kBadFrame) << row.text;
    EXPECT_NE(status.text().find(row.names), std::string::npos) << row.text << " gave " << status.text();
  }
  EXPECT_EQ(parse(R"({"type":"later"})").code(), Code::kUnsupported);
}

TEST(Message, CapsHoldBothWays) {
  PathOffer offer;
  offer.lanes.resize(kMaxOfferLanes + 1, LaneOffer{0, 0, 0, SessionId{1}, {}});
  std::string text;
  EXPECT_EQ(encode_message(offer, &text).code(), Code::kLimit);
  offer.lanes.resize(kMaxOfferLanes);
  offer.lanes[0].address.resize(kMaxAddressBlobBytes + 1);
  EXPECT_EQ(encode_message(offer, &text).code(), Code::kLimit);
  std::string list = R"({"type":"segment_reply","buffers":[{})";
  for (size_t i = 0; i < kMaxSegmentBuffers; ++i) list += ",{}";
  EXPECT_NE(parse(list + "]}").text().find("8193 entries"), std::string::npos);
  const std::string blob(2 * kMaxAddressBlobBytes + 2, 'a');
  EXPECT_EQ(parse(R"({"type":"offer","ctrl_address":")" + blob + "\"}").code(), Code::kBadFrame);
}

TEST(Message, EveryMutationOfAnOfferIsAnswered) {
  std::string text;
  ASSERT_TRUE(encode_message(sample_offer(), &text).ok());
  for (size_t i = 0; i < text.size(); ++i) {
    (void)parse(text.substr(0, i));
    for (const char c : {'\0', '"', '{', ']', '9', '\xff'}) {
      std::string bent = text;
      bent[i] = c;
      (void)parse(bent);
    }
  }
}

TEST(Descriptor, RoundTripAndRules) {
  NodeDescriptor node{.name = "n",
                      .incarnation = Incarnation{UINT64_MAX},
                      .transport = "loop",
                      .provider = "",
                      .segments = {{"kv", {{BufferId{0}, 1}, {BufferId{1}, UINT64_MAX}}}, {"empty", {}}}};
  std::string text;
  ASSERT_TRUE(encode_descriptor(node, &text).ok());
  NodeDescriptor got;
  ASSERT_TRUE(parse_descriptor(text, &got).ok());
  EXPECT_EQ(got, node);

  const BadRow rows[] = {
      {R"({"name":"n","incarnation":"1"})", "'version' is missing"},
      {R"({"version":1,"incarnation":"1"})", "'name' is missing"},
      {R"({"version":1,"name":"n","incarnation":1})", "'incarnation' is no string"},
      {R"({"version":1,"name":"n","incarnation":"1","segments":[{"name":"a"},{"name":"a"}]})", "stands twice"},
      {R"({"version":1,"name":"n","incarnation":"1","segments":[{"name":"a","buffers":[{"id":"0"}]}]})",
       "descriptor.segments[0].buffers[0]: field 'id'"},
  };
  for (const BadRow& row : rows) {
    const Status status = parse_descriptor(row.text, &got);
    EXPECT_EQ(status.code(), Code::kBadFrame) << row.text;
    EXPECT_NE(status.text().find(row.names), std::string::npos) << row.text << " gave " << status.text();
  }
  EXPECT_EQ(parse_descriptor(R"({"version":2})", &got).code(), Code::kUnsupported);
  EXPECT_TRUE(parse_descriptor(R"({"version":1,"name":"n","incarnation":"1","new":{}})", &got).ok());
}

TEST(FrameAuth, BindsSecretHellosDirectionAndOrder) {
  FrameAuth dialer, acceptor, other;
  dialer.open("secret", "hello-d", "hello-a", true);
  acceptor.open("secret", "hello-d", "hello-a", false);
  const std::string one = dialer.sign("x"), two = dialer.sign("x");
  EXPECT_NE(one, two);
  EXPECT_FALSE(acceptor.verify("x", two));  // out of order
  EXPECT_FALSE(acceptor.verify("y", one));  // another body
  EXPECT_TRUE(acceptor.verify("x", one));
  EXPECT_FALSE(acceptor.verify("x", one));  // a replay
  EXPECT_TRUE(acceptor.verify("x", two));
  EXPECT_FALSE(dialer.verify("x", one));  // reflected
  for (const auto& [secret, d, a] :
       {std::tuple{"Secret", "hello-d", "hello-a"}, std::tuple{"secret", "hello-e", "hello-a"},
        std::tuple{"secret", "hello-d", "hello-b"}, std::tuple{"secret", "hello-", "dhello-a"}}) {
    other.open(secret, d, a, true);
    acceptor.open("secret", "hello-d", "hello-a", false);
    EXPECT_FALSE(acceptor.verify("x", other.sign("x")));
  }
}

}  // namespace
}  // namespace sluice
