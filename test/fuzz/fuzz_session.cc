// A session against a hostile peer: a control agent and a worker, with frames and messages that the input chooses. An
// honest peer is beside it. Whatever the hostile one does, nothing crashes, the laws of credit hold for the honest one,
// receives for control stay posted, and at the end a write of the honest peer is still placed.
#include <rte_eal.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "../unit/agent/half_node.h"
#include "proto/msg_header.h"

using namespace sluice;
using namespace sluice::test;

namespace {

void require(bool good) {
  if (!good) __builtin_trap();
}

class Input {
 public:
  Input(const uint8_t* data, size_t size) : bytes_(std::as_bytes(std::span(data, size))) {}
  bool empty() const { return bytes_.empty(); }
  uint8_t byte() { return static_cast<uint8_t>(number(1)); }
  uint64_t number(size_t width) {
    uint64_t value = 0;
    const auto from = take(width);
    std::memcpy(&value, from.data(), from.size());
    return value;
  }
  // A number near @p base, or any.
  uint64_t near(uint64_t base) {
    const uint8_t way = byte();
    return way < 0xf0 ? base + way % 5 - 1 : number(8);
  }
  std::span<const std::byte> take(size_t count) {
    const auto taken = bytes_.first(std::min(count, bytes_.size()));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const std::byte> bytes_;
};

constexpr SessionId kHostile{0x1111}, kHonest{0x2222};
constexpr uint16_t kHostileAt = 1;

class Rig {
 public:
  Rig() : a_(params()), b_(params()) {
    fake_now = 1000;
    a_.ctrl.link(PathId{0}, &b_.ctrl);
    a_.data.link(PathId{0}, &b_.data);
    b_.ctrl.link(PathId{0}, &a_.ctrl);
    b_.data.link(PathId{0}, &a_.data);
    a_.ctrl.record = a_.data.record = b_.ctrl.record = b_.data.record = false;
    a_.add_peer(0, 0, kHonest);
    b_.add_peer(0, 0, kHonest);
    for (int i = 0; i < 2000 && (a_.ready == 0 || b_.ready == 0); ++i) turn(1);
    require(a_.ready == 1 && b_.ready == 1);
    a_.add_peer(kHostileAt, 0, kHostile);
    turn(1);
  }

  void run(Input& in) {
    for (int steps = 0; steps < 200 && !in.empty(); ++steps) step(in);
    for (int i = 0; i < 50; ++i) turn(10);
    // The honest peer is as it was.
    const uint64_t done = b_.done;
    for (uint64_t i = 0; i < 700; ++i) b_.local[i] = std::byte(i * 7);
    require(b_.submit(SubmitOp::kWrite, 1, 0, 700));
    for (int i = 0; i < 20'000 && b_.done == done; ++i) turn(10);
    require(b_.done == done + 1 && std::memcmp(a_.memory.data(), b_.local.data(), 700) == 0);
    require(!a_.peers[0]->failed && !a_.peers[0]->fault_told && b_.faults == 0);
    require(a_.ctrl.overruns + a_.data.overruns + b_.ctrl.overruns + b_.data.overruns == 0);
    require(a_.control->stats().lost_messages.load() + a_.worker->stats().lost_messages.load() == 0);
    end();
  }

 private:
  static NodeParams params() {
    NodeParams p;
    p.extent_slots = 32;
    return p;
  }
  void turn(uint64_t ticks) {
    fake_now += ticks;
    a_.turn();
    b_.turn();
    a_.collect();
    b_.collect();
    // What the service thread does when a law was broken.
    if (Peer* hostile = a_.peers[kHostileAt]; hostile != nullptr && hostile->fault_told && !lost_) {
      lost_ = true;
      a_.lose_peer(kHostileAt, 0);
    }
    const CreditGranter& honest = a_.session(0).granter;
    require(a_.data.posted_receives() + a_.data.received() >= honest.outstanding(Resource::kBounceSlots));
  }
  void step(Input& in) {
    const uint8_t what = in.byte();
    switch (what % 8) {
      case 0:
      case 1: return frame(in);
      case 2: return deliver_ctrl(in.take(in.byte() % 128));
      case 3:
      case 4: return message(in);
      case 5: return deliver_data(in.take(in.byte() % 200));
      case 6: {  // as the application, towards the hostile peer
        const auto op = (what & 8) != 0 ? SubmitOp::kRead : SubmitOp::kWrite;
        if (a_.port.submissions(WorkerId{0}).room() > 8 && open_ < 200 && ++open_ != 0)
          (void)a_.submit(op, what, 0, 1 + in.number(2) % 2000, kHostileAt);
        return;
      }
      default: return turn(1 + uint64_t{in.byte()} * (what & 8 ? 100 : 1));
    }
  }
  // The path to it refuses no message, but a receive is kept for what the honest peer may send.
  void deliver_ctrl(std::span<const std::byte> bytes) {
    if (a_.ctrl.posted_receives() < 40) turn(1);
    if (a_.ctrl.posted_receives() >= 40)
      (void)a_.ctrl.deliver(bytes.first(std::min<size_t>(bytes.size(), HalfNode::kFrame)));
  }
  void deliver_data(std::span<const std::byte> bytes) {
    const uint64_t kept = a_.session(0).granter.outstanding(Resource::kBounceSlots);
    if (a_.data.posted_receives() <= kept) turn(1);
    if (a_.data.posted_receives() > kept)
      (void)a_.data.deliver(bytes.first(std::min<size_t>(bytes.size(), HalfNode::kSlot)));
  }
  void frame(Input& in) {
    const uint8_t type = in.byte();
    FrameHeader h{};
    h.type = static_cast<FrameType>(1 + type % kLastType);
    h.flags = (type & 0x80) != 0 ? kFlagNeedsAck : uint16_t{0};
    h.session = (in.byte() & 0x3f) == 0x3f ? kHonest : kHostile;
    if (h.session == kHonest) h.session = SessionId{raw(kHonest) ^ 1};  // a forged number; the honest one's is secret
    h.epoch = Epoch{in.near(2)};
    h.seq = h.type == FrameType::kCtrlAck && (type & 0x40) == 0 ? 0 : in.near(seq_ + 2);
    h.ack_seq = in.near(1);
    if (const Peer* p = a_.peers[kHostileAt]; p != nullptr && (type & 0x20) == 0) h.ack_seq = sent(*p);
    std::array<std::byte, HalfNode::kFrame> out;
    const size_t bytes = payload(in, h, out);
    if (bytes == 0) return;
    if (h.seq == seq_ + 1) ++seq_;
    deliver_ctrl(std::span(out).first(bytes));
  }
  static uint64_t sent(const Peer& p) {
    uint64_t highest = 0;
    for (const Session::Kept& kept : p.sessions[0]->kept) highest = std::max(highest, kept.seq);
    return highest;
  }
  size_t payload(Input& in, const FrameHeader& h, std::span<std::byte> out) {
    switch (h.type) {
      case FrameType::kCreditGrant: {
        CreditGrant g{kMaxGrantEntries, {}};
        const uint64_t slots = in.near(4);
        const Charge c = window_charge(slots, slots, HalfNode::kSlot, kMsgHeaderBytes);
        for (uint16_t r = 1; r <= kResources; ++r) g.entries[r - 1u] = {Resource{r}, c.v[r - 1u]};
        return encode_grant(out, h, g);
      }
      case FrameType::kDataAck: {
        const AckEntry e{in.near(1ull << 32), in.near(1)};
        return encode_ack(out, h, {&e, 1});
      }
      case FrameType::kSessionOpen: {
        const bool honest = in.byte() < 0xe0;
        return encode_session_open(out, h,
                                   {honest ? 8 : static_cast<uint32_t>(in.number(4)), honest ? HalfNode::kSlot : 0});
      }
      case FrameType::kNotify: return encode_notify(out, h, {"n", "text"});
      case FrameType::kDataNak: return encode_nak(out, h, {in.near(1ull << 32), static_cast<uint32_t>(in.number(2))});
      case FrameType::kCreditRequest: return encode_request(out, h, {true, in.number(8), in.number(8)});
      case FrameType::kDrainAck: {
        DrainAck ack{true, {}};
        for (uint64_t& posted : ack.posted) posted = in.near(1);
        return encode_drain_ack(out, h, ack);
      }
      default: return encode_frame(out, h, in.take(in.byte() % 8));
    }
  }
  void message(Input& in) {
    const uint8_t type = in.byte();
    MsgHeader h{};
    h.magic = kMsgMagic;
    h.version = kMsgVersion;
    h.type = static_cast<MsgType>(1 + type % 5);
    h.flags = type >> 3 & 3;
    h.lane = (type & 0x80) != 0 ? in.byte() % 4 : kHostileAt;
    h.ctrl_ack = (type & 0x40) != 0 ? static_cast<uint16_t>(in.number(2)) : 1;
    h.session = kHostile;
    h.epoch = static_cast<uint32_t>(in.near(2));
    h.task = TaskId{in.near(1ull << 32)};
    h.offset = in.near(1);
    h.buffer = in.byte() % 4 == 0 ? in.byte() : 0;
    h.seq = static_cast<uint32_t>(in.near(msg_seq_ + 2));
    if (h.seq == msg_seq_ + 1) ++msg_seq_;
    std::array<std::byte, HalfNode::kSlot> out{};
    const size_t room = out.size() - kMsgHeaderBytes;
    const auto body = in.take(in.byte() % (room + 1));
    h.length = static_cast<uint32_t>(body.size());
    h.total = in.near(h.length + 1);
    h.chunk = in.byte() % 4;
    if (h.type == MsgType::kReadReq || h.type == MsgType::kAbort) h.length = 0;
    if (h.type == MsgType::kPack) h.total = h.length;
    if (h.type == MsgType::kPack || h.type == MsgType::kAbort) h.offset = h.buffer = 0;
    encode_message(out.data(), h);
    std::copy(body.begin(), body.begin() + h.length, out.begin() + kMsgHeaderBytes);
    deliver_data(std::span(out).first(kMsgHeaderBytes + h.length));
  }
  // The hostile peer is lost: all of its tasks end, and everything of it comes home.
  void end() {
    if (!lost_) a_.lose_peer(kHostileAt, 0);
    for (int i = 0; i < 200 && a_.peers[kHostileAt] != nullptr; ++i) turn(2000);
    require(a_.peers[kHostileAt] == nullptr && a_.gone == 1);
    require(a_.worker->stats().tasks_open.load() == 0);
  }

  HalfNode a_, b_;
  bool lost_ = false;
  uint64_t seq_ = 0;
  uint32_t msg_seq_ = 0, open_ = 0;
};

bool start_eal() {
  std::array<const char*, 8> args{"fuzz_session",   "--no-huge", "--no-shconf", "--no-pci",
                                  "--no-telemetry", "-m",        "64",          "--log-level=critical"};
  GTEST_FLAG_SET(throw_on_failure, true);
  return rte_eal_init(static_cast<int>(args.size()), const_cast<char**>(args.data())) >= 0;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool started = start_eal();
  require(started);
  Input in(data, size);
  Rig rig;
  rig.run(in);
  return 0;
}
