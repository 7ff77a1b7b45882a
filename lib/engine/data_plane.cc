#include "engine/data_plane.h"

#include <rte_cycles.h>

#include <algorithm>
#include <atomic>
#include <bit>

#include "agent/rma_worker.h"
#include "base/bytes.h"
#include "base/log.h"
#include "env/plan.h"
#include "meta/message.h"
#include "proto/msg_header.h"

namespace sluice {
namespace {
constexpr uint32_t kFirstSessions = 8;  // control receives at the start, in sessions
constexpr uint32_t kCtrlTxSlots = 64;
constexpr uint32_t kMailbox = 4096;
constexpr uint32_t kInboxNotifies = 1024;
constexpr uint64_t kAckDelayUs = 20;       // how long an acknowledgement may wait for company
constexpr uint64_t kCtrlAckDelayUs = 100;  // how long a control acknowledgement may wait for a data message
constexpr uint64_t kRetryUs = 20'000, kRetryMaxUs = 200'000;
constexpr uint64_t kProbeMaxUs = 100'000;  // law 7
constexpr uint64_t kScratchBytes = 4096;
constexpr uint64_t kCloseMs = 10'000;      // where the device brings ops of a closed path home by itself
constexpr uint64_t kGraceMs = 250;         // for ops of a lane that was given up to come home by themselves
constexpr uint64_t kFenceIdleUs = 50'000;  // without a message for so long, a session's unused credit may be taken back

std::atomic<uint64_t> g_extent_number{0};
}  // namespace

// EAL takes 20 characters: 13 digits, which no process uses up.
std::string extent_name(uint64_t number) { return "sluice_" + std::to_string(number); }

uint64_t tsc_now() noexcept { return rte_rdtsc(); }

Status DataPlane::build(const NodeSettings& settings, const Outside& outside, std::unique_ptr<DataPlane>* out) {
  std::unique_ptr<DataPlane> made(new DataPlane);
  made->ticks_per_us_ =
      std::max<uint64_t>(1, outside.ticks_per_us != 0 ? outside.ticks_per_us : rte_get_tsc_hz() / 1'000'000);
  made->slot_bytes_ = static_cast<uint32_t>(settings.slot_bytes + kMsgHeaderBytes);
  made->frame_bytes_ = static_cast<uint32_t>(settings.ctrl_slot_bytes);
  if (settings.hugepages == "on") made->region_kind_ = RegionKind::kHuge;
  if (settings.hugepages == "off") made->region_kind_ = RegionKind::kPlain;
  if (Status s = made->rails_.open(settings, outside); !s.ok()) return s;
  if (Status s = made->open_queues(settings); !s.ok()) return s;
  made->size_and_check(settings);
  if (Status s = made->open_pools(settings); !s.ok()) return s;
  if (Status s = made->open_scratch(); !s.ok()) return s;
  if (Status s = made->open_mailboxes(settings); !s.ok()) return s;
  made->make_agents(settings, outside.ticks);
  *out = std::move(made);
  return Code::kOk;
}

namespace {
// What was handed over by a message that nobody took.
void free_handed(const FromService& m) {
  if (m.kind == FromService::Kind::kPeerUp) delete m.peer_object;
  if (m.kind == FromService::Kind::kPath) delete m.address;
  if (m.kind == FromService::Kind::kExtent || m.kind == FromService::Kind::kCtrlExtent) delete m.extent;
}
void free_handed(const ToService& m) {
  if (m.kind == ToService::Kind::kPeerGone) delete m.peer_object;
  if (m.kind == ToService::Kind::kFreeExtent) delete m.extent;
}
void free_handed(const ToWorker& m) {
  if (m.kind == ToWorker::Kind::kOpenLane) delete m.opened;
  if (m.kind == ToWorker::Kind::kAddExtent) delete m.extent;
  if (m.kind == ToWorker::Kind::kPath) delete m.address;
}
void free_handed(const ToControl& m) {
  if (m.kind == ToControl::Kind::kLaneClosed) delete m.closed;
  if (m.kind == ToControl::Kind::kExtentHome) delete m.extent;
}
template <typename T>
void free_all(Mailbox<T>& box) {
  for (T m; box.take({&m, 1}) == 1;) free_handed(m);
}
}  // namespace

// Queues first: what they still hold is home when they are gone. Then registrations, and memory with its pools last.
DataPlane::~DataPlane() {
  const bool built = control_ != nullptr;
  control_.reset();
  workers_.clear();
  for (const auto& rails : queues_)
    for (const auto& queue : rails)
      if (queue != nullptr) queue->shutdown();  // null: it could not be opened
  if (ctrl_queue_ != nullptr) ctrl_queue_->shutdown();
  queues_.clear();
  closed_queues_.clear();
  ctrl_queue_.reset();
  for (Region* region : registered_) (void)rails_.device(0).dereg(*region, 0).ok();
  if (scratch_ != nullptr) (void)rails_.deregister_region(*scratch_).ok();
  if (!built) return;
  free_all(from_service_);
  free_all(to_service_);
  for (const auto& box : to_worker_) free_all(*box);
  for (const auto& box : to_control_) free_all(*box);
}

Status DataPlane::open_queues(const NodeSettings& settings) {
  queues_.resize(settings.workers);
  for (uint32_t w = 0; w < settings.workers; ++w) {
    queues_[w].resize(rails_.count());
    for (uint16_t r = 0; r < rails_.count(); ++r)
      if (Status s = open_queue(settings, r, &queues_[w][r]); !s.ok()) return s;
  }
  const DeviceCaps& caps = device().caps();
  QueueParams ctrl;
  ctrl.max_paths = settings.max_peers;
  ctrl.tx_depth = std::min(caps.tx_depth, kCtrlTxSlots);
  ctrl.rx_depth = caps.rx_depth;
  ctrl.msg_bytes = frame_bytes_;
  return rails_.device(0).open_queue(ctrl, &ctrl_queue_);
}

Status DataPlane::open_queue(const NodeSettings& settings, uint16_t rail, std::unique_ptr<Queue>* out) const {
  const Device& device = rails_.device(rail);
  const DeviceCaps& caps = device.caps();
  QueueParams data;
  data.tx_depth = settings.tx_depth != 0 ? settings.tx_depth : caps.tx_depth;
  data.rx_depth = one_sided() ? 1 : std::min(caps.rx_depth, settings.rx_slots_max);
  data.max_paths = settings.max_peers;
  data.msg_bytes = one_sided() ? 64 : slot_bytes_;  // no messages, but a queue has room for one
  if (!one_sided() && caps.max_msg_bytes != 0 && caps.max_msg_bytes < slot_bytes_)
    return {Code::kLimit, "slot-size " + std::to_string(settings.slot_bytes) + ": device " + device.info().name +
                              " takes messages of at most " + std::to_string(caps.max_msg_bytes) +
                              " bytes; lower slot-size"};
  return rails_.device(rail).open_queue(data, out);
}

Status DataPlane::reopen_queue(const NodeSettings& settings, uint32_t worker, uint16_t rail) {
  std::unique_ptr<Queue> fresh;
  if (Status s = open_queue(settings, rail, &fresh); !s.ok()) return s;
  closed_queues_.push_back(std::exchange(queues_[worker][rail], std::move(fresh)));
  return Code::kOk;
}

// What is cut or short is said before memory is taken, in a line each.
void DataPlane::size_and_check(const NodeSettings& settings) {
  if (one_sided()) {
    sizing_.window = settings.session_floor;
    return;
  }
  sizing_ = size_pools(settings, device().info().name, queues_[0][0]->depth());
  for (const std::string& line : sizing_.chosen_cuts) log_warn("settings", line);
  for (const std::string& line : sizing_.default_cuts) log_info("settings", line);
  const uint64_t bytes = bounce_bytes(settings, kFirstSessions * kCtrlSlotsPerSession + kCtrlTxSlots);
  const uint64_t huge = region_kind_ == RegionKind::kHuge ? bytes : 0;
  for (const std::string& line : preflight(memory_facts(), bytes, huge)) log_warn("memory", line);
}

// The limit of locked memory matters to devices that pin.
EalFacts DataPlane::memory_facts() const {
  EalFacts facts = read_eal_facts();
  if (!device().caps().needs_local_reg) facts.memlock_bytes = UINT64_MAX;
  return facts;
}

uint64_t DataPlane::locked_with(const Region& more) const noexcept {
  uint64_t bytes = more.bytes();
  for (const Region* region : registered_) bytes += region->bytes();
  return bytes;
}

Status DataPlane::make_extent(uint32_t slots, uint32_t slot_bytes, std::unique_ptr<Extent>* out) {
  const std::string name = extent_name(g_extent_number.fetch_add(1));
  std::unique_ptr<Extent> made;
  if (Status s = Extent::make(region_kind_, name.c_str(), slots, slot_bytes, &made); !s.ok()) return s;
  hugepages_ = hugepages_ || made->region().kind() == RegionKind::kHuge;
  if (device().caps().needs_local_reg) {
    if (Status s = rails_.device(0).reg(made->region(), 0, false); !s.ok())
      return with_shortage(std::move(s), memory_facts(), locked_with(made->region()), 0);
    registered_.push_back(&made->region());
  }
  *out = std::move(made);
  return Code::kOk;
}

void DataPlane::free_extent(std::unique_ptr<Extent> extent) {
  if (std::erase(registered_, &extent->region()) == 0) return;
  if (Status s = rails_.device(0).dereg(extent->region(), 0); !s.ok())
    log_warn("memory", "deregister: " + s.describe());
}

Status DataPlane::open_pools(const NodeSettings& settings) {
  const auto fill = [this](BouncePool& pool, uint64_t slots, uint64_t extent_slots) -> Status {
    for (uint64_t left = slots; left != 0;) {
      const auto n = static_cast<uint32_t>(std::min(left, extent_slots));
      std::unique_ptr<Extent> extent;
      if (Status s = make_extent(n, pool.slot_bytes(), &extent); !s.ok()) return s;
      ExtentId id;
      if (const Code code = pool.add_extent(std::move(extent), &id); code != Code::kOk)
        return {code,
                "rx-slots: more than " + std::to_string(BouncePool::kMaxExtents) + " extents; raise extent-slots"};
      left -= n;
    }
    return Code::kOk;
  };
  for (uint32_t w = 0; w < settings.workers && !one_sided(); ++w) {
    rx_.push_back(std::make_unique<BouncePool>(slot_bytes_, uint16_t{0}));
    tx_.push_back(std::make_unique<BouncePool>(slot_bytes_, uint16_t{0}));
    if (Status s = fill(*rx_.back(), settings.rx_slots, settings.extent_slots); !s.ok()) return s;
    if (Status s = fill(*tx_.back(), settings.tx_slots, settings.tx_slots); !s.ok()) return s;
  }
  ctrl_rx_ = std::make_unique<BouncePool>(frame_bytes_, uint16_t{0});
  ctrl_tx_ = std::make_unique<BouncePool>(frame_bytes_, uint16_t{0});
  if (Status s = fill(*ctrl_rx_, uint64_t{kFirstSessions} * kCtrlSlotsPerSession, UINT32_MAX); !s.ok()) return s;
  return fill(*ctrl_tx_, kCtrlTxSlots, kCtrlTxSlots);
}

Status DataPlane::open_mailboxes(const NodeSettings& settings) {
  if (Status s = from_service_.open(kMailbox); !s.ok()) return s;
  if (Status s = to_service_.open(kMailbox); !s.ok()) return s;
  for (uint32_t w = 0; w < settings.workers; ++w) {
    to_worker_.push_back(std::make_unique<Mailbox<ToWorker>>());
    to_control_.push_back(std::make_unique<Mailbox<ToControl>>());
    if (Status s = to_worker_.back()->open(kMailbox); !s.ok()) return s;
    if (Status s = to_control_.back()->open(kMailbox); !s.ok()) return s;
  }
  return notifies_.open(kInboxNotifies, frame_bytes_ + kMaxNameBytes);
}

void DataPlane::make_agents(const NodeSettings& settings, TickSource ticks) {
  for (uint16_t i = 0; i < settings.workers; ++i)
    if (one_sided())
      workers_.push_back(make_rma_worker(settings, i));
    else
      workers_.push_back(make_worker(settings, ticks, i));
  control_ = make_control(settings);
}

std::unique_ptr<WorkerAgent> DataPlane::make_worker(const NodeSettings& settings, TickSource ticks, uint16_t i) {
  const uint64_t us = ticks_per_us_, ms = 1000 * us;
  WorkerParams w;
  w.id = WorkerId{i};
  w.queue = queues_[i][0].get();
  w.rx_pool = rx_[i].get();
  w.tx_pool = tx_[i].get();
  w.inbox = to_worker_[i].get();
  w.control = to_control_[i].get();
  w.ticks = ticks;
  w.slot_bytes = slot_bytes_;
  w.max_lanes = settings.max_peers;
  w.max_tasks = settings.max_tasks;
  w.max_buffers = kMaxExports;
  w.rx_slots_max = settings.rx_slots_max;
  w.ticks_per_us = us;
  w.task_timeout = settings.task_timeout_ms * ms;
  w.probe_first = settings.credit_probe_us * us;
  w.probe_max = kProbeMaxUs * us;
  w.lease = settings.lease_ms * ms;
  w.verify_crc = settings.verify_crc;
  w.idle_poll_costly = device().caps().idle_poll_costly;
  return std::make_unique<Worker>(w);
}

// Where reads go that are only there to follow writes (DeviceCaps::delivery_complete).
Status DataPlane::open_scratch() {
  if (!one_sided()) return Code::kOk;
  if (Status s = Region::create(RegionKind::kPlain, kScratchBytes, &scratch_); !s.ok()) return s;
  return rails_.register_region(*scratch_);
}

std::unique_ptr<WorkerAgent> DataPlane::make_rma_worker(const NodeSettings& settings, uint16_t i) {
  const uint64_t us = ticks_per_us_, ms = 1000 * us;
  RmaWorkerParams w;
  w.id = WorkerId{i};
  Machine machine;
  if (rails_.count() > 1) (void)read_machine(&machine).ok();  // unknown: every rail is as near
  for (uint16_t r = 0; r < rails_.count(); ++r) {
    const DeviceInfo& info = rails_.device(r).info();
    const DeviceCaps& caps = rails_.device(r).caps();
    RmaRail rail;
    rail.queue = queues_[i][r].get();
    rail.max_op_bytes = caps.max_msg_bytes == 0 ? UINT32_MAX : std::min<uint64_t>(caps.max_msg_bytes, UINT32_MAX);
    rail.bits_per_s = info.bits_per_s;
    rail.placed = caps.delivery_complete;
    rail.idle_poll_costly = caps.idle_poll_costly;
    rail.grace = (caps.closes_paths ? kCloseMs : kGraceMs) * ms;
    rail.paired = caps.paired;
    w.peers_poll = w.peers_poll || caps.target_polls;
    for (size_t node = 0; node < machine.distance.size(); ++node)
      rail.penalty.push_back(numa_penalty(machine, info.numa_node, static_cast<int>(node)));
    rail.scratch = scratch_->base() + (size_t{i} * kMaxRails + r) % kScratchBytes;
    rail.scratch_desc = scratch_->keys(r)[0].local_desc;
    w.rails.push_back(std::move(rail));
  }
  w.inbox = to_worker_[i].get();
  w.control = to_control_[i].get();
  w.max_lanes = settings.max_peers;
  w.max_tasks = settings.max_tasks;
  w.op_bytes = settings.op_bytes;
  w.ticks_per_us = us;
  w.task_timeout = settings.task_timeout_ms * ms;
  w.lease = settings.lease_ms * ms;
  w.stall = w.lease / 2;  // so that a task on a rail that is cut goes on before its peer is suspected
  w.scan_every = std::max<uint64_t>(1, settings.credit_probe_us * us);
  return std::make_unique<RmaWorker>(std::move(w));
}

std::unique_ptr<Control> DataPlane::make_control(const NodeSettings& settings) {
  const uint64_t us = ticks_per_us_, ms = 1000 * us;
  ControlParams c;
  for (uint16_t i = 0; i < settings.workers; ++i) {
    c.to_worker.push_back(to_worker_[i].get());
    c.from_worker.push_back(to_control_[i].get());
  }
  c.queue = ctrl_queue_.get();
  c.rx_pool = ctrl_rx_.get();
  c.tx_pool = ctrl_tx_.get();
  c.from_service = &from_service_;
  c.to_service = &to_service_;
  c.notifies = &notifies_;
  c.max_peers = static_cast<uint32_t>(settings.max_peers);
  c.frame_bytes = frame_bytes_;
  c.session_floor = static_cast<uint32_t>(settings.session_floor);
  c.slot_bytes = slot_bytes_;
  c.extent_slots = settings.extent_slots;
  c.rx_slots = sizing_.rx_slots;
  c.rx_slots_min = settings.rx_slots_min;
  c.rx_slots_max = sizing_.rx_slots_max;
  if (one_sided())  // no message comes, so the floor of every session is promised and never used
    c.extent_slots = c.rx_slots = c.rx_slots_min = c.rx_slots_max = c.session_floor * c.max_peers;
  c.ack_delay = kAckDelayUs * us;
  c.ctrl_ack_delay = kCtrlAckDelayUs * us;
  c.retry = kRetryUs * us;
  c.retry_max = kRetryMaxUs * us;
  c.shrink_idle = settings.shrink_idle_ms * ms;
  c.fence_idle = kFenceIdleUs * us;
  c.first_answer = settings.connect_timeout_ms * ms;
  c.answer = std::max(settings.connect_timeout_ms, settings.task_timeout_ms) * ms;
  c.wakes_workers = one_sided();
  c.idle_poll_costly = device().caps().idle_poll_costly;
  return std::make_unique<Control>(c);
}

}  // namespace sluice
