// The slow half of the queue: open, address, connect, close, shutdown.
#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "base/log.h"
#include "blob.h"
#include "errors.h"
#include "queue.h"
#include "shm_names.h"

namespace sluice::fabric {

Status FabricQueue::make(FabricDevice& device, const QueueParams& params, std::unique_ptr<Queue>* out) {
  std::unique_ptr<FabricQueue> queue(new FabricQueue(device));
  if (Status status = queue->open(params); !status.ok()) return status;
  *out = std::move(queue);
  return Code::kOk;
}

FabricQueue::~FabricQueue() { shutdown(); }

Status FabricQueue::open(const QueueParams& params) {
  const DeviceCaps& caps = device_.caps();
  if (params.msg_bytes > caps.max_msg_bytes)
    return {Code::kLimit, "messages of " + std::to_string(params.msg_bytes) + " bytes on " + device_.subject() +
                              ": its limit is " + std::to_string(caps.max_msg_bytes)};
  if (params.tx_depth == 0 || params.rx_depth == 0 || params.max_paths == 0)
    return {Code::kBadArgument, "a queue needs tx_depth, rx_depth and max_paths of at least 1"};
  info_ = InfoPtr(device_.api().dupinfo(&device_.ofi_info()), {&device_.api()});
  if (!info_) return {Code::kNoMemory, "no memory for fi_dupinfo"};
  tx_depth_ = std::min(params.tx_depth, caps.tx_depth);
  rx_depth_ = std::min(params.rx_depth, caps.rx_depth);
  if (device_.profile().named_by_pid) {
    if (Status status = set_unique_name(info_.get()); !status.ok()) return status;
  }
  if (Status status = open_objects(); !status.ok()) return status;
  make_tables(params.max_paths);
  tell_depth(params);
  if (caps.rma) warn_of_emulation();
  return Code::kOk;
}

/// What was asked for, what the provider has, and what paces.
void FabricQueue::tell_depth(const QueueParams& asked) const {
  const DeviceCaps& caps = device_.caps();
  const auto three = [](uint32_t wanted, uint32_t has, uint32_t used) {
    return std::to_string(wanted) + " asked, " + std::to_string(has) + " the provider's, " + std::to_string(used) +
           " used";
  };
  log_debug("fabric", "queue on " + device_.subject() + ": sends " + three(asked.tx_depth, caps.tx_depth, tx_depth_) +
                          "; receives " + three(asked.rx_depth, caps.rx_depth, rx_depth_) + "; completions " +
                          std::to_string(cq_entries_));
}

void FabricQueue::warn_of_emulation() const {
  const Profile& row = device_.profile();
  for (const auto& [option, what] : {std::pair{row.emulated_read, "reads"}, {row.emulated_write, "writes"}}) {
    bool emulated = false;
    size_t length = sizeof emulated;
    if (option == 0 || fi_getopt(&ep_->fid, FI_OPT_ENDPOINT, option, &emulated, &length) != 0 || !emulated) continue;
    log_warn("fabric",
             device_.subject() + " emulates one-sided " + what +
                 " by messages: it needs libfabric 1.18 or later and a device with RDMA (FI_EFA_USE_DEVICE_RDMA)");
  }
}

Status FabricQueue::open_objects() {
  fi_cq_attr cq_attr{};
  cq_attr.size = tx_depth_ + rx_depth_;
  cq_attr.format = FI_CQ_FORMAT_MSG;
  cq_attr.wait_obj = FI_WAIT_NONE;
  fid_cq* cq = nullptr;
  int ret = fi_cq_open(device_.domain(), &cq_attr, &cq, nullptr);
  if (ret != 0) return status_of(device_.api(), "fi_cq_open", device_.subject(), ret);
  cq_.reset(cq);
  cq_entries_ = cq_attr.size;
  // The provider may have given another size: what is outstanding must fit it, sends and receives in proportion.
  if (cq_attr.size != 0 && cq_attr.size < tx_depth_ + rx_depth_) {
    const uint64_t both = tx_depth_ + rx_depth_;
    tx_depth_ = std::max(1U, static_cast<uint32_t>(cq_attr.size * tx_depth_ / both));
    rx_depth_ = std::max(1U, static_cast<uint32_t>(cq_attr.size) - tx_depth_);
  }
  fi_av_attr av_attr{};
  av_attr.type = info_->domain_attr->av_type == FI_AV_MAP ? FI_AV_MAP : FI_AV_TABLE;
  fid_av* av = nullptr;
  ret = fi_av_open(device_.domain(), &av_attr, &av, nullptr);
  if (ret != 0) return status_of(device_.api(), "fi_av_open", device_.subject(), ret);
  av_.reset(av);
  fid_ep* ep = nullptr;
  ret = fi_endpoint(device_.domain(), info_.get(), &ep, nullptr);
  if (ret != 0) return status_of(device_.api(), "fi_endpoint", device_.subject(), ret);
  ep_.reset(ep);
  if (Status status = bind(&av->fid, 0, "address table"); !status.ok()) return status;
  if (Status status = bind(&cq->fid, FI_TRANSMIT | FI_RECV, "completion queue"); !status.ok()) return status;
  ret = fi_enable(ep);
  if (ret != 0) return status_of(device_.api(), "fi_enable", device_.subject(), ret);
  return device_.queue_opened(ep);
}

Status FabricQueue::bind(fid* object, uint64_t flags, const char* what) {
  const int ret = fi_ep_bind(ep_.get(), object, flags);
  return status_of(device_.api(), std::string("fi_ep_bind of the ") + what, device_.subject(), ret);
}

void FabricQueue::make_tables(uint32_t max_paths) {
  const uint32_t count = tx_depth_ + rx_depth_;
  records_.resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    const bool last = i + 1 == tx_depth_ || i + 1 == count;
    records_[i] = {0, last ? kNone : i + 1, kNone, 1, 0, State::kFree, Code::kOk, false};
  }
  free_tx_ = 0;
  free_rx_ = tx_depth_;
  if ((info_->mode & (FI_CONTEXT | FI_CONTEXT2)) != 0) contexts_.resize(count);
  paths_.assign(max_paths, kNone);
  lives_.assign(max_paths, 0);
  routes_.resize(2ULL * max_paths);
  free_routes_.reserve(routes_.size());
  for (uint32_t i = static_cast<uint32_t>(routes_.size()); i-- > 0;) free_routes_.push_back(i);
}

Status FabricQueue::address(PathId /*path*/, std::vector<std::byte>* out) {
  if (!ep_) return {Code::kClosed, "the queue is shut down"};
  std::byte bytes[512];
  size_t length = sizeof bytes;
  const int ret = fi_getname(&ep_->fid, bytes, &length);
  if (ret != 0) return status_of(device_.api(), "fi_getname", device_.subject(), ret);
  *out = encode_blob({info_->fabric_attr->prov_name, info_->addr_format, {bytes, length}});
  return Code::kOk;
}

/// Whether @p blob leads to a queue that this one can talk to; @p address is the part of it that libfabric reads.
Status FabricQueue::judge(std::span<const std::byte> blob, std::span<const std::byte>* address) const {
  Blob parsed;
  if (Status status = parse_blob(blob, &parsed); !status.ok()) return status;
  if (parsed.provider != info_->fabric_attr->prov_name)
    return {Code::kBadArgument, "the peer's queue is of provider '" + std::string(parsed.provider) +
                                    "', this one of '" + info_->fabric_attr->prov_name + "': choose one for both"};
  if (parsed.address_format != info_->addr_format)
    return {Code::kBadArgument, "the peer's address has format " + std::to_string(parsed.address_format) +
                                    ", this queue's " + std::to_string(info_->addr_format) +
                                    ": both need IPv4 or both IPv6"};
  if (!address_fits(parsed.address_format, parsed.address))
    return {Code::kBadArgument, "the peer's address of " + std::to_string(parsed.address.size()) +
                                    " bytes is none of format " + std::to_string(parsed.address_format)};
  *address = parsed.address;
  return Code::kOk;
}

/// The entry of the address table for @p bytes, made where there is none.
Status FabricQueue::insert(std::span<const std::byte> bytes, uint32_t* peer) {
  uint32_t free = kNone;
  for (uint32_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i].routes == 0) {
      free = i;
    } else if (std::equal(bytes.begin(), bytes.end(), peers_[i].bytes.begin(), peers_[i].bytes.end())) {
      *peer = i;
      return Code::kOk;
    }
  }
  fi_addr_t address = FI_ADDR_UNSPEC;
  const int ret = fi_av_insert(av_.get(), bytes.data(), 1, &address, 0, nullptr);
  if (ret != 1 || address == FI_ADDR_NOTAVAIL)
    return status_of(device_.api(), "fi_av_insert", device_.subject(), ret < 0 ? ret : -FI_EINVAL);
  if (free == kNone) {
    free = static_cast<uint32_t>(peers_.size());
    peers_.emplace_back();
  }
  peers_[free].bytes.assign(bytes.begin(), bytes.end());
  peers_[free].address = address;
  *peer = free;
  return Code::kOk;
}

Status FabricQueue::connect(PathId path, std::span<const std::byte> peer) {
  if (!ep_) return {Code::kClosed, "the queue is shut down"};
  const uint32_t id = raw(path);
  if (id >= paths_.size() || free_routes_.empty())
    return {Code::kLimit, "path " + std::to_string(id) + " on " + device_.subject() + ": the queue has room for " +
                              std::to_string(paths_.size()) + " (closed ones count until their sends have ended)"};
  if (paths_[id] != kNone) return {Code::kExists, "path " + std::to_string(id) + " is connected"};
  std::span<const std::byte> address;
  if (Status status = judge(peer, &address); !status.ok()) return status;
  uint32_t entry = kNone;
  if (Status status = insert(address, &entry); !status.ok()) return status;
  ++peers_[entry].routes;
  const uint32_t route = free_routes_.back();
  free_routes_.pop_back();
  routes_[route] = {peers_[entry].address, 0, entry, path, ++lives_[id], false};
  paths_[id] = route;
  return Code::kOk;
}

Code FabricQueue::close(PathId path) noexcept {
  if (raw(path) >= paths_.size() || paths_[raw(path)] == kNone) return Code::kNotFound;
  const uint32_t route = std::exchange(paths_[raw(path)], kNone);
  routes_[route].closing = true;
  if (routes_[route].outstanding == 0) drop_route(route);
  return Code::kOk;
}

// The life that was connected last: an earlier one's peer may only be stopped, and still read what was posted to it.
void FabricQueue::peer_gone(PathId path) noexcept {
  if (raw(path) >= lives_.size()) return;
  for (uint32_t i = 0; i < tx_depth_; ++i) {
    Record& record = records_[i];
    if (record.state != State::kPosted || record.route == kNone || routes_[record.route].path != path ||
        routes_[record.route].life != lives_[raw(path)])
      continue;
    record.lost = !contexts_.empty();
    complete_here(i, Code::kPeerDead);
    if (!record.lost) ++record.generation;  // a completion that still comes is none of ours
  }
}

void FabricQueue::drop_route(uint32_t route) noexcept {
  Peer& peer = peers_[routes_[route].peer];
  if (--peer.routes == 0 && ep_) fi_av_remove(av_.get(), &peer.address, 1, 0);
  routes_[route].path = PathId{kNone};
  free_routes_.push_back(route);  // reserved at open
}

uint32_t FabricQueue::recall(std::span<const uint64_t> cookies) noexcept {
  if (!ep_) return 0;
  uint32_t count = 0;
  for (size_t i = tx_depth_; i < records_.size(); ++i) {
    if (records_[i].state != State::kPosted) continue;
    if (std::find(cookies.begin(), cookies.end(), records_[i].cookie) == cookies.end()) continue;
    if (fi_cancel(&ep_->fid, context_of(static_cast<uint32_t>(i))) == 0) ++count;
  }
  return count;
}

/// Recall the receives, and collect what ends while nothing new is posted.
void FabricQueue::settle() noexcept {
  constexpr int kIdlePolls = 5000;  // 8 ms of empty polls on tcp;ofi_rxm
  for (size_t i = tx_depth_; i < records_.size(); ++i)
    if (records_[i].state == State::kPosted) fi_cancel(&ep_->fid, context_of(static_cast<uint32_t>(i)));
  for (int idle = 0; idle < kIdlePolls && busy(); ++idle) {
    fi_cq_msg_entry entry{};
    fi_cq_err_entry error{};
    const int64_t got = fi_cq_read(cq_.get(), &entry, 1);
    if (got == -FI_EAVAIL && fi_cq_readerr(cq_.get(), &error, 0) != 1) continue;
    if (got != 1 && got != -FI_EAVAIL) continue;
    const uint32_t index = index_of(got == 1 ? entry.op_context : error.op_context);
    if (index == kNone || records_[index].state != State::kPosted) continue;
    if (got == 1) {
      complete_here(index, Code::kOk, entry.len);
    } else {
      complete_here(index, code_of_completion(error.err));
    }
    idle = 0;
  }
}

bool FabricQueue::busy() const noexcept {
  return std::any_of(records_.begin(), records_.end(), [](const Record& one) { return one.state == State::kPosted; });
}

void FabricQueue::shutdown() noexcept {
  if (!ep_) return;
  const bool may_stay = device_.profile().leave_busy;
  if (may_stay) settle();
  device_.queue_closing(ep_.get());
  if (may_stay && busy()) {
    (void)ep_.release();
    (void)cq_.release();
    (void)av_.release();
  }
  ep_.reset();
}

}  // namespace sluice::fabric
