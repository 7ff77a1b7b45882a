#include "proto/rx_track.h"

namespace sluice {

void SeqWindow::reset(uint32_t first) noexcept {
  bits_.fill(0);
  base_ = first;
}

Code SeqWindow::take_ahead(uint32_t seq) noexcept {
  const uint32_t ahead = seq - base_;  // modulo 2^32, as the numbers are
  if (ahead >= uint32_t{1} << 31) return Code::kExists;
  if (ahead >= kSpan) return Code::kBadFrame;
  if (has(seq)) return Code::kExists;
  bits_[seq / 64 % bits_.size()] |= uint64_t{1} << (seq % 64);
  return Code::kOk;
}

Code RxTasks::add(TaskId task, uint64_t total, uint64_t bytes, uint64_t* done) noexcept {
  if (bytes == 0 || bytes > total) return Code::kBadFrame;
  const uint32_t i = find(task);
  if (i == count_) {
    if (bytes == total) {
      *done = total;
      return Code::kOk;
    }
    if (count_ == kMaxTasks) return Code::kBadFrame;
    tasks_[i] = task;
    entries_[i] = {total, bytes, total, false};
    ++count_;
    *done = 0;
    return Code::kOk;
  }
  Entry& entry = entries_[i];
  const bool total_known = entry.total != 0;
  if (total_known ? total != entry.total : total < entry.end) return Code::kBadFrame;
  if (bytes > entry.end - entry.bytes) return Code::kBadFrame;
  entry.total = total;
  entry.bytes += bytes;
  *done = entry.bytes == entry.end ? entry.end : 0;
  if (*done != 0) erase(i);
  return Code::kOk;
}

Code RxTasks::abort(TaskId task, uint64_t sent, uint64_t* done) noexcept {
  if (sent == 0) return Code::kBadFrame;
  const uint32_t i = find(task);
  if (i == count_) {
    if (count_ == kMaxTasks) return Code::kBadFrame;
    tasks_[i] = task;
    entries_[i] = {0, 0, sent, true};
    ++count_;
    *done = 0;
    return Code::kOk;
  }
  Entry& entry = entries_[i];
  if (entry.aborted || sent < entry.bytes || sent > entry.total) return Code::kBadFrame;
  entry.end = sent;
  entry.aborted = true;
  *done = entry.bytes == sent ? sent : 0;
  if (*done != 0) erase(i);
  return Code::kOk;
}

void RxTasks::erase(uint32_t i) noexcept {
  --count_;
  tasks_[i] = tasks_[count_];
  entries_[i] = entries_[count_];
}

}  // namespace sluice
