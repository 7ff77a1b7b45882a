// Receives where the device has no shared ones: each belongs to one pair, so they are dealt out. A pair begins with a
// few and may hold twice as many after each message that it took, as long as there are any; the one that has the fewest
// comes first. A pair that has none makes its peer wait (RNR), which the device repeats.
#include <array>

#include "queue.h"

namespace sluice::verbs {

/// The end that is to get the next receives; kNone when all have what they want.
uint32_t VerbsQueue::neediest() const noexcept {
  uint32_t found = kNone;
  for (const uint32_t number : paths_) {
    if (number == kNone) continue;
    const End& end = ends_[number];
    if (end.broken != Code::kOk || end.receives >= end.receives_wanted) continue;
    if (found == kNone || end.receives < ends_[found].receives) found = number;
  }
  return found;
}

void VerbsQueue::deal() noexcept {
  while (stock_ != kNone) {
    const uint32_t number = neediest();
    if (number == kNone || !post_plain(ends_[number], number)) return;
  }
}

/// Post a few as one chain. @return false when the device took none.
bool VerbsQueue::post_plain(End& end, uint32_t number) noexcept {
  constexpr uint32_t kChain = 4;
  std::array<ibv_recv_wr, kChain> work;
  uint32_t count = 0;
  for (uint32_t at = stock_; at != kNone && count < kChain && end.receives + count < end.receives_wanted; ++count) {
    work[count] = {id_of(at), nullptr, &pieces_[size_t{tx_depth_} + at], 1};
    if (count != 0) work[count - 1].next = &work[count];
    at = records_[at].next;
  }
  ibv_recv_wr* bad = nullptr;
  ++counters_.receive_chains;
  const int err = ibv_post_recv(end.qp, work.data(), &bad);
  const auto posted = err == 0 || bad == nullptr ? count : static_cast<uint32_t>(bad - work.data());
  for (uint32_t i = 0; i < posted; ++i) {
    const uint32_t at = stock_;
    stock_ = records_[at].next;
    records_[at].end = number;
  }
  end.receives += posted;
  return posted != 0;
}

}  // namespace sluice::verbs
