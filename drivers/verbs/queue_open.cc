// The slow half of the queue: open, address, connect.
#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "errors.h"
#include "queue.h"

namespace sluice::verbs {
namespace {
constexpr uint32_t kSignalEvery = 64;
constexpr uint32_t kFirstReceives = 4;  // of a pair, where none are shared
constexpr uint8_t kHopLimit = 64;

std::string peer_text(const EndAddress& peer) {
  return "queue pair " + std::to_string(peer.qp_number) + " at " +
         (peer.kind == GidKind::kInfiniBand ? "LID " + std::to_string(peer.lid) : gid_text(peer.gid));
}
}  // namespace

Status VerbsQueue::make(const QueueHost& host, const QueueParams& params, std::unique_ptr<Queue>* out) {
  std::unique_ptr<VerbsQueue> queue(new VerbsQueue(host));
  if (Status status = queue->open(params); !status.ok()) return status;
  *out = std::move(queue);
  return Code::kOk;
}

VerbsQueue::~VerbsQueue() { shutdown(); }

Status VerbsQueue::open(const QueueParams& params) {
  const DeviceCaps& caps = host_.caps;
  if (params.msg_bytes > caps.max_msg_bytes)
    return {Code::kLimit, host_.subject + " takes messages of at most " + std::to_string(caps.max_msg_bytes) +
                              " bytes, not " + std::to_string(params.msg_bytes)};
  if (std::min({params.tx_depth, params.rx_depth, params.max_paths}) == 0)
    return {Code::kBadArgument, "a queue of " + host_.subject + " needs depths and paths above 0"};
  tx_depth_ = std::min(caps.tx_depth, params.tx_depth);
  rx_depth_ = std::min(caps.rx_depth, params.rx_depth);
  msg_bytes_ = params.msg_bytes != 0 ? params.msg_bytes
                                     : static_cast<uint32_t>(std::min<uint64_t>(caps.max_msg_bytes, UINT32_MAX));
  inline_bytes_ = caps.inject_bytes;
  if (Status status = open_objects(); !status.ok()) return status;
  signal_every_ = std::clamp(tx_depth_ / 2, 1u, kSignalEvery);
  make_tables(params);
  return Code::kOk;
}

/// The completion queue must have room for all that may be outstanding, in the worst case with a completion each.
Status VerbsQueue::open_objects() {
  const uint64_t asked = uint64_t{tx_depth_} + rx_depth_;
  if (asked > host_.max_cqe) {
    tx_depth_ = std::max(1u, static_cast<uint32_t>(uint64_t{tx_depth_} * host_.max_cqe / asked));
    rx_depth_ = std::max(1u, host_.max_cqe - tx_depth_);
    log_warn("verbs", host_.subject + " has completion queues of at most " + std::to_string(host_.max_cqe) +
                          ": depths are cut to " + std::to_string(tx_depth_) + " and " + std::to_string(rx_depth_));
  }
  const uint32_t room = std::min(host_.max_cqe, 2 * tx_depth_ + rx_depth_);
  cq_ = host_.api.create_cq(host_.context, static_cast<int>(room), nullptr, nullptr, 0);
  if (cq_ == nullptr) return status_of("making a completion queue", host_.subject, errno);
  if (!host_.shared_receives) return Code::kOk;
  ibv_srq_init_attr attr{};
  attr.attr.max_wr = rx_depth_;
  attr.attr.max_sge = 1;
  srq_ = host_.api.create_srq(host_.domain, &attr);
  return srq_ == nullptr ? status_of("making a shared receive queue", host_.subject, errno) : Status{};
}

void VerbsQueue::make_tables(const QueueParams& params) {
  const uint32_t count = tx_depth_ + rx_depth_;
  records_.assign(count, {0, kNone, kNone, 1, 0, State::kFree, Code::kOk});
  free_tx_ = free_rx_ = kNone;
  for (uint32_t i = count; i-- > 0;) untake(i < tx_depth_ ? &free_tx_ : &free_rx_, i);
  work_.resize(tx_depth_);
  pieces_.resize(2 * size_t{tx_depth_} + rx_depth_);
  paths_.assign(params.max_paths, kNone);
  offers_.resize(params.max_paths);
  ends_.resize(2 * size_t{params.max_paths});
  free_ends_.reserve(ends_.size());
  for (uint32_t i = static_cast<uint32_t>(ends_.size()); i-- > 0;) free_ends_.push_back(i);
  unrung_.reserve(ends_.size());
  failing_.reserve(ends_.size());
}

/// A queue pair in the state INIT.
Status VerbsQueue::make_pair(ibv_qp** out) {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq_;
  init.srq = srq_;
  init.cap = {tx_depth_, srq_ != nullptr ? 0 : rx_depth_, host_.caps.sge, 1, inline_bytes_};
  init.qp_type = IBV_QPT_RC;
  ibv_qp* qp = host_.api.create_qp(host_.domain, &init);
  if (qp == nullptr) return status_of("making a queue pair", host_.subject, errno);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = static_cast<uint8_t>(host_.port.number);
  attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE;
  if (host_.caps.rma) attr.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  const int err = host_.api.modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (err != 0) {
    (void)host_.api.destroy_qp(qp);
    return status_of("preparing a queue pair", host_.subject, err);
  }
  *out = qp;
  return Code::kOk;
}

Status VerbsQueue::make_offer(PathId path) {
  Offer& offer = offers_[raw(path)];
  if (offer.qp != nullptr) (void)host_.api.destroy_qp(std::exchange(offer.qp, nullptr));
  offer = Offer{};
  if (Status status = make_pair(&offer.qp); !status.ok()) return status;
  const PortFacts& port = host_.port;
  offer.self.kind = port.by_lid ? GidKind::kInfiniBand : port.gid.kind;
  offer.self.mtu_code = port.mtu_code;
  offer.self.port = static_cast<uint8_t>(port.number);
  offer.self.lid = port.lid;
  offer.self.reads = host_.reads_in;
  offer.self.qp_number = offer.qp->qp_num;
  offer.self.psn = static_cast<uint32_t>(random_u64()) & kMax24Bits;
  offer.self.msg_bytes = msg_bytes_;
  offer.self.rx_depth = rx_depth_;
  offer.self.gid = port.gid.gid;
  offer.gid_index = port.gid.index;
  offer.made = true;
  return Code::kOk;
}

Status VerbsQueue::address(PathId path, std::vector<std::byte>* out) {
  if (cq_ == nullptr) return {Code::kClosed, "the queue is shut down"};
  if (raw(path) >= offers_.size())
    return {Code::kLimit, "path " + std::to_string(raw(path)) + " of " + host_.subject + ": there are " +
                              std::to_string(offers_.size())};
  Offer& offer = offers_[raw(path)];
  const bool connected = offer.made && offer.qp == nullptr;
  if (!connected)
    if (Status status = make_offer(path); !status.ok()) return status;
  *out = encode_address(offer.self);
  return Code::kOk;
}

Status VerbsQueue::judge_peer(const EndAddress& self, const EndAddress& peer) const {
  if (peer.kind != self.kind)
    return {Code::kBadArgument, "the peer's " + peer_text(peer) + " is of another kind of link than " + host_.subject +
                                    ": choose the same RoCE version with gid-index at both ends"};
  if (self.kind != GidKind::kInfiniBand && is_ipv4(self.gid) != is_ipv4(peer.gid))
    return {Code::kBadArgument, "the peer is at " + gid_text(peer.gid) + " and " + host_.subject + " at " +
                                    gid_text(self.gid) + ": choose IPv4 or IPv6 with gid-index at both ends"};
  return Code::kOk;
}

/// Bring @p qp to the states in which it receives and sends.
Status VerbsQueue::raise(ibv_qp* qp, const Offer& offer, const EndAddress& peer) {
  const PairOptions& pair = host_.pair;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = static_cast<ibv_mtu>(std::min(offer.self.mtu_code, peer.mtu_code));
  attr.dest_qp_num = peer.qp_number;
  attr.rq_psn = peer.psn;
  attr.max_dest_rd_atomic = host_.reads_in;
  attr.min_rnr_timer = pair.rnr_timer;
  attr.ah_attr.port_num = static_cast<uint8_t>(host_.port.number);
  attr.ah_attr.dlid = peer.lid;
  attr.ah_attr.sl = pair.service_level;
  attr.ah_attr.is_global = offer.self.kind != GidKind::kInfiniBand;
  attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(offer.gid_index);
  attr.ah_attr.grh.hop_limit = kHopLimit;
  attr.ah_attr.grh.traffic_class = pair.traffic_class;
  std::copy(peer.gid.begin(), peer.gid.end(), attr.ah_attr.grh.dgid.raw);
  int err = host_.api.modify_qp(qp, &attr,
                                IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (err != 0) return status_of("leading a path to " + peer_text(peer), host_.subject, err);
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = offer.self.psn;
  attr.timeout = pair.timeout;
  attr.retry_cnt = pair.retries;
  attr.rnr_retry = pair.rnr_retries;
  attr.max_rd_atomic = std::max<uint8_t>(1, std::min(host_.reads_out, peer.reads));
  err = host_.api.modify_qp(
      qp, &attr,
      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  return status_of("opening a path to " + peer_text(peer), host_.subject, err);
}

Status VerbsQueue::connect(PathId path, std::span<const std::byte> peer_bytes) {
  if (cq_ == nullptr) return {Code::kClosed, "the queue is shut down"};
  const uint32_t id = raw(path);
  if (id >= paths_.size() || free_ends_.empty())
    return {Code::kLimit, "path " + std::to_string(id) + " of " + host_.subject + ": there are " +
                              std::to_string(paths_.size()) + ", and closed ones count until all of theirs is home"};
  if (paths_[id] != kNone) return {Code::kExists, "path " + std::to_string(id) + " leads somewhere already"};
  EndAddress peer;
  if (Status status = parse_address(peer_bytes, &peer); !status.ok()) return status;
  Offer& offer = offers_[id];
  if (offer.qp == nullptr)
    if (Status status = make_offer(path); !status.ok()) return status;
  Status status = judge_peer(offer.self, peer);
  if (status.ok()) status = raise(offer.qp, offer, peer);
  if (!status.ok()) {
    (void)host_.api.destroy_qp(offer.qp);
    offer = Offer{};
    return status;
  }
  const uint32_t number = free_ends_.back();
  free_ends_.pop_back();
  End& end = ends_[number];
  end.qp = std::exchange(offer.qp, nullptr);
  end.path = path;
  end.peer_msg_bytes = peer.msg_bytes;
  end.receives_wanted = std::min(kFirstReceives, rx_depth_);
  paths_[id] = number;
  if (srq_ == nullptr) deal();
  return Code::kOk;
}

ibv_qp* VerbsQueue::pair_of(PathId path) noexcept {
  return raw(path) < paths_.size() && paths_[raw(path)] != kNone ? ends_[paths_[raw(path)]].qp : nullptr;
}

}  // namespace sluice::verbs
