// Ends of paths that fail or are closed: each op comes home once, whatever the device does.
#include <time.h>

#include <algorithm>
#include <utility>

#include "queue.h"

namespace sluice::verbs {
namespace {
constexpr uint64_t kMs = 1'000'000;
// After the last op is home a receive that was being filled may still come.
constexpr uint64_t kSettleNs = 50 * kMs;

uint64_t now_ns() noexcept {
  timespec now{};
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}
}  // namespace

/// Everything of @p number that is not posted ends at once, the rest as the device gives it back.
void VerbsQueue::break_end(uint32_t number, Code code) noexcept {
  End& end = ends_[number];
  if (end.path == PathId{kNone} || end.broken != Code::kOk) return;
  end.broken = code;
  ++counters_.failures;
  if (end.first != nullptr) drop_unrung(end, std::exchange(end.first, nullptr));
  if (!std::exchange(end.listed, true)) failing_.push_back(number);
}

/// The ops of the chain from @p from on were never posted: they are the last of the list.
void VerbsQueue::drop_unrung(End& end, const ibv_send_wr* from) noexcept {
  const auto first = static_cast<uint32_t>(from - work_.data());
  uint32_t kept = kNone;
  uint32_t at = end.head;
  for (; at != kNone && at != first; at = records_[at].next) kept = at;
  (kept == kNone ? end.head : records_[kept].next) = kNone;
  end.tail = kept;
  end.unsignalled = 0;
  while (at != kNone) {
    const uint32_t next = records_[at].next;
    --end.outstanding;
    give(at, end.broken, 0);
    at = next;
  }
}

/// @return whether nothing of @p end can come any more, or it has had its time.
bool VerbsQueue::settled(End& end, uint64_t now) noexcept {
  if (end.deadline_ns == 0) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    (void)host_.api.modify_qp(end.qp, &attr, IBV_QP_STATE);  // it may be there already
    end.deadline_ns = now + host_.flush_ns;
  }
  if (end.outstanding == 0 && end.settle_ns == 0) end.settle_ns = now + kSettleNs;
  return now >= end.deadline_ns || (end.outstanding == 0 && now >= end.settle_ns);
}

/// Destroy the pair; what it held ends.
void VerbsQueue::end_pair(End& end) noexcept {
  if (end.qp != nullptr) (void)host_.api.destroy_qp(std::exchange(end.qp, nullptr));
  counters_.not_flushed += end.outstanding;
  while (end.head != kNone) end_until(end, end.head, end.broken);
  take_back_receives(static_cast<uint32_t>(&end - ends_.data()));
}

/// Receives that the pair alone had go to the others.
void VerbsQueue::take_back_receives(uint32_t number) noexcept {
  if (srq_ != nullptr || ends_[number].receives == 0) return;
  for (uint32_t i = tx_depth_; i < records_.size(); ++i) {
    if (records_[i].state != State::kPosted || records_[i].end != number) continue;
    ++records_[i].generation;  // a completion that still comes is none of ours
    records_[i].end = kNone;
    records_[i].next = std::exchange(stock_, i);
  }
  ends_[number].receives = 0;
  if (!shut_) deal();
}

/// @pre the completion queue was read empty just now: destroying a pair may take its completions away.
void VerbsQueue::settle_ends() noexcept {
  const uint64_t now = now_ns();
  for (size_t i = 0; i < failing_.size();) {
    const uint32_t number = failing_[i];
    End& end = ends_[number];
    if (end.qp != nullptr && settled(end, now)) end_pair(end);
    if (end.qp != nullptr) {
      ++i;
      continue;
    }
    failing_[i] = failing_.back();
    failing_.pop_back();
    end.listed = false;
    if (!end.closing) continue;
    end = End{};
    free_ends_.push_back(number);  // reserved at open
  }
}

Code VerbsQueue::close(PathId path) noexcept {
  if (raw(path) >= paths_.size() || paths_[raw(path)] == kNone) return Code::kNotFound;
  flush();
  const uint32_t number = std::exchange(paths_[raw(path)], kNone);
  End& end = ends_[number];
  offers_[raw(path)] = Offer{};
  if (end.broken == Code::kOk) {
    break_end(number, Code::kCancelled);
    --counters_.failures;
  }
  end.closing = true;
  if (!std::exchange(end.listed, true)) failing_.push_back(number);
  if (end.qp != nullptr && end.deadline_ns == 0) (void)settled(end, now_ns());
  return Code::kOk;
}

/// Take what the device gives back, for as long as it may take.
void VerbsQueue::drain() noexcept {
  const auto under_way = [&] {
    return std::ranges::any_of(ends_, [](const End& end) { return end.qp != nullptr && end.outstanding != 0; });
  };
  const uint64_t until = now_ns() + host_.flush_ns;
  ibv_wc wc{};
  for (int got = 1; got > 0 || (under_way() && now_ns() < until);) {
    got = ibv_poll_cq(cq_, 1, &wc);
    const uint32_t index = got > 0 ? index_of(wc.wr_id) : kNone;
    if (index == kNone) continue;
    if (index < tx_depth_) {
      on_send(index, wc);
    } else {
      give(index, wc.status == IBV_WC_SUCCESS ? Code::kOk : Code::kCancelled, wc.byte_len);
    }
  }
}

void VerbsQueue::shutdown() noexcept {
  if (cq_ == nullptr) return;
  flush();
  shut_ = true;
  for (uint32_t number = 0; number < ends_.size(); ++number) {
    break_end(number, Code::kCancelled);
    if (ends_[number].qp != nullptr && ends_[number].deadline_ns == 0) (void)settled(ends_[number], now_ns());
  }
  drain();
  for (End& end : ends_)
    if (end.qp != nullptr) end_pair(end);
  for (Offer& offer : offers_)
    if (offer.qp != nullptr) (void)host_.api.destroy_qp(std::exchange(offer.qp, nullptr));
  if (srq_ != nullptr) (void)host_.api.destroy_srq(std::exchange(srq_, nullptr));
  (void)host_.api.destroy_cq(std::exchange(cq_, nullptr));
  sweep();
}

/// Receives that no message came for.
void VerbsQueue::sweep() noexcept {
  for (uint32_t i = tx_depth_; i < records_.size(); ++i)
    if (records_[i].state == State::kPosted) give(i, Code::kCancelled, 0);
}

}  // namespace sluice::verbs
