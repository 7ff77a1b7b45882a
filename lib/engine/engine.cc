#include "engine/engine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <thread>

#include "base/log.h"
#include "engine/node.h"
#include "engine/port_impl.h"
#include "env/eal.h"

namespace sluice {
namespace {
constexpr uint32_t kMaxNotifiesInFlight = PortRings::kNotifies;

NodeSettings with_name(NodeSettings settings) {
  if (!settings.name.empty()) return settings;
  std::array<char, 64> host{};
  (void)gethostname(host.data(), host.size() - 1);
  settings.name = std::string(host.data()) + "-" + std::to_string(getpid());
  return settings;
}

// A worker without a CPU of its own may run on any of its place.
void run_on(const std::vector<int>& cpus) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<size_t>(cpu), &set);
  (void)sched_setaffinity(0, sizeof set, &set);
}
}  // namespace

namespace {
// A slow call allocates. Where memory ends it says so, without a text, which would need some.
template <typename Call>
Status or_no_memory(Call call) noexcept {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return Code::kNoMemory;
  }
}
}  // namespace

Status Engine::start(const NodeSettings& settings, const RunOptions& options, std::unique_ptr<Engine>* out) {
  return or_no_memory([&]() -> Status {
    auto node = std::make_unique<Node>(settings);
    if (Status s = node->start(options); !s.ok()) return s;
    *out = std::move(node);
    return Code::kOk;
  });
}

Status Engine::list_devices(const NodeSettings& settings, std::vector<DeviceEntry>* out) {
  std::unique_ptr<Driver> driver;
  std::vector<DeviceInfo> found;
  if (Status s = Rails::probe(settings, Outside{}, true, &driver, &found); !s.ok()) return s;
  Machine machine;  // knows the place of some that their driver does not
  (void)read_machine(&machine).ok();
  for (const DeviceInfo& d : found) {
    DeviceEntry entry{d.name, d.provider, d.address, d.numa_node, d.bits_per_s, d.pci, d.left_out};
    for (const MachineDevice& known : machine.devices)
      if (entry.numa_node < 0 && known.name == d.name) entry.numa_node = known.numa;
    out->push_back(std::move(entry));
  }
  return Code::kOk;
}

Node::Node(const NodeSettings& settings) : settings_(with_name(settings)), memory_(kMaxExports) {}

Status Node::start(const RunOptions& options) {
  if (Status s = start_eal_for(options); !s.ok()) return s;
  const Outside outside;
  if (Status s = DataPlane::build(settings_, outside, &plane_); !s.ok()) return s;
  std::function<void()> pump;
  if (!options.own_lcores) pump = [this] { (void)progress(); };
  service_ = std::make_unique<ServiceThread>(
      std::make_unique<Service>(settings_, outside, plane_.get(), &memory_, &segments_, &lock_), std::move(pump));
  if (Status s = launch_runners(options); !s.ok()) return s;
  return service_->start();
}

Status Node::start_eal_for(const RunOptions& options) {
  EalOptions eal;
  eal.user_args = options.eal_args;
  eal.hugepages = settings_.hugepages == "on"    ? HugePolicy::kOn
                  : settings_.hugepages == "off" ? HugePolicy::kOff
                                                 : HugePolicy::kAuto;
  if (options.own_lcores) {
    choose_places();
    for (const WorkerPlace& place : places_) eal.worker_cpus.push_back(place.cpu);
  }
  return start_eal(eal);
}

// Where there is one NUMA node, the device's place does not matter, and nobody looks for it.
void Node::choose_places() {
  Machine machine;
  if (Status s = read_machine(&machine); !s.ok() || machine.cpus.empty()) {
    log_info("plan", s.describe());
    machine = Machine{};
    for (const int cpu : read_eal_facts().allowed_cpus) machine.cpus.push_back({cpu, cpu, -1});
  }
  std::string rail = settings_.devices.empty() ? "" : settings_.devices[0];
  std::unique_ptr<Driver> driver;
  std::vector<DeviceInfo> found;
  if (machine.distance.size() > 1 && Rails::probe(settings_, Outside{}, false, &driver, &found).ok()) {
    const DeviceInfo info = Rails::choose(settings_, found)[0];
    rail = info.name;
    if (info.numa_node >= 0) machine.devices.insert(machine.devices.begin(), {rail, info.numa_node});
  }
  places_ = place_workers(settings_, machine, rail);
  for (size_t w = 0; w < places_.size(); ++w)
    log_debug("plan", "worker " + std::to_string(w) + ": CPU " + std::to_string(places_[w].cpu) + ", of " +
                          format_cpus(places_[w].may_use));
}

// Worker 0 shares its lcore with the control core and the application's agents: one busy thread for a node with one
// worker.
Status Node::launch_runners(const RunOptions& options) {
  const IdlePolicy policy = settings_.adaptive_idle ? IdlePolicy::kAdaptive : IdlePolicy::kBusy;
  const std::vector<unsigned> lcores = worker_lcores();
  if (options.own_lcores && lcores.size() < plane_->workers())
    return {Code::kLimit, "workers " + std::to_string(plane_->workers()) + ": EAL has " +
                              std::to_string(lcores.size()) +
                              " worker lcores; give it more (-l or --lcores), or lower workers"};
  for (uint32_t w = 0; w < plane_->workers(); ++w) {
    std::vector<Agent*> agents;
    if (w == 0) agents = options.extra_agents;
    agents.push_back(&plane_->worker(w));
    if (w == 0) agents.push_back(&plane_->control());
    runners_.push_back(std::make_unique<Runner>(std::move(agents), options.own_lcores ? policy : IdlePolicy::kBusy,
                                                tsc_now, plane_->ticks_per_us()));
    if (!options.own_lcores) continue;
    const bool pinned = w < settings_.cpus.size() || !options.eal_args.empty();
    Runner* runner = runners_.back().get();
    Status s = launch(lcores[w], [runner, may_use = pinned ? std::vector<int>{} : places_[w].may_use] {
      if (!may_use.empty()) run_on(may_use);
      runner->run();
    });
    if (!s.ok()) return s;
    lcores_.push_back(lcores[w]);
  }
  return Code::kOk;
}

Node::~Node() {
  if (!stopped_) (void)stop(0).ok();
}

Status Node::register_memory(void* addr, uint64_t bytes, MemoryHandle* out) {
  return or_no_memory([&]() -> Status {
    std::unique_ptr<Region> region;
    if (Status s = Region::import(addr, bytes, &region); !s.ok()) return s;
    return add_memory(std::move(region), out);
  });
}

Status Node::allocate_buffer(uint64_t bytes, ManagedBuffer* out) {
  return or_no_memory([&]() -> Status {
    std::unique_ptr<Region> region;
    const RegionKind kind = settings_.hugepages == "on"    ? RegionKind::kHuge
                            : settings_.hugepages == "off" ? RegionKind::kPlain
                                                           : RegionKind::kBest;
    if (Status s = Region::create(kind, bytes, &region); !s.ok()) return s;
    ManagedBuffer made{region->base(), bytes, {}};
    if (Status s = add_memory(std::move(region), &made.memory); !s.ok()) return s;
    *out = made;
    return Code::kOk;
  });
}

Status Node::unregister_memory(MemoryHandle memory) {
  return or_no_memory([&] {
    std::unique_ptr<Region> region;
    {
      const std::lock_guard lock(lock_);
      if (Status s = memory_.remove(memory, &region); !s.ok()) return s;
    }
    return plane_->rails().deregister_region(*region);
  });
}

// Registering takes milliseconds, so it is not done under the lock; a region that overlaps another is refused before.
Status Node::add_memory(std::unique_ptr<Region> region, MemoryHandle* out) {
  {
    const std::lock_guard lock(lock_);
    if (Status s = memory_.check(*region); !s.ok()) return s;
  }
  Region& made = *region;
  if (Status s = plane_->rails().register_region(made); !s.ok()) return s;
  const std::lock_guard lock(lock_);
  Status s = memory_.add(&region, out);
  if (!s.ok()) (void)plane_->rails().deregister_region(made).ok();
  return s;
}

Status Node::export_memory(std::string_view name, MemoryHandle memory) {
  return or_no_memory([&]() -> Status {
    const std::lock_guard lock(lock_);
    MemoryTable::Exported exported{};
    if (Status s = memory_.export_memory(name, memory, &exported); !s.ok()) return s;
    service_->service().set_buffer(exported);
    return Code::kOk;
  });
}

Status Node::withdraw_segment(std::string_view name) {
  return or_no_memory([&]() -> Status {
    std::vector<MemoryTable::Exported> buffers;
    {
      const std::lock_guard lock(lock_);
      if (Status s = memory_.withdraw(name, &buffers); !s.ok()) return s;
    }
    if (plane_->one_sided()) {
      std::vector<uint32_t> ids(buffers.size());
      std::ranges::transform(buffers, ids.begin(), &MemoryTable::Exported::id);
      if (!service_->end_buffers(ids, std::chrono::milliseconds(settings_.task_timeout_ms)))
        return {Code::kTimeout, "withdraw segment '" + std::string(name) +
                                    "': a peer still has transfers to it after task-timeout-ms; its memory stays "
                                    "exported"};
    }
    for (const MemoryTable::Exported& buffer : buffers) {
      if (!service_->clear_buffer(buffer.id))
        return {Code::kTimeout, "withdraw segment '" + std::string(name) +
                                    "': an agent does not answer (is its lcore blocked?); its memory stays exported"};
      const std::lock_guard lock(lock_);
      memory_.forget(buffer.id);
    }
    return Code::kOk;
  });
}

Status Node::open_segment(std::string_view node, std::string_view name, SegmentHandle* out) {
  return or_no_memory([&]() -> Status { return service_->open_segment(node, name, out); });
}

Status Node::segment_info(SegmentHandle segment, SegmentInfo* out) const {
  return or_no_memory([&]() -> Status {
    const std::lock_guard lock(lock_);
    const OpenSegment* found = segments_.find(segment);
    if (found == nullptr) return {Code::kStale, "segment_info: the handle is not, or no longer, valid"};
    *out = {found->node, found->name, {}};
    for (const OpenSegment::Buffer& buffer : found->buffers) out->buffer_bytes.push_back(buffer.bytes);
    return Code::kOk;
  });
}

Status Node::close_segment(SegmentHandle segment) {
  const std::lock_guard lock(lock_);
  return segments_.close(segment);
}

Status Node::open_port(std::unique_ptr<Port>* out) {
  return or_no_memory([&]() -> Status {
    auto rings = std::make_unique<PortRings>();
    const auto notify_bytes =
        static_cast<uint32_t>(settings_.ctrl_slot_bytes - kFrameHeaderBytes - 2 * sizeof(uint32_t));
    if (Status s = rings->open(plane_->workers(), static_cast<uint32_t>(settings_.port_ring), notify_bytes); !s.ok())
      return s;
    PortRings* const made = rings.get();
    auto port =
        std::make_unique<PortImpl>(std::move(rings), &memory_, &segments_, static_cast<uint32_t>(settings_.max_peers),
                                   [this](PortRings* r) { return service_ == nullptr || service_->remove_port(r); });
    service_->add_port(made);  // last: from here on agents know the rings, and only the port's end takes them back
    *out = std::move(port);
    return Code::kOk;
  });
}

Status Node::send_notify(SegmentHandle segment, std::string_view name, std::string_view message) {
  return or_no_memory([&]() -> Status {
    const std::lock_guard lock(notify_lock_);
    if (notify_port_ == nullptr)
      if (Status s = open_port(&notify_port_); !s.ok()) return s;
    forget_delivered();
    if (notify_batches_.size() >= kMaxNotifiesInFlight)
      return {Code::kAgain, std::to_string(kMaxNotifiesInFlight) + " notifies are on their way; try again"};
    BatchHandle batch;
    if (const Code code = notify_port_->allocate_batch(1, &batch); code != Code::kOk) return code;
    const Code code = notify_port_->attach_notify(batch, segment, name, message);
    if (code == Code::kOk) {
      notify_batches_.push_back(batch);
      return Code::kOk;
    }
    (void)notify_port_->release(batch);
    if (code == Code::kLimit)
      return {code, "notify of " + std::to_string(name.size() + message.size()) + " bytes: at most " +
                        std::to_string(settings_.ctrl_slot_bytes - kFrameHeaderBytes - 8) +
                        " fit; raise ctrl-slot-size"};
    return code;
  });
}

Status Node::take_notifies(size_t max, std::vector<NotifyMessage>* out) {
  return or_no_memory([&]() -> Status {
    const std::lock_guard lock(notify_lock_);
    NotifyInbox::Item item;
    for (size_t i = 0; i < max && plane_->notifies().take(&item); ++i) {
      out->push_back({std::string(plane_->notifies().peer(item)), std::string(plane_->notifies().name(item)),
                      std::string(plane_->notifies().message(item))});
      plane_->notifies().done(item);
    }
    return Code::kOk;
  });
}

uint32_t Node::progress() noexcept {
  uint32_t work = 0;
  if (lcores_.empty())
    for (const auto& runner : runners_) work += runner->turn();
  return work;
}

TransportInfo Node::transport() const {
  TransportInfo info;
  info.transport = settings_.transport;
  info.provider = plane_->device().info().provider;
  info.device = plane_->rails().names();
  info.device_address = plane_->device().info().address;
  info.listen_address = format_address(service_->service().listening());
  info.workers = plane_->workers();
  info.tx_depth = plane_->worker_queue(0).depth().tx;
  info.rx_depth = plane_->worker_queue(0).depth().rx;
  info.slot_bytes = plane_->slot_bytes();
  info.hugepages = plane_->hugepages();
  return info;
}

// Until what the application submitted is final, and what peers have begun is at its end.
Status Node::wait_quiet(std::chrono::steady_clock::time_point until) {
  if (plane_->one_sided()) {  // peers move by themselves, and are asked to come to an end
    std::vector<uint32_t> ids;
    {
      const std::lock_guard lock(lock_);
      ids = memory_.exported();
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (!ids.empty() && !service_->end_buffers(ids, left))
      return {Code::kTimeout, "stop: at the deadline peers still had transfers under way to exported memory"};
  }
  NodeStats now = stats();
  size_t notifies = open_notifies();
  while (now.tasks_open + now.peer_tasks + notifies != 0 && std::chrono::steady_clock::now() < until) {
    if (lcores_.empty())
      (void)progress();
    else
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    now = stats();
    notifies = open_notifies();
  }
  if (now.tasks_open + now.peer_tasks + notifies == 0) return Code::kOk;
  return {Code::kTimeout, "stop: at the deadline " + std::to_string(now.tasks_open) + " tasks and " +
                              std::to_string(notifies) + " notifies of this node were not final, and " +
                              std::to_string(now.peer_tasks) + " transfers of " + std::to_string(now.peers) +
                              " peers not at their end"};
}

// Those of send_notify that are not delivered yet. They lie in the port's memory, so the port must stay for them.
size_t Node::open_notifies() {
  const std::lock_guard lock(notify_lock_);
  if (notify_port_ == nullptr) return 0;
  forget_delivered();
  return notify_batches_.size();
}

void Node::forget_delivered() {
  (void)notify_port_->poll();
  std::erase_if(notify_batches_, [&](BatchHandle b) {
    BatchStatus s;
    if (notify_port_->status(b, &s) == Code::kOk && s.notify == NotifyState::kFailed)
      log_warn("notify", "one of send_notify was not delivered: " + std::string(code_name(s.notify_code)));
    return notify_port_->release(b) == Code::kOk;
  });
}

Status Node::stop(uint32_t deadline_ms) {
  if (stopped_) return Code::kOk;
  stopped_ = true;
  constexpr int64_t kFarewellMs = 200;  // for telling peers, when the transfers took all of the time
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(deadline_ms);
  Status status = deadline_ms != 0 && plane_ != nullptr && service_ != nullptr ? wait_quiet(until) : Status{};
  notify_port_.reset();
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
  if (service_ != nullptr)
    service_->stop(deadline_ms == 0 ? 0 : static_cast<uint32_t>(std::max<int64_t>(left.count(), kFarewellMs)));
  for (const auto& runner : runners_) runner->stop();
  for (const unsigned lcore : lcores_) join(lcore);
  runners_.clear();
  service_.reset();
  plane_.reset();
  return status;
}

}  // namespace sluice
