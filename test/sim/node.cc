#include "node.h"

#include <array>
#include <cstring>

#include "app.h"
#include "peek.h"
#include "proto/msg_header.h"

namespace sluice::sim {
namespace {
// Whose turn it is: the clock and the chance that the engine's code asks for.
SimNode* g_turning = nullptr;
World* g_world = nullptr;
uint64_t sim_ticks() noexcept { return g_turning->ticks(); }
uint64_t sim_now_ns() noexcept { return g_turning->now_ns(); }
uint64_t sim_random() noexcept { return g_world->ids.next() | 1; }
constexpr uint64_t kStopPart = 100 * kMs;  // for each part of a clean stop
}  // namespace

Life::~Life() {
  app.reset();
  port.reset();
  service.reset();
  for (uint32_t w = 0; plane != nullptr && w < plane->workers(); ++w)
    WorkerMutants::forget(static_cast<Worker&>(plane->worker(w)));
  plane.reset();
}

SimNode::SimNode(World* world, Wires* wires, OobNet* net, Oracle* oracle, uint32_t index)
    : world_(*world),
      wires_(wires),
      net_(net),
      oracle_(*oracle),
      index_(index),
      plan_workers_(world->plan.settings[index].workers),
      tick_base_(world->chance.below(1ull << 50)),
      ns_base_(world->chance.below(1ull << 50)),
      skew_ppm_(world->chance.below(200)) {}

SimNode::~SimNode() {
  g_turning = this;
  g_world = &world_;
  life_.reset();
}

void SimNode::boot() {
  g_turning = this;
  g_world = &world_;
  life_ = std::make_unique<Life>();
  Life& l = *life_;
  l.number = oracle_.new_life(index_);
  world_.trace("node " + std::to_string(index_) + " starts as life " + std::to_string(l.number));
  Outside outside;
  outside.ticks = sim_ticks;
  outside.ticks_per_us = 1000;
  outside.now_ns = sim_now_ns;
  outside.random = sim_random;
  outside.driver = [this](std::string_view, std::unique_ptr<Driver>* out) -> Status {
    *out = std::make_unique<SimDriver>(wires_, this, [this](SimQueue* q) { life_->queues.push_back(q); });
    return Code::kOk;
  };
  outside.oob = [this](OobConfig config, OobEvents* events) -> std::unique_ptr<Oob> {
    return std::make_unique<SimOob>(net_, std::move(config), events);
  };
  if (Status s = DataPlane::build(settings(), outside, &l.plane); !s.ok()) return world_.fail("build: " + s.describe());
  l.service = std::make_unique<Service>(settings(), outside, l.plane.get(), &l.memory, &l.segments, &l.lock);
  if (Status s = l.service->open(); !s.ok()) return world_.fail("open: " + s.describe());
  auto rings = std::make_unique<PortRings>();
  const uint32_t notify_bytes = settings().ctrl_slot_bytes - static_cast<uint32_t>(kFrameHeaderBytes) - 8;
  if (Status s = rings->open(plan_workers_, settings().port_ring, notify_bytes); !s.ok())
    return world_.fail("rings: " + s.describe());
  l.rings = rings.get();
  l.service->add_port(l.rings);
  l.port = std::make_unique<PortImpl>(std::move(rings), &l.memory, &l.segments, settings().max_peers,
                                      [](PortRings*) { return true; });
  LifeMemory& m = oracle_.memory(l.number);
  for (const auto& bytes : {&m.exported, &m.stock, &m.local}) {
    std::unique_ptr<Region> region;
    MemoryHandle handle{};
    if (!Region::import(bytes->data(), bytes->size(), &region).ok() || !l.memory.add(&region, &handle).ok())
      return world_.fail("register");
    if (bytes == &m.exported) l.exported = handle;
    if (bytes == &m.stock) l.stock = handle;
  }
  if (Status s = export_all(); !s.ok()) return world_.fail("export: " + s.describe());
  l.app = std::make_unique<App>(&world_, &oracle_, this);
}

Status SimNode::export_all() {
  for (const MemoryHandle handle : {life_->exported, life_->stock}) {
    MemoryTable::Exported made{};
    if (Status s = life_->memory.export_memory(segment(), handle, &made); !s.ok()) return s;
    life_->service->set_buffer(made);
  }
  return Code::kOk;
}

void SimNode::kill(uint64_t down_ns) {
  world_.trace("node " + std::to_string(index_) + " is killed");
  end_life(down_ns);
}

void SimNode::end_life(uint64_t down_ns) {
  g_turning = this;
  stop_ = Stop::kNo;
  muted_until = slow_until = 0;
  oracle_.end_life(life_->number);
  life_.reset();
  world_.after(down_ns, [this] { boot(); });
}

void SimNode::begin_stop(uint64_t down_ns) {
  world_.trace("node " + std::to_string(index_) + " stops");
  stop_ = Stop::kQuiet;
  stop_down_ = down_ns;
  stop_deadline_ = world_.now() + kStopPart;
  life_->app->stop();
}

// Engine::stop, part by part: let what is open end, give the port up, tell the agents of peers, tell the peers.
uint32_t SimNode::go_on_stopping() {
  Life& l = *life_;
  const bool late = world_.now() >= stop_deadline_;
  const std::lock_guard lock(l.lock);
  const auto next = [&](Stop to) {
    stop_ = to;
    stop_deadline_ = world_.now() + kStopPart;
    return 1u;
  };
  switch (stop_) {
    case Stop::kNo: return 0;
    case Stop::kQuiet:
      if (!late && !l.app->quiet()) return 0;
      l.app->leave();
      stop_token_ = l.service->begin_remove_port(l.rings);
      return next(Stop::kPort);
    case Stop::kPort:
      if (!l.service->answered(stop_token_)) {
        if (late) world_.fail("a port is not given back by the agents");
        return 0;
      }
      l.app->left();
      l.port.reset();
      l.service->begin_drain(100);
      return next(Stop::kDrain);
    case Stop::kDrain:
      if (!late && !l.service->drained()) return 0;
      world_.count(l.service->drained() ? "stop.drained" : "stop.not-drained");
      l.service->begin_close();
      return next(Stop::kClose);
    case Stop::kClose:
      if (!late && !l.service->closed()) return 0;
      world_.count(l.service->closed() ? "stop.closed" : "stop.not-closed");
      return next(Stop::kNo);
  }
  return 0;
}

uint32_t SimNode::turn(uint64_t which) {
  g_turning = this;
  g_world = &world_;
  const auto actor = static_cast<uint32_t>(which % actors());
  if (actor < plan_workers_) return life_->plane->worker(actor).turn(ticks());
  if (actor == plan_workers_) return life_->plane->control().turn(ticks());
  if (actor == plan_workers_ + 1) {
    life_->service->turn();
    return 0;
  }
  const bool was = stopping();
  const uint32_t work = was ? go_on_stopping() : 0;
  if (was && !stopping()) {
    world_.trace("node " + std::to_string(index_) + " has stopped");
    end_life(stop_down_);
    return 1;
  }
  return work + (life_->port != nullptr ? life_->app->turn() : 0);
}

// ---- what the queues tell

const Lane* SimNode::lane_of(const SimQueue& queue, std::span<const std::byte> message) const {
  if (message.size() < kMsgHeaderBytes) return nullptr;
  MsgHeader h;
  std::memcpy(&h, message.data(), sizeof h);
  const auto& lanes = SimPeek::lanes(static_cast<const Worker&>(life_->plane->worker(queue.index())));
  const Lane* lane = h.lane < lanes.size() ? lanes[h.lane] : nullptr;
  return lane != nullptr && lane->params.session == h.session ? lane : nullptr;
}

// Law 11: no message of an epoch that the receiver has not begun.
void SimNode::on_post(const SimQueue& queue, std::span<const std::byte> message) {
  if (!queue.control()) oracle_.on_post(index_, message);
}

bool SimNode::credited(const SimQueue& queue, std::span<const std::byte> message) {
  if (life_ == nullptr || life_->plane == nullptr) return false;
  const Lane* lane = lane_of(queue, message);
  if (lane == nullptr || lane->state != Lane::State::kOpen) return false;
  MsgHeader h;
  std::memcpy(&h, message.data(), sizeof h);
  return static_cast<uint32_t>(raw(lane->rx_epoch)) == h.epoch && landed_.count({raw(h.session), h.epoch, h.seq}) == 0;
}

void SimNode::on_landed(const SimQueue& queue, std::span<const std::byte> message) {
  if (queue.control()) {
    Frame f;
    if (parse_frame(message, kLastType, &f) != Code::kOk) return world_.fail("a control frame that does not parse");
    world_.count("frame." + std::string(frame_type_name(f.header.type)));
    if (world_.tracing())
      world_.trace("node " + std::to_string(index_) + " gets " + std::string(frame_type_name(f.header.type)) +
                   " session " + std::to_string(raw(f.header.session) % 10000) + " epoch " +
                   std::to_string(raw(f.header.epoch)) + " seq " + std::to_string(f.header.seq) + " ack " +
                   std::to_string(f.header.ack_seq));
    return;
  }
  MsgHeader h;
  if (parse_message(message, &h) != Code::kOk) return world_.fail("a data message that does not parse");
  constexpr std::array<const char*, 6> kTypes = {"?", "WRITE", "READ_REQ", "READ_RESP", "ABORT", "PACK"};
  world_.count(std::string("message.") + kTypes[static_cast<size_t>(h.type)]);
  if (world_.tracing())
    world_.trace("node " + std::to_string(index_) + " gets " + kTypes[static_cast<size_t>(h.type)] + " session " +
                 std::to_string(raw(h.session) % 10000) + " epoch " + std::to_string(h.epoch) + " seq " +
                 std::to_string(h.seq) + " task " + std::to_string(raw(h.task)) + " bytes " + std::to_string(h.length));
  landed_.insert({raw(h.session), h.epoch, h.seq});
}

}  // namespace sluice::sim
