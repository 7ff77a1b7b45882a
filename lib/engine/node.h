/// @file node.h
/// The engine behind engine.h: it holds the parts together and says which thread does what.
///
/// Model    DataPlane (agents, queues, memory) + ServiceThread (peers, out-of-band TCP) + tables (memory, segments).
/// Threads  Public calls from any thread; lock_ guards the tables and the service's state, never a turn.
/// Memory   Owns all of it.
/// Errors   As engine.h says.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "agent/runner.h"
#include "engine/data_plane.h"
#include "engine/engine.h"
#include "engine/placement.h"
#include "engine/service_thread.h"

namespace sluice {

class Node final : public Engine {
 public:
  explicit Node(const NodeSettings& settings);
  ~Node() override;
  Status start(const RunOptions& options);

  Status register_memory(void* addr, uint64_t bytes, MemoryHandle* out) override;
  Status allocate_buffer(uint64_t bytes, ManagedBuffer* out) override;
  Status unregister_memory(MemoryHandle memory) override;
  Status export_memory(std::string_view name, MemoryHandle memory) override;
  Status withdraw_segment(std::string_view name) override;
  Status open_segment(std::string_view node, std::string_view name, SegmentHandle* out) override;
  Status segment_info(SegmentHandle segment, SegmentInfo* out) const override;
  Status close_segment(SegmentHandle segment) override;
  Status open_port(std::unique_ptr<Port>* out) override;
  Status send_notify(SegmentHandle segment, std::string_view name, std::string_view message) override;
  Status take_notifies(size_t max, std::vector<NotifyMessage>* out) override;
  uint32_t progress() noexcept override;
  TransportInfo transport() const override;
  NodeStats stats() const override;
  void restart_peaks() override;
  Status stop(uint32_t deadline_ms) override;

 private:
  Status start_eal_for(const RunOptions& options);
  Status add_memory(std::unique_ptr<Region> region, MemoryHandle* out);
  void choose_places();
  Status launch_runners(const RunOptions& options);
  Status wait_quiet(std::chrono::steady_clock::time_point until);
  size_t open_notifies();
  void forget_delivered();  ///< Under notify_lock_.

  const NodeSettings settings_;
  mutable std::mutex lock_;
  MemoryTable memory_;
  SegmentTable segments_;
  std::unique_ptr<DataPlane> plane_;
  std::unique_ptr<ServiceThread> service_;
  std::vector<std::unique_ptr<Runner>> runners_;
  std::vector<WorkerPlace> places_;    ///< By worker, with lcores of our own.
  std::vector<unsigned> lcores_;       ///< Where the runners run; empty without lcores of our own.
  std::mutex notify_lock_;             ///< take_notifies and send_notify, one thread at a time.
  std::unique_ptr<Port> notify_port_;  ///< Of send_notify.
  std::vector<BatchHandle> notify_batches_;
  bool stopped_ = false;
};

}  // namespace sluice
