/// @file data_plane.h
/// The moving parts of a node, built from its settings: device, queues, bounce pools, mailboxes and agents.
///
/// Model    One queue and one pair of pools for each worker, one for the control core. build() opens everything; the
///          agents are then turned by runners or by progress().
/// Threads  build(), make_extent(), free_extent() and the destructor: the thread that owns the node, one at a time.
/// Memory   Owns all of it. Extents that are made here are registered here, and deregistered before they are freed.
/// Errors   Status with a line that names the setting, device or limit.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "agent/control.h"
#include "agent/mailbox.h"
#include "agent/messages.h"
#include "agent/notify_inbox.h"
#include "agent/worker.h"
#include "base/status.h"
#include "engine/outside.h"
#include "engine/rails.h"
#include "engine/sizing.h"
#include "env/node_settings.h"
#include "mem/bounce_pool.h"
#include "xport/driver.h"

namespace sluice {

/// Control receives and sends for one session: a full window, and half as many CTRL_ACKs.
inline constexpr uint32_t kCtrlSlotsPerSession = CtrlChannel::kWindow * 3 / 2;
inline constexpr uint32_t kMaxExports = 4096;

/// Of the mempool of the @p number-th extent of this process.
std::string extent_name(uint64_t number);

class DataPlane {
 public:
  /// @pre EAL is up.
  static Status build(const NodeSettings& settings, const Outside& outside, std::unique_ptr<DataPlane>* out);
  ~DataPlane();
  DataPlane(const DataPlane&) = delete;
  DataPlane& operator=(const DataPlane&) = delete;

  Status make_extent(uint32_t slots, uint32_t slot_bytes, std::unique_ptr<Extent>* out);
  void free_extent(std::unique_ptr<Extent> extent);
  /// A new queue in the place of one that is shut down and empty, which stays until the node ends.
  Status reopen_queue(const NodeSettings& settings, uint32_t worker, uint16_t rail);

  uint32_t workers() const noexcept { return static_cast<uint32_t>(workers_.size()); }
  WorkerAgent& worker(uint32_t i) noexcept { return *workers_[i]; }
  Control& control() noexcept { return *control_; }
  Queue& worker_queue(uint32_t i, uint16_t rail = 0) noexcept { return *queues_[i][rail]; }
  Queue& control_queue() noexcept { return *ctrl_queue_; }
  const Device& device() const noexcept { return rails_.device(0); }
  void tend() noexcept { rails_.tend(); }
  Rails& rails() noexcept { return rails_; }
  bool one_sided() const noexcept { return rails_.one_sided(); }
  Mailbox<FromService>& to_control() noexcept { return from_service_; }
  Mailbox<ToService>& from_control() noexcept { return to_service_; }
  NotifyInbox& notifies() noexcept { return notifies_; }
  uint32_t slot_bytes() const noexcept { return slot_bytes_; }     ///< Of data slots, header included.
  uint32_t max_window() const noexcept { return sizing_.window; }  ///< The most slots one session is ever granted.
  uint64_t ticks_per_us() const noexcept { return ticks_per_us_; }
  bool hugepages() const noexcept { return hugepages_; }

 private:
  DataPlane() = default;
  Status open_queues(const NodeSettings& settings);
  Status open_queue(const NodeSettings& settings, uint16_t rail, std::unique_ptr<Queue>* out) const;
  Status open_scratch();
  void size_and_check(const NodeSettings& settings);
  EalFacts memory_facts() const;
  uint64_t locked_with(const Region& more) const noexcept;
  Status open_pools(const NodeSettings& settings);
  Status open_mailboxes(const NodeSettings& settings);
  void make_agents(const NodeSettings& settings, TickSource ticks);
  std::unique_ptr<WorkerAgent> make_worker(const NodeSettings& settings, TickSource ticks, uint16_t i);
  std::unique_ptr<WorkerAgent> make_rma_worker(const NodeSettings& settings, uint16_t i);
  std::unique_ptr<Control> make_control(const NodeSettings& settings);

  Sizing sizing_;
  RegionKind region_kind_ = RegionKind::kBest;
  uint32_t slot_bytes_ = 0, frame_bytes_ = 0;
  uint64_t ticks_per_us_ = 1;
  bool hugepages_ = false;
  Rails rails_;
  std::unique_ptr<Region> scratch_;
  std::vector<Region*> registered_;
  std::unique_ptr<BouncePool> ctrl_rx_, ctrl_tx_;
  std::vector<std::unique_ptr<BouncePool>> rx_, tx_;
  std::unique_ptr<Queue> ctrl_queue_;
  std::vector<std::vector<std::unique_ptr<Queue>>> queues_;  ///< By worker and rail.
  std::vector<std::unique_ptr<Queue>> closed_queues_;
  Mailbox<FromService> from_service_;
  Mailbox<ToService> to_service_;
  std::vector<std::unique_ptr<Mailbox<ToWorker>>> to_worker_;
  std::vector<std::unique_ptr<Mailbox<ToControl>>> to_control_;
  NotifyInbox notifies_;
  std::vector<std::unique_ptr<WorkerAgent>> workers_;
  std::unique_ptr<Control> control_;
};

}  // namespace sluice
