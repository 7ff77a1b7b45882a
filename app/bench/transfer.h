/// @file transfer.h
/// The generator of WRITE and READ: each flight has a range of its own at both ends, so none is overwritten unseen.
///
/// Model    Range i holds one batch, task after task. A write takes what it sends from shift_of(round) further on in
///          the local source; a read takes it from there in the target's. Rounds go on from slice to slice.
/// Threads  As generator.h says.
/// Memory   set_up() allocates.
/// Errors   As generator.h says.
#pragma once

#include <vector>

#include "generator.h"
#include "options.h"
#include "pattern.h"

namespace sluice::bench {

/// Where a generator's memory lies.
struct TransferPlan {
  Op op = Op::kWrite;
  uint64_t block = 0;
  SegmentHandle segment{};
  std::byte* source = nullptr;  ///< Of writes: area + pad.
  std::byte* sink = nullptr;    ///< Of reads.
  uint64_t remote_sink = 0;     ///< Of writes.
  uint64_t remote_source = 0;   ///< Of reads: area + pad.
};

class TransferGenerator final : public Generator {
 public:
  void set_up(const TransferPlan& plan, std::unique_ptr<Port> port, uint32_t depth, uint32_t batch) {
    plan_ = plan;
    task_bytes_ = plan.block;
    range_bytes_ = plan.block * batch;
    ranges_.assign(depth, {});
    requests_.assign(batch, Request{});
    give_port(std::move(port), depth, batch);
  }
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
    const uint64_t at = index * range_bytes_;
    const uint64_t from = at + shift_of(range.round);
    Request request{range.reads ? TransferOp::kRead : TransferOp::kWrite, 0, nullptr, plan_.segment, 0, plan_.block};
    request.local = range.reads ? plan_.sink + at : plan_.source + from;
    request.offset = range.reads ? plan_.remote_source + from : plan_.remote_sink + at;
    for (Request& r : requests_) {
      r = request;
      request.local = static_cast<std::byte*>(request.local) + plan_.block;
      request.offset += plan_.block;
    }
    const Code code = port().submit(*batch, requests_);
    if (code != Code::kOk) (void)port().release(*batch);
    return code;
  }
  uint32_t done_of(const BatchStatus& status) const noexcept override { return status.done; }
  void batch_done(uint32_t index) noexcept override {
    Range& range = ranges_[index];
    (range.reads ? range.read : range.written) = range.round;
  }

  TransferPlan plan_;
  uint64_t range_bytes_ = 0;
  std::vector<Range> ranges_;
  std::vector<Request> requests_;
};

}  // namespace sluice::bench
