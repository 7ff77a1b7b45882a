// A whole node: the engine's own parts, over simulated queues, pipe and clock.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "engine/data_plane.h"
#include "engine/memory_table.h"
#include "engine/port_impl.h"
#include "engine/segment_table.h"
#include "engine/service.h"
#include "oracle.h"
#include "sim_oob.h"
#include "sim_queue.h"

namespace sluice::sim {

class App;

/// One process of a node. Its parts end in the order that Node::stop ends them.
struct Life {
  uint32_t number = 0;
  std::mutex lock;
  MemoryTable memory{kMaxExports};
  SegmentTable segments;
  std::unique_ptr<DataPlane> plane;
  std::unique_ptr<Service> service;
  std::unique_ptr<PortImpl> port;
  PortRings* rings = nullptr;
  MemoryHandle exported{}, stock{};
  std::vector<SimQueue*> queues;  ///< Of the workers, and control's last.
  std::unique_ptr<App> app;
  ~Life();
};

class SimNode final : public QueueWatch {
 public:
  SimNode(World* world, Wires* wires, OobNet* net, Oracle* oracle, uint32_t index);
  ~SimNode() override;

  void boot();
  /// The process dies. @p down: for how long.
  void kill(uint64_t down_ns);
  /// As Engine::stop does it, in steps; then it is down for so long.
  void begin_stop(uint64_t down_ns);

  /// One turn of one of its agents; @p which is any number. @return the work it found.
  uint32_t turn(uint64_t which);
  uint32_t actors() const noexcept { return plan_workers_ + 3; }
  bool up() const noexcept { return life_ != nullptr; }
  bool stopping() const noexcept { return stop_ != Stop::kNo; }
  Life& life() const noexcept { return *life_; }
  uint32_t index() const noexcept { return index_; }
  const NodeSettings& settings() const noexcept { return world_.plan.settings[index_]; }
  uint16_t port() const noexcept { return static_cast<uint16_t>(1000 + index_); }
  std::string segment() const { return "w" + std::to_string(life_->number); }
  Status export_all();

  uint64_t ticks() const noexcept { return clock() + tick_base_; }
  uint64_t now_ns() const noexcept { return clock() + ns_base_; }
  void jump(uint64_t ns) noexcept { jumped_ += ns; }

  uint64_t muted_until = 0, slow_until = 0;

 private:
  enum class Stop : uint8_t { kNo, kQuiet, kPort, kDrain, kClose };
  uint64_t clock() const noexcept { return world_.now() + world_.now() / 1'000'000 * skew_ppm_ + jumped_; }
  uint32_t go_on_stopping();
  void end_life(uint64_t down_ns);

  void on_post(const SimQueue& queue, std::span<const std::byte> message) override;
  bool credited(const SimQueue& queue, std::span<const std::byte> message) override;
  void on_landed(const SimQueue& queue, std::span<const std::byte> message) override;
  bool running() const override { return life_ != nullptr && life_->service != nullptr; }
  const Lane* lane_of(const SimQueue& queue, std::span<const std::byte> message) const;

  World& world_;
  Wires* const wires_;
  OobNet* const net_;
  Oracle& oracle_;
  const uint32_t index_, plan_workers_;
  const uint64_t tick_base_, ns_base_, skew_ppm_;
  uint64_t jumped_ = 0, stop_deadline_ = 0, stop_down_ = 0, stop_token_ = 0;
  Stop stop_ = Stop::kNo;
  std::unique_ptr<Life> life_;
  std::set<std::tuple<uint64_t, uint32_t, uint32_t>> landed_;  // session, epoch, seq
};

}  // namespace sluice::sim
