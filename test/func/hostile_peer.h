/// @file hostile_peer.h
/// A peer that sends what no node would: a real hello and real paths, then frames and messages made by hand.
///
/// Model    It dials a node, lets it offer paths, answers, and connects its own queues to them. Then the test makes
///          bytes and sends them on the control path or the message path. Its incarnation is the smallest, so that the
///          node offers.
/// Threads  One; the test turns it.
/// Memory   Test code.
/// Errors   What should work and does not is a status.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "meta/oob.h"
#include "node.h"
#include "proto/ctrl_frame.h"
#include "proto/msg_header.h"
#include "xport/driver.h"

namespace sluice::func {

class HostilePeer final : public OobEvents {
 public:
  static constexpr uint32_t kSlot = 16384 + kMsgHeaderBytes, kSlots = 128, kFrame = 2048;

  ~HostilePeer();
  /// Devices and queues; then dial @p node and answer its offer. @return what failed.
  Status join(const Wire& wire, const std::string& provider, const std::string& node, const std::string& secret = "");
  /// Say SESSION_OPEN, and wait for the node's first grant.
  bool open_session();
  /// Turn everything until @p done. @return false: not within @p seconds.
  bool turn_until(double seconds, const std::function<bool()>& done);

  FrameHeader header(FrameType type) { return {type, kFlagNeedsAck, session(), Epoch{1}, ++seq_, rx_seq_}; }
  MsgHeader message(MsgType type, uint32_t length);
  void send_ctrl(std::span<const std::byte> bytes) { send(*ctrl_, bytes); }
  void send_data(std::span<const std::byte> bytes) { send(*data_, bytes); }
  /// @p h, as it is, and a payload of h.length bytes.
  void send_message(const MsgHeader& h, bool on_ctrl = false);
  SessionId session() const { return offer_.lanes.empty() ? SessionId{} : offer_.lanes[0].session; }

  bool up = false, offered = false, down = false;
  Status dialed;
  uint64_t granted_slots = 0;

  void on_up(OobPeer peer, const Hello&, uint64_t) override { peer_ = peer, up = true; }
  void on_lease(OobPeer, uint64_t) override {}
  void on_down(OobPeer, const Status&, uint64_t) override { down = true; }
  void on_dialed(DialId, const Status& status, OobPeer) override { dialed = status, dial_over_ = true; }
  void on_offer(OobPeer peer, const PathOffer& offer) override;
  void on_answer(OobPeer, const PathAnswer&) override {}
  void on_segment_query(OobPeer, const SegmentQuery&) override {}
  void on_segment_reply(OobPeer, const SegmentReply&) override {}

 private:
  Status open_device(const Wire& wire, const std::string& provider);
  void send(Queue& queue, std::span<const std::byte> bytes);
  void turn();
  void take(Queue& queue, bool frames);
  void on_frame(std::span<const std::byte> bytes);
  std::byte* slot(uint64_t index) const { return region_->base() + index * kSlot; }
  void post_receive(Queue& queue, uint64_t index);

  std::unique_ptr<Driver> driver_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Region> region_;
  std::unique_ptr<Queue> ctrl_, data_;
  std::unique_ptr<OobNode> oob_;
  std::deque<uint64_t> free_;  // slots to send from
  OobPeer peer_{};
  PathOffer offer_;
  bool dial_over_ = false;
  uint64_t seq_ = 0, rx_seq_ = 0;
  uint32_t msg_seq_ = 0;
};

}  // namespace sluice::func
