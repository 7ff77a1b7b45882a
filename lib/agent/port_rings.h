/// @file port_rings.h
/// The rings between an application thread's port and the agents.
///
/// Model    For each worker one ring of submissions and one of completions; for the control core one ring of notifies
///          and one of their results. Cancels have a ring of their own, so that they do not wait behind submissions
///          that find no room; a task that is still on its way bears a mark beside its phase. A submission names its
///          task by the port's own number (ref), which comes back in the completion. phase is one byte for each open
///          task, by which a worker shows that the task waits for credit.
/// Threads  The port's thread produces submissions and consumes completions; workers and control the other way round.
/// Memory   Opened once; nothing allocates after that.
/// Errors   A full ring takes a prefix (mailbox.h). The completion ring never fills: a port has at most max_open()
///          open.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "agent/mailbox.h"
#include "base/ids.h"
#include "base/status.h"

namespace sluice {

class Region;
struct RemoteBuffer;

enum class SubmitOp : uint8_t { kWrite, kRead };

struct Submission {
  uint64_t ref;  ///< The port's number for the task.
  std::byte* local;
  uint64_t offset;  ///< In the remote buffer.
  uint64_t length;
  const Region* region;        ///< One-sided: that of local, and
  const RemoteBuffer* remote;  ///< the peer's buffer. Both stay until the task has ended.
  uint32_t buffer;             ///< The peer's BufferId.
  LaneId lane;
  uint16_t lane_generation;
  uint16_t phase;  ///< Index in PortRings::phase.
  SubmitOp op;
  uint8_t pad[3];
};
static_assert(sizeof(Submission) == 64);

/// The tasks of a batch on one lane, that are to end early.
struct Cancel {
  uint64_t ref, ref_mask;  ///< Of the tasks: those whose ref is this one under the mask.
  LaneId lane;
  uint16_t lane_generation;
  uint8_t pad[10];
};
static_assert(sizeof(Cancel) == 32);

enum class TaskEnd : uint8_t { kDone, kFailed, kCancelled };

struct TaskDone {
  uint64_t ref;
  uint32_t waited_us;  ///< How long the task waited for credit.
  TaskEnd end;
  Code code;
  uint16_t pad;
};
static_assert(sizeof(TaskDone) == 16);

/// A notification to send: the text lies in the port's notify_text at index * notify_bytes.
struct NotifyOut {
  uint64_t ref;
  PeerId peer;
  uint16_t peer_generation;
  uint16_t name_bytes;
  uint16_t message_bytes;
  uint32_t index;
  uint32_t pad[3];
};
static_assert(sizeof(NotifyOut) == 32);

class PortRings {
 public:
  static constexpr uint32_t kNotifies = 32, kCancels = 64;

  /// @p ring: entries per submission ring; rounded up to a power of two. @p notify_bytes: room for one notify's name
  /// and message.
  Status open(uint32_t workers, uint32_t ring, uint32_t notify_bytes) {
    ring = std::bit_ceil(ring);
    tasks_ = ring / 2;
    notify_bytes_ = notify_bytes;
    submissions_ = std::vector<Mailbox<Submission>>(workers);
    completions_ = std::vector<Mailbox<TaskDone>>(workers);
    cancels_ = std::vector<Mailbox<Cancel>>(workers);
    for (uint32_t w = 0; w < workers; ++w) {
      if (Status status = submissions_[w].open(ring); !status.ok()) return status;
      if (Status status = completions_[w].open(ring); !status.ok()) return status;
      if (Status status = cancels_[w].open(kCancels); !status.ok()) return status;
    }
    if (Status status = notifies_.open(kNotifies * 2); !status.ok()) return status;
    if (Status status = notify_results_.open(kNotifies * 2); !status.ok()) return status;
    phase_ = std::make_unique<std::atomic<uint8_t>[]>(tasks_);
    cancelled_ = std::make_unique<std::atomic<uint8_t>[]>(tasks_);
    notify_text_ = std::make_unique<char[]>(size_t{kNotifies} * notify_bytes);
    return Code::kOk;
  }

  uint32_t workers() const noexcept { return static_cast<uint32_t>(submissions_.size()); }
  /// The most tasks a port may have with workers at a time; also the number of phases.
  uint32_t max_open() const noexcept { return tasks_; }
  uint32_t notify_bytes() const noexcept { return notify_bytes_; }
  Mailbox<Submission>& submissions(WorkerId w) noexcept { return submissions_[raw(w)]; }
  Mailbox<TaskDone>& completions(WorkerId w) noexcept { return completions_[raw(w)]; }
  Mailbox<Cancel>& cancels(WorkerId w) noexcept { return cancels_[raw(w)]; }
  Mailbox<NotifyOut>& notifies() noexcept { return notifies_; }
  Mailbox<TaskDone>& notify_results() noexcept { return notify_results_; }
  char* notify_text(uint32_t index) noexcept { return notify_text_.get() + size_t{index} * notify_bytes_; }
  void set_waiting(uint16_t phase, bool waiting) noexcept {
    phase_[phase].store(waiting ? 1 : 0, std::memory_order_relaxed);
  }
  /// Ordered by the rings: set before the cancel, or the submission, is put.
  void set_cancelled(uint16_t phase, bool cancelled) noexcept {
    cancelled_[phase].store(cancelled ? 1 : 0, std::memory_order_relaxed);
  }
  bool cancelled(uint16_t phase) const noexcept { return cancelled_[phase].load(std::memory_order_relaxed) != 0; }
  bool waiting(uint16_t phase) const noexcept { return phase_[phase].load(std::memory_order_relaxed) != 0; }

 private:
  uint32_t tasks_ = 0, notify_bytes_ = 0;
  std::vector<Mailbox<Submission>> submissions_;
  std::vector<Mailbox<TaskDone>> completions_;
  std::vector<Mailbox<Cancel>> cancels_;
  Mailbox<NotifyOut> notifies_;
  Mailbox<TaskDone> notify_results_;
  std::unique_ptr<std::atomic<uint8_t>[]> phase_, cancelled_;
  std::unique_ptr<char[]> notify_text_;
};

}  // namespace sluice
