/// @file port.h
/// An application thread's door to the data plane: batches in, statuses out.
///
/// Model    A port has a pair of lock-free rings to each worker. submit() queues tasks of a batch; poll() moves what
///          the rings have no room for yet and takes completions; status() then reads the port's own memory, in O(1).
/// Threads  One thread at a time per port; several ports work side by side. Any thread, or an agent on a lcore.
/// Memory   allocate_batch reuses released batches; submit and poll do not allocate.
/// Errors   submit checks each request and takes all or none: a refused call names the request in *bad.
///          A task of a silent peer ends by task-timeout-ms + lease-ms + heartbeat-ms, and at most a lease later when
///          the peer lives but does not acknowledge (doc/transports.md).
/// Order    A notify attached to a batch is sent after every task of it is done, once; not if one failed.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "engine/types.h"

namespace sluice {

class Port {
 public:
  Port() = default;
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;
  virtual ~Port() = default;  ///< Gives up what is still open: wait for open_tasks() == 0 first.

  /// A batch for up to @p max_tasks tasks. @return kLimit.
  virtual Code allocate_batch(uint32_t max_tasks, BatchHandle* batch) noexcept = 0;
  /// Add tasks to @p batch; all of them or none. @return kStale (batch, segment), kBadArgument, kNotRegistered (local
  /// memory), kOutOfRange (remote buffer), kLimit (more than max_tasks), kPeerDead. *bad: index of the first refused.
  virtual Code submit(BatchHandle batch, std::span<const Request> requests, uint32_t* bad = nullptr) noexcept = 0;
  /// Send (@p name, @p message) to the node of @p segment when every task of @p batch is done. Call it after the last
  /// submit. @return kStale, kPeerDead, kLimit (too long), kExists (one is attached), kAgain (too many under way).
  virtual Code attach_notify(BatchHandle batch, SegmentHandle segment, std::string_view name,
                             std::string_view message) noexcept = 0;
  /// Move what is queued and take completions. @return how many tasks and notifies became final.
  virtual uint32_t poll() noexcept = 0;
  /// Status of task @p index, in order of submission. @return kStale, kOutOfRange.
  virtual Code status(BatchHandle batch, uint32_t index, TaskStatus* out) const noexcept = 0;
  virtual Code status(BatchHandle batch, BatchStatus* out) const noexcept = 0;
  /// Ask that the open tasks of @p batch end early; each ends kCancelled or as it would have. @return kStale, kAgain
  /// (too many cancels under way, or more than 64 peers: call again).
  virtual Code cancel(BatchHandle batch) noexcept = 0;
  /// Give the batch back. @return kBusy while it is not final (nothing changes), kStale.
  virtual Code release(BatchHandle batch) noexcept = 0;

  /// Tasks that are not final yet.
  virtual uint32_t open_tasks() const noexcept = 0;
};

}  // namespace sluice
