/// @file rx_track.h
/// What a receiver remembers of the messages of one lane: which it has, and how far each task has come.
///
/// Model    SeqWindow knows the last kSpan message numbers and answers whether one is new (law 10: a chunk that is
///          here already is dropped). RxTasks counts the bytes of tasks that come in several messages; a task that
///          fits one message never enters it. A sender keeps at most kMaxTasks tasks partly sent.
/// Threads  The lane's worker.
/// Memory   Fixed size; no heap.
/// Errors   A number far outside the window, or one task too many, is the peer's fault: kBadFrame.
#pragma once

#include <array>
#include <cstdint>

#include "base/ids.h"
#include "base/status.h"

namespace sluice {

class SeqWindow {
 public:
  static constexpr uint32_t kSpan = 4096;  ///< More than the largest window in slots that is granted.

  /// Forget everything; @p first is the next number expected.
  void reset(uint32_t first = 1) noexcept;
  /// Mark @p seq as received. @return kOk when it is new, kExists when it was here before or is older than the
  /// window, kBadFrame when it is kSpan or more ahead of the oldest missing number.
  Code take(uint32_t seq) noexcept {
    if (seq != base_) [[unlikely]]
      return take_ahead(seq);
    for (++base_; has(base_); ++base_) clear(base_);
    return Code::kOk;
  }

 private:
  Code take_ahead(uint32_t seq) noexcept;
  bool has(uint32_t seq) const noexcept { return (bits_[seq / 64 % bits_.size()] >> (seq % 64) & 1) != 0; }
  void clear(uint32_t seq) noexcept { bits_[seq / 64 % bits_.size()] &= ~(uint64_t{1} << (seq % 64)); }

  std::array<uint64_t, kSpan / 64> bits_{};  // those received beyond base_
  uint32_t base_ = 1;                        // the lowest number not received
};

class RxTasks {
 public:
  static constexpr uint32_t kMaxTasks = 64;

  void reset() noexcept { count_ = 0; }
  /// @p bytes more of @p task arrived, which has @p total. *done: 0, or all that will come is here (the entry
  /// is gone): that many bytes, which is less than total for a task that was given up.
  /// @return kOk; kBadFrame: more bytes than its total, another total than before, or too many open tasks.
  Code add(TaskId task, uint64_t total, uint64_t bytes, uint64_t* done) noexcept;
  /// The sender gave @p task up after @p sent bytes, less than all. *done: @p sent when they are all here (the entry is
  /// gone); else 0, and the entry waits for the rest. An unknown task opens an entry. @return kOk, kBadFrame as add,
  /// and for nothing sent, a task that was given up before, or more bytes here than were sent.
  Code abort(TaskId task, uint64_t sent, uint64_t* done) noexcept;
  uint32_t open_tasks() const noexcept { return count_; }

 private:
  struct Entry {
    uint64_t total;  // as the messages say; 0: only the ABORT came yet
    uint64_t bytes;  // here
    uint64_t end;    // complete with so many: total, or what the ABORT says was sent
    bool aborted;
  };
  uint32_t find(TaskId task) const noexcept {
    uint32_t i = 0;
    while (i < count_ && tasks_[i] != task) ++i;
    return i;
  }
  void erase(uint32_t i) noexcept;

  std::array<TaskId, kMaxTasks> tasks_{};  // apart from the entries, so that a search stays in a few cache lines
  std::array<Entry, kMaxTasks> entries_{};
  uint32_t count_ = 0;
};

}  // namespace sluice
