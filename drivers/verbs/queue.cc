// The hot half of the queue: post, flush, refill, poll.
#include "queue.h"

#include <algorithm>
#include <array>

#include "errors.h"

namespace sluice::verbs {

uint32_t VerbsQueue::take(uint32_t* free_list) noexcept {
  const uint32_t index = *free_list;
  if (index != kNone) *free_list = records_[index].next;
  return index;
}

void VerbsQueue::untake(uint32_t* free_list, uint32_t index) noexcept {
  records_[index].state = State::kFree;
  ++records_[index].generation;
  records_[index].next = *free_list;
  *free_list = index;
}

/// @return kNone for what was given back before.
uint32_t VerbsQueue::index_of(uint64_t id) const noexcept {
  const auto index = static_cast<uint32_t>(id);
  const bool ours = index < records_.size() && records_[index].generation == id >> 32;
  return ours && records_[index].state == State::kPosted ? index : kNone;
}

/// Record @p index has ended: poll() tells it next.
void VerbsQueue::give(uint32_t index, Code code, uint32_t bytes) noexcept {
  Record& record = records_[index];
  record.state = State::kDone;
  record.code = code;
  record.bytes = bytes;
  record.next = kNone;
  (done_tail_ == kNone ? done_head_ : records_[done_tail_].next) = index;
  done_tail_ = index;
}

uint32_t VerbsQueue::take_done(std::span<Completion> out) noexcept {
  uint32_t count = 0;
  for (; done_head_ != kNone && count < out.size(); ++count) {
    const uint32_t index = done_head_;
    const Record& record = records_[index];
    done_head_ = record.next;
    const bool op = index < tx_depth_;
    out[count] = {record.cookie, record.bytes, op ? CompletionKind::kOp : CompletionKind::kRecv, record.code};
    untake(op ? &free_tx_ : &free_rx_, index);
  }
  if (done_head_ == kNone) done_tail_ = kNone;
  return count;
}

/// Why @p op is not posted; kOk when it is.
Code VerbsQueue::judge(const Op& op, const End* end) const noexcept {
  if (end == nullptr) return Code::kPeerDead;
  if (end->broken != Code::kOk) return end->broken;
  const uint64_t bytes = uint64_t{op.bytes0} + op.bytes1;
  if (op.bytes1 != 0 && host_.caps.sge < 2) return Code::kBadArgument;
  if (op.kind == OpKind::kSend) return bytes <= end->peer_msg_bytes ? Code::kOk : Code::kBadArgument;
  return host_.caps.rma && bytes <= host_.caps.max_msg_bytes ? Code::kOk : Code::kBadArgument;
}

uint32_t VerbsQueue::post(std::span<const Op> ops) noexcept {
  if (shut_) return 0;
  uint32_t accepted = 0;
  for (const Op& op : ops) {
    const uint32_t index = take(&free_tx_);
    if (index == kNone) break;
    const uint32_t end = raw(op.path) < paths_.size() ? paths_[raw(op.path)] : kNone;
    records_[index].cookie = op.cookie;
    records_[index].state = State::kPosted;
    records_[index].end = end;
    const Code wrong = judge(op, end == kNone ? nullptr : &ends_[end]);
    if (wrong == Code::kOk) [[likely]] {
      chain(op, index, end);
    } else {
      give(index, wrong, 0);
    }
    ++accepted;
  }
  return accepted;
}

/// Put @p op behind the chain of its end.
void VerbsQueue::chain(const Op& op, uint32_t index, uint32_t end_index) noexcept {
  End& end = ends_[end_index];
  ibv_sge* pieces = &pieces_[2 * size_t{index}];
  pieces[0] = {reinterpret_cast<uintptr_t>(op.addr0), op.bytes0, static_cast<uint32_t>(op.desc0)};
  pieces[1] = {reinterpret_cast<uintptr_t>(op.addr1), op.bytes1, static_cast<uint32_t>(op.desc1)};
  ibv_send_wr& work = work_[index];
  work.wr_id = id_of(index);
  work.next = nullptr;
  work.sg_list = pieces;
  work.num_sge = op.bytes1 != 0 ? 2 : op.bytes0 != 0 ? 1 : 0;
  work.opcode = op.kind == OpKind::kSend    ? IBV_WR_SEND
                : op.kind == OpKind::kWrite ? IBV_WR_RDMA_WRITE
                                            : IBV_WR_RDMA_READ;
  work.send_flags = 0;
  if (op.kind != OpKind::kRead && op.bytes0 + op.bytes1 <= inline_bytes_) work.send_flags = IBV_SEND_INLINE;
  work.wr.rdma.remote_addr = op.remote_addr;
  work.wr.rdma.rkey = static_cast<uint32_t>(op.remote_key);
  if (++end.unsignalled >= signal_every_) {
    work.send_flags |= IBV_SEND_SIGNALED;
    end.unsignalled = 0;
    ++counters_.signalled;
  }
  records_[index].next = kNone;
  (end.tail == kNone ? end.head : records_[end.tail].next) = index;
  end.tail = index;
  ++end.outstanding;
  if (end.first == nullptr) {
    end.first = &work;
    unrung_.push_back(end_index);
  } else {
    end.last->next = &work;
  }
  end.last = &work;
}

void VerbsQueue::flush() noexcept {
  for (const uint32_t end : unrung_)
    if (ends_[end].first != nullptr) ring(ends_[end]);
  unrung_.clear();
}

void VerbsQueue::ring(End& end) noexcept {
  if (end.unsignalled != 0) {
    end.last->send_flags |= IBV_SEND_SIGNALED;
    end.unsignalled = 0;
    ++counters_.signalled;
  }
  ibv_send_wr* bad = nullptr;
  ibv_send_wr* first = end.first;
  end.first = end.last = nullptr;
  ++counters_.doorbells;
  const int err = ibv_post_send(end.qp, first, &bad);
  if (err == 0) [[likely]]
    return;
  const auto index = static_cast<uint32_t>(&end - ends_.data());
  break_end(index, Code::kDeviceError);
  drop_unrung(end, bad != nullptr ? bad : first);
}

uint32_t VerbsQueue::post_shared(std::span<const uint32_t> indices) noexcept {
  std::array<ibv_recv_wr, kMaxBurst> work;
  for (size_t i = 0; i < indices.size(); ++i)
    work[i] = {id_of(indices[i]), &work[i + 1], &pieces_[size_t{tx_depth_} + indices[i]], 1};
  work[indices.size() - 1].next = nullptr;
  ibv_recv_wr* bad = nullptr;
  ++counters_.receive_chains;
  const int err = ibv_post_srq_recv(srq_, work.data(), &bad);
  return err == 0 || bad == nullptr ? static_cast<uint32_t>(indices.size()) : static_cast<uint32_t>(bad - work.data());
}

uint32_t VerbsQueue::refill(std::span<const RecvBuf> bufs) noexcept {
  if (shut_) return 0;
  std::array<uint32_t, kMaxBurst> indices;
  uint32_t count = 0;
  for (const RecvBuf& buf : bufs.first(std::min<size_t>(bufs.size(), kMaxBurst))) {
    const uint32_t index = take(&free_rx_);
    if (index == kNone) break;
    records_[index].cookie = buf.cookie;
    records_[index].state = State::kPosted;
    records_[index].end = kNone;
    pieces_[size_t{tx_depth_} + index] = {reinterpret_cast<uintptr_t>(buf.addr), buf.bytes,
                                          static_cast<uint32_t>(buf.desc)};
    indices[count++] = index;
  }
  if (count == 0) return 0;
  if (srq_ == nullptr) {
    for (uint32_t i = count; i-- > 0; stock_ = indices[i]) records_[indices[i]].next = stock_;
    deal();
    return count;
  }
  const uint32_t accepted = post_shared(std::span(indices).first(count));
  for (uint32_t i = count; i-- > accepted;) untake(&free_rx_, indices[i]);
  return accepted;
}

/// The ops of @p end up to @p index, which has completed with @p code. Those before it asked for no completion: they
/// are done, unless everything was flushed.
void VerbsQueue::end_until(End& end, uint32_t index, Code code) noexcept {
  const Code before = code == Code::kOk || end.broken == Code::kOk ? Code::kOk : end.broken;
  for (uint32_t at = end.head; at != kNone;) {
    const uint32_t next = records_[at].next;
    end.head = next;
    if (next == kNone) end.tail = kNone;
    --end.outstanding;
    give(at, at == index ? code : before, 0);
    if (at == index) return;
    at = next;
  }
}

void VerbsQueue::on_send(uint32_t index, const ibv_wc& wc) noexcept {
  const uint32_t number = records_[index].end;
  End& end = ends_[number];
  if (wc.status == IBV_WC_SUCCESS) [[likely]]
    return end_until(end, index, Code::kOk);
  const Code code = code_of_completion(wc.status);
  const bool flushed = wc.status == IBV_WC_WR_FLUSH_ERR;
  if (!flushed) end_until(end, index, code);
  if (end.broken == Code::kOk) break_end(number, flushed ? Code::kPeerDead : code);
  if (flushed) end_until(end, index, end.broken);
}

/// @return whether @p out was filled.
bool VerbsQueue::on_receive(uint32_t index, const ibv_wc& wc, Completion* out) noexcept {
  Record& record = records_[index];
  if (record.end != kNone) {
    End& end = ends_[record.end];
    --end.receives;
    end.receives_wanted = std::min(2 * end.receives_wanted, rx_depth_);
  }
  if (wc.status != IBV_WC_SUCCESS) [[unlikely]] {
    repost(index);
    return false;
  }
  *out = {record.cookie, wc.byte_len, CompletionKind::kRecv, Code::kOk};
  untake(&free_rx_, index);
  return true;
}

void VerbsQueue::repost(uint32_t index) noexcept {
  records_[index].end = kNone;
  if (srq_ == nullptr) {
    records_[index].next = stock_;
    stock_ = index;
    deal();
  } else if (post_shared({&index, 1}) == 0) {
    give(index, Code::kCancelled, 0);
  }
}

uint32_t VerbsQueue::poll(std::span<Completion> out) noexcept {
  uint32_t count = done_head_ == kNone ? 0 : take_done(out);
  if (count == out.size() || shut_) return count;
  if (host_.gone.load(std::memory_order_relaxed)) [[unlikely]]
    for (uint32_t end = 0; end < ends_.size(); ++end) break_end(end, Code::kDeviceError);
  std::array<ibv_wc, kMaxBurst> completions;
  const int want = static_cast<int>(std::min<size_t>(kMaxBurst, out.size() - count));
  const int got = ibv_poll_cq(cq_, want, completions.data());
  for (int i = 0; i < got; ++i) {
    const ibv_wc& wc = completions[static_cast<size_t>(i)];
    const uint32_t index = index_of(wc.wr_id);
    if (index == kNone) [[unlikely]] {
      ++counters_.stale;
    } else if (index < tx_depth_) {
      on_send(index, wc);
    } else {
      count += on_receive(index, wc, &out[count]) ? 1 : 0;
    }
  }
  if (!failing_.empty() && got < want) [[unlikely]]
    settle_ends();
  return done_head_ == kNone ? count : count + take_done(out.subspan(count));
}

}  // namespace sluice::verbs
