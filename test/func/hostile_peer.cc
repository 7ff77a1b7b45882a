#include "hostile_peer.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "xport/registry.h"

namespace sluice::func {

HostilePeer::~HostilePeer() {
  oob_.reset();
  ctrl_.reset();
  data_.reset();
  if (device_ != nullptr && region_ != nullptr) (void)device_->dereg(*region_, 0).ok();
}

Status HostilePeer::open_device(const Wire& wire, const std::string& provider) {
  const std::string_view transport = wire.transport;
  if (Status s = make_driver(transport.substr(0, transport.find('_')), &driver_); !s.ok()) return s;
  std::vector<DeviceInfo> infos;
  if (Status s = driver_->probe(provider, &infos); !s.ok()) return s;
  const auto local = std::ranges::find(infos, true, &DeviceInfo::loopback);
  if (Status s = driver_->open(local == infos.end() ? infos.front() : *local, {}, &device_); !s.ok()) return s;
  QueueParams params;
  params.msg_bytes = kSlot;
  params.max_paths = 4;
  for (std::unique_ptr<Queue>* queue : {&ctrl_, &data_})
    if (Status s = device_->open_queue(params, queue); !s.ok()) return s;
  if (Status s = Region::create(RegionKind::kPlain, uint64_t{kSlot} * kSlots * 2, &region_); !s.ok()) return s;
  if (Status s = device_->reg(*region_, 0, false); !s.ok()) return s;
  for (uint64_t i = 0; i < kSlots; ++i) {
    free_.push_back(i);
    post_receive(i % 2 == 0 ? *ctrl_ : *data_, kSlots + i);
  }
  return Code::kOk;
}

void HostilePeer::post_receive(Queue& queue, uint64_t index) {
  const uint64_t desc = region_->keys(0).empty() ? 0 : region_->keys(0)[0].local_desc;
  const RecvBuf buf{slot(index), desc, index, kSlot};
  (void)queue.refill({&buf, 1});
}

Status HostilePeer::join(const Wire& wire, const std::string& provider, const std::string& node,
                         const std::string& secret) {
  if (Status s = open_device(wire, provider); !s.ok()) return s;
  OobConfig config;
  config.hello.name = "hostile";
  config.hello.incarnation = Incarnation{1};
  config.hello.transport = wire.transport;
  config.hello.provider = provider;
  config.hello.lease_ms = 2000;
  config.hello.max_message_bytes = kSlot;
  config.secret = secret;
  oob_ = std::make_unique<OobNode>(config, this);
  if (Status s = oob_->open(); !s.ok()) return s;
  Address to;
  std::vector<SockAddr> targets;
  if (Status s = parse_address(node, AddressUse::kConnect, 0, &to); !s.ok()) return s;
  if (Status s = resolve(to, AddressUse::kConnect, &targets); !s.ok()) return s;
  (void)oob_->dial(to, targets);
  (void)turn_until(10, [&] { return dial_over_ && (offered || !dialed.ok()); });
  if (!dial_over_ || !dialed.ok()) return dial_over_ ? dialed : Status{Code::kTimeout, "no answer to the dial"};
  return offered ? Status{} : Status{Code::kTimeout, "no offer came"};
}

void HostilePeer::on_offer(OobPeer peer, const PathOffer& offer) {
  offer_ = offer;
  PathAnswer answer;
  answer.attempt = offer.attempt;
  answer.slot_bytes = kSlot;
  answer.slots = 16;
  const bool addressed = ctrl_->address(PathId{0}, &answer.ctrl_address).ok();
  LaneOffer lane;
  lane.session = session();
  if (!addressed || !data_->address(PathId{0}, &lane.address).ok()) return;
  answer.lanes.push_back(lane);
  offered = ctrl_->connect(PathId{0}, offer.ctrl_address).ok() &&
            data_->connect(PathId{0}, offer.lanes.at(0).address).ok() && oob_->send(peer, answer).ok();
}

bool HostilePeer::open_session() {
  if (!turn_until(10, [&] { return rx_seq_ != 0; })) return false;  // its SESSION_OPEN
  std::array<std::byte, kFrame> frame;
  send_ctrl(std::span(frame).first(encode_session_open(frame, header(FrameType::kSessionOpen), {16, kSlot})));
  return turn_until(10, [&] { return granted_slots != 0; });
}

bool HostilePeer::turn_until(double seconds, const std::function<bool()>& done) {
  return wait_for(seconds, [&] { return turn(), done(); });
}

void HostilePeer::turn() {
  (void)oob_->turn(0);
  take(*ctrl_, true);
  take(*data_, false);
}

void HostilePeer::take(Queue& queue, bool frames) {
  std::array<Completion, kMaxBurst> done;
  const uint32_t n = queue.poll(done);
  for (uint32_t i = 0; i < n; ++i) {
    if (done[i].kind == CompletionKind::kOp) {
      free_.push_back(done[i].cookie);
      continue;
    }
    if (frames && done[i].code == Code::kOk) on_frame({slot(done[i].cookie), done[i].bytes});
    if (done[i].code == Code::kOk) post_receive(queue, done[i].cookie);
  }
  queue.flush();
}

// Takes what comes in order, and learns the grant; it acknowledges with what it sends.
void HostilePeer::on_frame(std::span<const std::byte> bytes) {
  Frame f;
  if (parse_frame(bytes, kLastType, &f) != Code::kOk || f.header.seq != rx_seq_ + 1) return;
  ++rx_seq_;
  CreditGrant grant;
  if (f.header.type != FrameType::kCreditGrant || parse_grant(f.payload, &grant) != Code::kOk) return;
  for (uint32_t i = 0; i < grant.count; ++i)
    if (grant.entries[i].resource == Resource::kBounceSlots) granted_slots = grant.entries[i].total;
}

void HostilePeer::send(Queue& queue, std::span<const std::byte> bytes) {
  if (!turn_until(5, [&] { return !free_.empty() || down; }) || free_.empty()) return;
  const uint64_t index = free_.front();
  free_.pop_front();
  std::memcpy(slot(index), bytes.data(), bytes.size());
  const uint64_t desc = region_->keys(0).empty() ? 0 : region_->keys(0)[0].local_desc;
  const Op op{
      OpKind::kSend, PathId{0}, index, slot(index), desc, nullptr, 0, static_cast<uint32_t>(bytes.size()), 0, 0, 0};
  if (!turn_until(5, [&] { return queue.post({&op, 1}) == 1 || down; })) return;
  queue.flush();
}

MsgHeader HostilePeer::message(MsgType type, uint32_t length) {
  MsgHeader h{};
  h.magic = kMsgMagic;
  h.version = kMsgVersion;
  h.type = type;
  h.lane = static_cast<uint16_t>(offer_.lanes.at(0).lane);
  h.session = session();
  h.epoch = 1;
  h.length = type == MsgType::kReadReq ? 0 : length;
  h.total = length;
  h.task = TaskId{1};
  h.seq = ++msg_seq_;
  return h;
}

void HostilePeer::send_message(const MsgHeader& h, bool on_ctrl) {
  std::vector<std::byte> bytes(kMsgHeaderBytes + h.length, std::byte{0xEE});
  encode_message(bytes.data(), h);
  send(on_ctrl ? *ctrl_ : *data_, bytes);
}

}  // namespace sluice::func
