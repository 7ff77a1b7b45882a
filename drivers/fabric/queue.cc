// The hot half of the queue: post, refill, poll. The slow half is queue_open.cc.
#include "queue.h"

#include <sys/uio.h>

#include <algorithm>

#include "errors.h"

namespace sluice::fabric {

uint32_t FabricQueue::take(uint32_t* free_list) noexcept {
  const uint32_t index = *free_list;
  if (index != kNone) *free_list = records_[index].next;
  return index;
}

void FabricQueue::untake(uint32_t* free_list, uint32_t index) noexcept {
  Record& record = records_[index];
  record.state = State::kFree;
  record.next = *free_list;
  *free_list = index;
  ++record.generation;
}

void* FabricQueue::context_of(uint32_t index) noexcept {
  if (!contexts_.empty()) return &contexts_[index];
  return reinterpret_cast<void*>(static_cast<uintptr_t>(records_[index].generation) << 32 | index);
}

/// @return kNone for a context that is no outstanding record's: an entry without context (remote writes with data give
/// those), one told twice, one of an op that was given up.
uint32_t FabricQueue::index_of(const void* context) const noexcept {
  const auto value = reinterpret_cast<uintptr_t>(context);
  uint32_t index = static_cast<uint32_t>(value);
  uint32_t generation = static_cast<uint32_t>(value >> 32);
  if (!contexts_.empty()) {
    const uintptr_t offset = value - reinterpret_cast<uintptr_t>(contexts_.data());
    if (offset >= contexts_.size() * sizeof(fi_context2)) return kNone;
    index = static_cast<uint32_t>(offset / sizeof(fi_context2));
    generation = records_[index].generation;
  }
  if (index >= records_.size() || records_[index].generation != generation) return kNone;
  return index;
}

int64_t FabricQueue::post_one(const Op& op, const Route& route, void* context) noexcept {
  auto* desc0 = reinterpret_cast<void*>(op.desc0);
  if (op.kind == OpKind::kSend && op.bytes1 == 0) [[likely]]
    return fi_send(ep_.get(), op.addr0, op.bytes0, desc0, route.address, context);
  const iovec pieces[2] = {{const_cast<std::byte*>(op.addr0), op.bytes0},
                           {const_cast<std::byte*>(op.addr1), op.bytes1}};
  void* descs[2] = {desc0, reinterpret_cast<void*>(op.desc1)};
  const size_t count = op.bytes1 == 0 ? 1 : 2;
  if (op.kind == OpKind::kSend) return fi_sendv(ep_.get(), pieces, descs, count, route.address, context);
  if (!device_.caps().rma) [[unlikely]]
    return -FI_EINVAL;
  const fi_rma_iov remote{op.remote_addr, uint64_t{op.bytes0} + op.bytes1, op.remote_key};
  const fi_msg_rma message{pieces, descs, count, route.address, &remote, 1, context, 0};
  if (op.kind == OpKind::kRead) return fi_readmsg(ep_.get(), &message, FI_COMPLETION);
  return fi_writemsg(ep_.get(), &message,
                     FI_COMPLETION | (device_.caps().delivery_complete ? FI_DELIVERY_COMPLETE : 0));
}

uint32_t FabricQueue::post(std::span<const Op> ops) noexcept {
  if (!ep_) return 0;
  uint32_t accepted = 0;
  for (const Op& op : ops) {
    const uint32_t index = take(&free_tx_);
    if (index == kNone) break;
    Record& record = records_[index];
    record.cookie = op.cookie;
    record.state = State::kPosted;
    record.route = raw(op.path) < paths_.size() ? paths_[raw(op.path)] : kNone;
    if (record.route == kNone) [[unlikely]] {
      complete_here(index, Code::kPeerDead);
      ++accepted;
      continue;
    }
    Route& route = routes_[record.route];
    const int64_t ret = post_one(op, route, context_of(index));
    if (ret == -FI_EAGAIN) {
      untake(&free_tx_, index);
      break;
    }
    if (ret == 0) [[likely]] {
      ++route.outstanding;
    } else {
      record.route = kNone;
      complete_here(index, code_of_completion(static_cast<int>(ret)));
    }
    ++accepted;
  }
  return accepted;
}

uint32_t FabricQueue::refill(std::span<const RecvBuf> bufs) noexcept {
  if (!ep_) return 0;
  uint32_t accepted = 0;
  for (const RecvBuf& buf : bufs) {
    const uint32_t index = take(&free_rx_);
    if (index == kNone) break;
    Record& record = records_[index];
    record.cookie = buf.cookie;
    record.state = State::kPosted;
    record.route = kNone;
    const int64_t ret =
        fi_recv(ep_.get(), buf.addr, buf.bytes, reinterpret_cast<void*>(buf.desc), FI_ADDR_UNSPEC, context_of(index));
    if (ret == -FI_EAGAIN) {
      untake(&free_rx_, index);
      break;
    }
    if (ret != 0) [[unlikely]]
      complete_here(index, code_of_completion(static_cast<int>(ret)));
    ++accepted;
  }
  return accepted;
}

void FabricQueue::complete_here(uint32_t index, Code code, uint64_t bytes) noexcept {
  Record& record = records_[index];
  record.state = State::kDone;
  record.code = code;
  record.bytes = static_cast<uint32_t>(bytes);
  record.next = kNone;
  (done_tail_ == kNone ? done_head_ : records_[done_tail_].next) = index;
  done_tail_ = index;
}

uint32_t FabricQueue::take_done(std::span<Completion> out) noexcept {
  uint32_t count = 0;
  while (done_head_ != kNone && count < out.size()) {
    const uint32_t index = done_head_;
    done_head_ = records_[index].next;
    if (done_head_ == kNone) done_tail_ = kNone;
    release(index, records_[index].code, records_[index].bytes, &out[count++]);
  }
  return count;
}

/// The op of record @p index is home: tell it and free the record.
void FabricQueue::release(uint32_t index, Code code, uint64_t bytes, Completion* out) noexcept {
  Record& record = records_[index];
  const bool receive = index >= tx_depth_;
  *out = {record.cookie, static_cast<uint32_t>(bytes), receive ? CompletionKind::kRecv : CompletionKind::kOp, code};
  if (record.lost) [[unlikely]] {
    record.state = State::kLost;
  } else {
    untake(receive ? &free_rx_ : &free_tx_, index);
  }
  if (record.route == kNone) return;
  Route& route = routes_[record.route];
  if (--route.outstanding == 0 && route.closing) [[unlikely]]
    drop_route(record.route);
}

/// @return whether @p out was filled.
bool FabricQueue::finish(const void* context, Code code, uint64_t bytes, Completion* out) noexcept {
  const uint32_t index = index_of(context);
  if (index == kNone) [[unlikely]]
    return false;
  if (records_[index].state == State::kPosted) [[likely]] {
    release(index, code, bytes, out);
    return true;
  }
  records_[index].lost = false;  // it came after all
  if (records_[index].state == State::kLost) untake(&free_tx_, index);
  return false;
}

uint32_t FabricQueue::poll(std::span<Completion> out) noexcept {
  uint32_t count = done_head_ != kNone ? take_done(out) : 0;
  if (count == out.size()) return count;
  if (!cq_) [[unlikely]]
    return count + sweep(out.subspan(count));
  fi_cq_msg_entry entries[kMaxBurst];
  const size_t want = std::min<size_t>(kMaxBurst, out.size() - count);
  const int64_t got = fi_cq_read(cq_.get(), entries, want);
  for (int64_t i = 0; i < got; ++i)
    if (finish(entries[i].op_context, Code::kOk, entries[i].len, &out[count])) ++count;
  if (got == -FI_EAVAIL) [[unlikely]]
    count += read_errors(out.subspan(count));
  if (!ep_ && got <= 0) [[unlikely]]
    count += sweep(out.subspan(count));
  return count;
}

uint32_t FabricQueue::read_errors(std::span<Completion> out) noexcept {
  uint32_t count = 0;
  while (count < out.size()) {
    fi_cq_err_entry error{};  // err_data_size 0: the provider's own words are not asked for
    if (fi_cq_readerr(cq_.get(), &error, 0) != 1) break;
    Code code = code_of_completion(error.err);
    if (code == Code::kOk) code = Code::kDeviceError;  // an error entry without an error
    if (finish(error.op_context, code, 0, &out[count])) ++count;
  }
  return count;
}

/// After shutdown and with the completion queue read empty: what is still outstanding ends here.
uint32_t FabricQueue::sweep(std::span<Completion> out) noexcept {
  uint32_t count = 0;
  for (; swept_ < records_.size() && count < out.size(); ++swept_)
    if (records_[swept_].state == State::kPosted) release(swept_, Code::kCancelled, 0, &out[count++]);
  return count;
}

}  // namespace sluice::fabric
