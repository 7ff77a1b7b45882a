#include "device.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "errors.h"
#include "queue.h"

namespace sluice::verbs {
namespace {
// Every path has a send queue of the queue's whole depth, and the memory for it.
constexpr uint32_t kMaxTxDepth = 1024;
constexpr uint32_t kMaxRxDepth = 16384;
constexpr uint32_t kInlineBytes = 128;  // a frame, or a header with a little behind it
constexpr uint8_t kMaxReads = 16;

uint32_t positive(int value) { return value > 0 ? static_cast<uint32_t>(value) : 0; }
}  // namespace

Status VerbsDevice::make(ContextPtr context, uint32_t port, const DeviceUse& use, std::unique_ptr<Device>* out) {
  std::unique_ptr<VerbsDevice> device(new VerbsDevice(std::move(context), use));
  if (Status status = device->open(port); !status.ok()) return status;
  *out = std::move(device);
  return Code::kOk;
}

VerbsDevice::~VerbsDevice() {
  if (host_.domain != nullptr) (void)ibv_dealloc_pd(host_.domain);
}

Status VerbsDevice::open(uint32_t port) {
  host_.context = context_.get();
  host_.port.number = port;
  host_.subject = "RDMA device " + port_name(ibv_get_device_name(context_->device), port);
  ibv_device_attr attr{};
  ibv_port_attr state{};
  if (Status s = status_of("asking for its limits", host_.subject, ibv_query_device(context_.get(), &attr)); !s.ok())
    return s;
  if (port > attr.phys_port_cnt || ibv_query_port(context_.get(), static_cast<uint8_t>(port), &state) != 0)
    return {Code::kNotFound, host_.subject + " has no such port, only 1 to " + std::to_string(attr.phys_port_cnt)};
  const ibv_device& device = *context_->device;
  if (const std::string_view why = refusal_of(device.node_type, device.transport_type, state.link_layer); !why.empty())
    return {Code::kUnsupported, host_.subject + ": " + std::string(why)};
  if (attr.max_cqe <= 1 || attr.max_qp_wr <= 0 || attr.max_sge <= 0)
    return {Code::kUnsupported, host_.subject + " has no room for a queue"};
  if (Status s = look_at_port(true); !s.ok()) return s;
  described_ = describe_port(context_.get(), port, state);
  if (!host_.port.by_lid) described_.address = gid_text(host_.port.gid.gid);
  host_.domain = ibv_alloc_pd(context_.get());
  if (host_.domain == nullptr) return status_of("making a protection domain", host_.subject, errno);
  derive(attr, state);
  try_inline();
  const int flags = fcntl(context_->async_fd, F_GETFL);
  (void)fcntl(context_->async_fd, F_SETFL, flags | O_NONBLOCK);
  return Code::kOk;
}

/// Addresses and MTU of the port as they are now.
Status VerbsDevice::look_at_port(bool first) {
  ibv_port_attr state{};
  PortFacts& port = host_.port;
  const int err = ibv_query_port(context_.get(), static_cast<uint8_t>(port.number), &state);
  if (err != 0) return status_of("asking for the port", host_.subject, err);
  port.by_lid = state.link_layer == IBV_LINK_LAYER_INFINIBAND;
  port.lid = state.lid;
  port.mtu_code = static_cast<uint8_t>(state.active_mtu);
  while (port.mtu_code > 1 && host_.pair.mtu_bytes != 0 && (128u << port.mtu_code) > host_.pair.mtu_bytes)
    --port.mtu_code;
  GidChoice choice;
  if (Status s = choose_gid(read_gids(context_.get(), port.number), host_.pair.gid_index, port.by_lid, &choice);
      !s.ok())
    return {s.code(), host_.subject + ": " + s.text()};
  if (first || choice.entry.gid != port.gid.gid) {
    const std::string line = host_.subject + " is reached by " + choice.reason;
    choice.doubtful ? log_warn("verbs", line) : log_info("verbs", line);
  }
  port.gid = choice.entry;
  if (first && state.state != IBV_PORT_ACTIVE)
    log_warn("verbs", host_.subject + ": its port is " + ibv_port_state_str(state.state));
  return Code::kOk;
}

void VerbsDevice::derive(const ibv_device_attr& attr, const ibv_port_attr& port) {
  DeviceCaps& caps = host_.caps;
  host_.max_cqe = positive(attr.max_cqe);
  host_.shared_receives = host_.pair.shared_receives && attr.max_srq > 0 && attr.max_srq_wr > 0;
  const uint32_t receives = positive(host_.shared_receives ? attr.max_srq_wr : attr.max_qp_wr);
  caps.tx_depth = std::min(positive(attr.max_qp_wr), kMaxTxDepth);
  caps.rx_depth = std::min(receives, kMaxRxDepth);
  caps.max_msg_bytes = port.max_msg_sz;
  const uint64_t most = attr.max_mr_size == 0 ? UINT64_MAX : attr.max_mr_size;
  if (caps.max_region_bytes == 0 || most < caps.max_region_bytes) caps.max_region_bytes = most;
  caps.sge = attr.max_sge >= 2 ? 2 : 1;
  caps.ordered = true;
  // The acknowledgement follows the bytes over the bus, unless the device may reorder them.
  caps.delivery_complete = caps.rma && !host_.pair.relaxed_ordering;
  caps.needs_local_reg = true;
  caps.closes_paths = true;
  caps.paired = true;
  const auto reads = [](int value) { return static_cast<uint8_t>(std::clamp<int>(value, 1, kMaxReads)); };
  host_.reads_in = reads(attr.max_qp_rd_atom);
  host_.reads_out = reads(attr.max_qp_init_rd_atom);
}

/// No device tells its limit of inline bytes but by a queue pair.
void VerbsDevice::try_inline() {
  ibv_cq* cq = ibv_create_cq(context_.get(), 1, nullptr, nullptr, 0);
  if (cq == nullptr) return;
  for (uint32_t bytes = kInlineBytes; bytes >= 32 && host_.caps.inject_bytes == 0; bytes /= 2) {
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq;
    attr.cap = {1, 1, host_.caps.sge, 1, bytes};
    attr.qp_type = IBV_QPT_RC;
    ibv_qp* qp = ibv_create_qp(host_.domain, &attr);
    if (qp == nullptr) continue;
    host_.caps.inject_bytes = std::min(attr.cap.max_inline_data, kInlineBytes);
    (void)ibv_destroy_qp(qp);
  }
  (void)ibv_destroy_cq(cq);
}

Status VerbsDevice::reg_chunk(const Region& region, bool remote, ChunkKey* key) {
  unsigned access = IBV_ACCESS_LOCAL_WRITE;
  if (remote) access |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  if (host_.pair.relaxed_ordering) access |= IBV_ACCESS_RELAXED_ORDERING;
  std::byte* at = region.base() + key->offset;
  ibv_mr* mr = ibv_reg_mr(host_.domain, at, key->length, access);
  if (mr == nullptr) return status_of("registering " + std::to_string(key->length) + " bytes", host_.subject, errno);
  *key = {key->offset, key->length, mr->lkey, remote ? mr->rkey : 0, remote ? reinterpret_cast<uintptr_t>(at) : 0, mr};
  return Code::kOk;
}

Status VerbsDevice::reg(Region& region, uint16_t index, bool remote) {
  std::vector<ChunkKey>& keys = region.keys(index);
  if (!keys.empty()) return {Code::kExists, host_.subject + " has registered this region before"};
  if (region.kind() == RegionKind::kDevice)
    return {Code::kUnsupported, host_.subject + ": memory of a GPU is not registered over verbs yet; use fabric"};
  if (remote && !host_.caps.rma) return {Code::kUnsupported, host_.subject + " was opened for messages only"};
  const uint64_t most = largest_chunk(region, host_.caps.max_region_bytes, host_.caps.page_entries);
  for (uint64_t from = 0, length = 0; from < region.bytes(); from += length) {
    length = std::min(most, region.bytes() - from);
    ChunkKey key{from, length, 0, 0, 0, nullptr};
    Status status = reg_chunk(region, remote, &key);
    if (!status.ok()) {
      (void)dereg(region, index).ok();
      return status;
    }
    keys.push_back(key);
  }
  return Code::kOk;
}

Status VerbsDevice::dereg(Region& region, uint16_t index) {
  Status first;
  for (const ChunkKey& key : region.keys(index)) {
    Status status = status_of("deregistering", host_.subject, ibv_dereg_mr(static_cast<ibv_mr*>(key.handle)));
    if (first.ok()) first = std::move(status);
  }
  region.keys(index).clear();
  return first;
}

Status VerbsDevice::open_queue(const QueueParams& params, std::unique_ptr<Queue>* out) {
  return VerbsQueue::make(host_, params, out);
}

void VerbsDevice::tend() noexcept {
  ibv_async_event event{};
  while (ibv_get_async_event(context_.get(), &event) == 0) {
    ibv_ack_async_event(&event);  // first: whoever destroys what it names waits for that
    on_event(event);
  }
}

/// What belongs to a queue pair is seen by its queue too, as completions; here is what only events tell.
void VerbsDevice::on_event(const ibv_async_event& event) {
  const std::string line = host_.subject + ": " + ibv_event_type_str(event.event_type);
  switch (event.event_type) {
    case IBV_EVENT_DEVICE_FATAL:
      host_.gone.store(true, std::memory_order_relaxed);
      log_error("verbs", line + "; every path of it ends");
      break;
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
      log_info("verbs", line);
      if (Status s = look_at_port(false); !s.ok()) log_warn("verbs", s.describe());
      break;
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
    case IBV_EVENT_PATH_MIG: log_debug("verbs", line); break;
    default: log_warn("verbs", line); break;
  }
}

}  // namespace sluice::verbs
