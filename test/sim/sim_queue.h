// A device in memory: messages take time, and everything that a driver may do to an op happens by the plan.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "world.h"
#include "xport/driver.h"

namespace sluice::sim {

class SimQueue;

/// What a node wants to know of its queues.
class QueueWatch {
 public:
  virtual ~QueueWatch() = default;
  virtual void on_post(const SimQueue& queue, std::span<const std::byte> message) = 0;
  /// Whether a message that arrives has credit of a live session behind it, and is here for the first time.
  virtual bool credited(const SimQueue& queue, std::span<const std::byte> message) = 0;
  /// It was put into a receive.
  virtual void on_landed(const SimQueue& queue, std::span<const std::byte> message) = 0;
  /// Whether the node is built: memory is short only then.
  virtual bool running() const = 0;
};

/// One message on its way.
struct Flight {
  SimQueue* from;  ///< Null when its op is complete.
  uint64_t source, to;
  uint64_t cookie;
  PathId path;
  const std::byte* addr;
  uint32_t bytes;
  std::vector<std::byte> copy;  ///< Once the op is complete: the buffer may change.
  bool lands = true, landed = false;
  uint64_t give_up;  ///< Until then the other end may still connect its path.
  std::span<const std::byte> data() const noexcept {
    return copy.empty() ? std::span{addr, bytes} : std::span<const std::byte>{copy};
  }
};
using FlightRef = std::shared_ptr<Flight>;

/// All queues of all nodes, by number; a number is never used again.
class Wires {
 public:
  explicit Wires(World* owner) : world(owner) {}
  SimQueue* find(uint64_t number) const noexcept {
    const auto it = queues_.find(number);
    return it == queues_.end() ? nullptr : it->second;
  }
  uint64_t add(SimQueue* queue) {
    queues_[next_] = queue;
    return next_++;
  }
  void remove(uint64_t number) { queues_.erase(number); }

  World* const world;
  uint64_t starved = 0;  ///< Control frames that found no receive.

 private:
  std::map<uint64_t, SimQueue*> queues_;
  uint64_t next_ = 1;
};

class SimQueue final : public Queue {
 public:
  SimQueue(Wires* wires, QueueWatch* watch, const QueueParams& params, bool control, uint32_t index);
  ~SimQueue() override;

  uint32_t post(std::span<const Op> ops) noexcept override;
  uint32_t poll(std::span<Completion> out) noexcept override;
  uint32_t refill(std::span<const RecvBuf> bufs) noexcept override;
  uint32_t recall(std::span<const uint64_t> cookies) noexcept override;
  void flush() noexcept override {}
  QueueDepth depth() const noexcept override { return depth_; }
  Status address(PathId path, std::vector<std::byte>* out) override;
  Status connect(PathId path, std::span<const std::byte> peer) override;
  Code close(PathId path) noexcept override;
  void peer_gone(PathId path) noexcept override;
  void shutdown() noexcept override;

  /// Faults that last.
  void break_path(uint64_t choice, uint64_t until);
  void break_all(uint64_t until) { broken_until_ = until; }
  void heal();

  bool control() const noexcept { return control_; }
  uint32_t index() const noexcept { return index_; }  ///< Of the worker.
  size_t ops_out() const noexcept { return out_.size() + ops_.size(); }
  size_t posted() const noexcept { return rx_.size(); }
  size_t unpolled() const noexcept { return recvs_.size(); }

 private:
  struct Path {
    uint64_t peer = 0, last = 0, broken_until = 0;
    bool open = false;
  };
  Path* find(PathId path) noexcept {
    return raw(path) < paths_.size() && paths_[raw(path)].open ? &paths_[raw(path)] : nullptr;
  }
  uint32_t refused_from(size_t ops) noexcept;
  void launch(const Op& op);
  void launch_frame(const FlightRef& f, Path& path);
  void launch_data(const FlightRef& f, Path& path);
  uint64_t latency() noexcept;
  void finish(const FlightRef& f, Code code);
  void finish_after(const FlightRef& f, uint64_t ns, Code code);
  static void land_at(Wires* wires, const FlightRef& f, uint64_t when);
  static void land(Wires* wires, const FlightRef& f);
  void arrive(const FlightRef& f);
  void take(const FlightRef& f);
  bool leads_to(uint64_t source) const noexcept;

  Wires* const wires_;
  World& world_;
  QueueWatch* const watch_;
  const QueueDepth depth_;
  const uint32_t msg_bytes_;
  const bool control_;
  const uint32_t index_;
  const uint64_t number_;
  std::vector<Path> paths_;
  std::map<uint64_t, FlightRef> out_;  // by cookie
  std::deque<Completion> ops_, recvs_;
  std::deque<RecvBuf> rx_;
  std::deque<FlightRef> waiting_;  // for a receive
  std::set<uint64_t> foreign_;     // receives that messages without credit took, by cookie
  uint64_t broken_until_ = 0;
  bool shut_ = false;
};

/// The driver that the data plane is given: one device, whose queues are SimQueues.
class SimDriver final : public Driver {
 public:
  SimDriver(Wires* wires, QueueWatch* watch, std::function<void(SimQueue*)> made)
      : wires_(wires), watch_(watch), made_(std::move(made)) {}
  std::string_view name() const noexcept override { return "sim"; }
  Status probe(std::string_view provider, std::vector<DeviceInfo>* out) override;
  Status open(const DeviceInfo& info, const DeviceUse& use, std::unique_ptr<Device>* out) override;

 private:
  Wires* const wires_;
  QueueWatch* const watch_;
  const std::function<void(SimQueue*)> made_;
};

}  // namespace sluice::sim
