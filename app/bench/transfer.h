/// @file transfer.h
/// The generator of WRITE and READ: each flight has a range of its own at both ends, so none is overwritten unseen.
///
/// Model    Range i holds one batch, task after task or as the batch's shape says. A write takes what it sends from
///          shift_of(round) further on in the local source; a read takes it from there in the target's. Rounds go on
///          from slice to slice.
/// Threads  As generator.h says.
/// Memory   set_up() allocates.
/// Errors   As generator.h says.
#pragma once

#include <string>
#include <vector>

#include "generator.h"
#include "options.h"
#include "pattern.h"
#include "wire.h"

namespace sluice::bench {

/// How a batch lies in its range, and what counts as one operation's time.
struct BatchShape {
  uint32_t batch = 1, depth = 1;
  std::vector<uint64_t> offsets = {};  ///< Of each task in its range; empty: one behind another.
  uint64_t range_bytes = 0;            ///< 0: of all tasks.
  bool whole = false;                  ///< The time of the batch, not of each task.
  bool notify = false;                 ///< One behind each batch; the target counts them.
  std::string note = {};               ///< For people.
};

/// Where a generator's memory lies.
struct TransferPlan {
  Op op = Op::kWrite;
  uint64_t block = 0;
  SegmentHandle segment{};
  std::byte* source = nullptr;  ///< Of writes: area + pad.
  std::byte* sink = nullptr;    ///< Of reads.
  uint64_t remote_sink = 0;     ///< Of writes.
  uint64_t remote_source = 0;   ///< Of reads: area + pad.
  const BatchShape* shape = nullptr;
  uint64_t range_bytes = 0;
  CountedNotify first = {};  ///< Of the notifies.
};

class TransferGenerator final : public Generator {
 public:
  void set_up(const TransferPlan& plan, std::unique_ptr<Port> port) {
    plan_ = plan;
    task_bytes_ = plan.block;
    head_ = plan.first;
    ranges_.assign(plan.shape->depth, {});
    requests_.assign(plan.shape->batch, Request{});
    give_port(std::move(port), plan.shape->depth, plan.shape->batch);
  }
  uint64_t notified() const noexcept { return head_.number; }
  /// The last round that wrote, or read, range @p index; 0: none.
  uint64_t write_round(uint32_t index) const noexcept { return ranges_[index].written; }
  uint64_t read_round(uint32_t index) const noexcept { return ranges_[index].read; }

 private:
  struct Range {
    uint64_t round = 0, written = 0, read = 0;
    bool reads = false;
  };

  Code start_batch(uint32_t index, BatchHandle* batch) noexcept override {
    if (const Code code = port().allocate_batch(batch_tasks(), batch); code != Code::kOk) return code;
    Range& range = ranges_[index];
    range.reads = plan_.op == Op::kRead || (plan_.op == Op::kBoth && (range.round + index) % 2 != 0);
    ++range.round;
    const uint64_t at = index * plan_.range_bytes;
    const uint64_t from = at + shift_of(range.round);
    Request request{range.reads ? TransferOp::kRead : TransferOp::kWrite, 0, nullptr, plan_.segment, 0, plan_.block};
    request.local = range.reads ? plan_.sink + at : plan_.source + from;
    request.offset = range.reads ? plan_.remote_source + from : plan_.remote_sink + at;
    place_requests(request);
    Code code = submit(*batch, requests_);
    if (code == Code::kOk && plan_.shape->notify) code = attach(*batch);
    if (code != Code::kOk) (void)port().release(*batch);
    return code;
  }
  void place_requests(Request request) noexcept {
    const std::vector<uint64_t>& offsets = plan_.shape->offsets;
    auto* const local = static_cast<std::byte*>(request.local);
    const uint64_t remote = request.offset;
    for (size_t i = 0; i < requests_.size(); ++i) {
      const uint64_t offset = offsets.empty() ? i * plan_.block : offsets[i];
      request.local = local + offset;
      request.offset = remote + offset;
      requests_[i] = request;
    }
  }
  Code attach(BatchHandle batch) noexcept {
    const std::string_view message(reinterpret_cast<const char*>(&head_), sizeof head_);
    const Code code = port().attach_notify(batch, plan_.segment, kCountedNotify, message);
    if (code == Code::kOk) ++head_.number;
    return code;
  }
  uint32_t done_of(const BatchStatus& status) const noexcept override {
    if (!plan_.shape->whole) return status.done;
    return status.final && status.ok() ? status.done : 0;
  }
  void batch_done(uint32_t index) noexcept override {
    Range& range = ranges_[index];
    (range.reads ? range.read : range.written) = range.round;
  }

  TransferPlan plan_;
  CountedNotify head_ = {};
  std::vector<Range> ranges_;
  std::vector<Request> requests_;
};

}  // namespace sluice::bench
