// A control agent alone, and a peer made of crafted frames: what is repeated, stale or against a law.
#include "pair_rig.h"

namespace sluice::test {
namespace {

class Frames : public ::testing::Test {
 protected:
  static constexpr SessionId kSession{0x55};
  static constexpr uint32_t kPeerSlots = 20;

  void up(SessionId id = kSession) {
    fake_now = 1000;
    node_.add_peer(0, 0, id);
    turns(3);
  }
  void turns(int n) {
    while (n-- > 0) {
      ++fake_now;
      node_.turn();
      node_.collect();
    }
  }
  FrameHeader header(FrameType type, uint64_t epoch = 1) {
    return {type, type == FrameType::kCtrlAck ? uint16_t{0} : kFlagNeedsAck, kSession, Epoch{epoch}, ++seq_, 0};
  }
  void deliver(size_t bytes) {
    ASSERT_NE(bytes, 0u);
    ASSERT_TRUE(node_.ctrl.deliver(std::span(frame_).first(bytes)));
    turns(2);
  }
  void open(const FrameHeader& h, uint32_t slots = kPeerSlots, uint32_t bytes = HalfNode::kSlot) {
    deliver(encode_session_open(frame_, h, {slots, bytes}));
  }
  void grant(const FrameHeader& h, uint64_t slots) {
    const Charge total = window_charge(slots, slots, HalfNode::kSlot, kMsgHeaderBytes);
    CreditGrant g{kMaxGrantEntries, {}};
    for (uint16_t r = 1; r <= kResources; ++r) g.entries[r - 1u] = {Resource{r}, total.v[r - 1u]};
    deliver(encode_grant(frame_, h, g));
  }
  uint64_t credit() const { return node_.lane[0]->ledger.available(Resource::kBounceSlots); }
  const ControlStats& stats() const { return node_.control->stats(); }

  HalfNode node_{NodeParams{}};
  std::array<std::byte, HalfNode::kFrame> frame_{};
  uint64_t seq_ = 0;
};

TEST_F(Frames, ASecondSessionOpenIsIgnored) {
  up();
  const FrameHeader first = header(FrameType::kSessionOpen);
  open(first);
  EXPECT_TRUE(node_.lane[0]->tx_open);
  grant(header(FrameType::kCreditGrant), 5);
  EXPECT_EQ(credit(), 5u);
  open(first);                                   // repeated on the wire
  open(header(FrameType::kSessionOpen, 7), 40);  // said again, with another ceiling
  EXPECT_EQ(credit(), 5u);
  EXPECT_EQ(node_.lane[0]->ledger.committed()[Resource::kBounceSlots], kPeerSlots);
  EXPECT_EQ(raw(node_.session().tx_epoch), 1u);
  EXPECT_EQ(node_.faults, 0u);
}

TEST_F(Frames, AGrantSaidTwiceIsOneGrant) {
  up();
  open(header(FrameType::kSessionOpen));
  const FrameHeader h = header(FrameType::kCreditGrant);
  grant(h, 5);
  grant(h, 5);
  grant(header(FrameType::kCreditGrant), 5);
  EXPECT_EQ(credit(), 5u);
  grant(header(FrameType::kCreditGrant), 8);
  EXPECT_EQ(credit(), 8u);
  grant(header(FrameType::kCreditGrant, 9), 15);
  grant(header(FrameType::kCreditGrant, 0), 15);
  EXPECT_EQ(credit(), 8u) << "of another epoch";
  EXPECT_EQ(stats().frames_stale.load(), 2u);
  EXPECT_EQ(node_.faults, 0u);
}

TEST_F(Frames, AGrantThatFallsOrGoesBeyondTheCeilingFaultsTheSession) {
  up();
  open(header(FrameType::kSessionOpen));
  grant(header(FrameType::kCreditGrant), 5);
  grant(header(FrameType::kCreditGrant), 4);
  EXPECT_EQ(node_.faults, 1u);
  grant(header(FrameType::kCreditGrant), kPeerSlots + 1);
  EXPECT_EQ(stats().violations.load(), 2u);
  EXPECT_EQ(node_.faults, 1u) << "told once";
  EXPECT_EQ(credit(), 5u);
}

TEST_F(Frames, AcknowledgingWhatWasNotSentFaultsTheSession) {
  up();
  FrameHeader h = header(FrameType::kSessionOpen);
  h.ack_seq = 1000;
  open(h);
  EXPECT_EQ(node_.faults, 1u);
  EXPECT_FALSE(node_.lane[0]->tx_open);
}

TEST_F(Frames, ASequencedFrameWithoutANumberFaultsTheSession) {
  up();
  FrameHeader h = header(FrameType::kSessionOpen);
  h.seq = 0;
  open(h);
  EXPECT_EQ(node_.faults, 1u);
  EXPECT_FALSE(node_.lane[0]->tx_open);
}

TEST_F(Frames, ACtrlAckWithANumberFaultsTheSession) {
  up();
  deliver(encode_frame(frame_, header(FrameType::kCtrlAck), {}));
  EXPECT_EQ(node_.faults, 1u);
}

TEST_F(Frames, ASessionOpenThatIsNotAsOfferedFaultsTheSession) {
  up();
  open(header(FrameType::kSessionOpen), kPeerSlots, HalfNode::kSlot * 2);
  EXPECT_EQ(node_.faults, 1u);
}

TEST_F(Frames, WhatIsNoFrameOrOfNoSessionIsOnlyCounted) {
  up();
  deliver(encode_frame(frame_, header(FrameType::kFence), {}));  // FENCE before SESSION_OPEN does not belong
  FrameHeader h = header(FrameType::kSessionOpen);
  h.session = SessionId{99};
  open(h);
  EXPECT_EQ(stats().frames_stale.load(), 2u);
  frame_.fill(std::byte{0xff});
  deliver(60);
  deliver(1);
  EXPECT_EQ(stats().frames_refused.load(), 2u);
  EXPECT_EQ(node_.faults, 0u);
  --seq_;
  open(header(FrameType::kSessionOpen));
  EXPECT_TRUE(node_.lane[0]->tx_open);
}

TEST_F(Frames, AGapIsNotTaken) {
  up();
  FrameHeader h = header(FrameType::kSessionOpen);
  h.seq = 2;
  open(h);
  EXPECT_FALSE(node_.lane[0]->tx_open);
  h.seq = 1;
  open(h);
  EXPECT_TRUE(node_.lane[0]->tx_open);
}

// Acknowledgements for tasks that do not exist change nothing; a DRAIN_ACK that nobody asked for neither.
TEST_F(Frames, AnswersThatNobodyAskedForChangeNothing) {
  up();
  open(header(FrameType::kSessionOpen));
  const AckEntry acks[] = {{5, 64}, {~0ull, ~0ull}};
  deliver(encode_ack(frame_, header(FrameType::kDataAck), acks));
  deliver(encode_nak(frame_, header(FrameType::kDataNak), {77, 3}));
  deliver(encode_nak(frame_, header(FrameType::kDataNak), {77, 0x100}));
  deliver(encode_drain_ack(frame_, header(FrameType::kDrainAck), {true, {9, 9, 9, 9}}));
  EXPECT_EQ(node_.faults, 0u);
  EXPECT_EQ(node_.worker->stats().stale_messages.load(), 2u);
  EXPECT_EQ(raw(node_.session().rx_epoch), 1u);
}

uint64_t bucket(uint64_t id, uint64_t buckets) { return (id * 0x9E3779B97F4A7C15ull >> 20) % buckets; }

// Sessions whose ids fall into one bucket, the last of the table, so that they also wrap around.
TEST_F(Frames, SessionsThatCollideAreFoundAndErased) {
  fake_now = 1000;
  const uint64_t buckets = 2 * HalfNode::kPeers;
  std::vector<SessionId> ids;
  for (uint64_t id = 1; ids.size() < HalfNode::kPeers; ++id)
    if (bucket(id, buckets) == buckets - 1) ids.push_back(SessionId{id});
  for (uint16_t i = 0; i < HalfNode::kPeers; ++i) node_.add_peer(i, i, ids[i]);
  turns(3);
  std::array<uint64_t, HalfNode::kPeers> seq{};
  const auto reaches = [&](uint16_t i) {
    const uint64_t before = stats().frames_received.load();
    FrameHeader h = header(FrameType::kCreditProgress);
    h.session = ids[i];
    h.seq = ++seq[i];
    deliver(encode_frame(frame_, h, {}));
    return stats().frames_received.load() == before + 1;
  };
  for (uint16_t i = 0; i < HalfNode::kPeers; ++i) EXPECT_TRUE(reaches(i)) << i;
  for (const uint16_t lost : {uint16_t{1}, uint16_t{0}, uint16_t{3}}) {
    node_.lose_peer(lost, 0);
    turns(5);
    EXPECT_EQ(node_.peers[lost], nullptr);
    for (uint16_t i = 0; i < HalfNode::kPeers; ++i) EXPECT_EQ(reaches(i), node_.peers[i] != nullptr) << lost << i;
  }
  node_.add_peer(0, 0, ids[0], 2);
  seq[0] = 0;
  turns(3);
  EXPECT_TRUE(reaches(0));
  EXPECT_TRUE(reaches(2));
  node_.add_peer(1, 1, ids[2], 2);  // an id that is taken
  turns(3);
  EXPECT_EQ(node_.faults, 1u);
  EXPECT_TRUE(reaches(2));
}

}  // namespace
}  // namespace sluice::test
