#include <cstring>
#include <string>

#include "base/bytes.h"
#include "measure.h"
#include "wire.h"

namespace sluice::bench {
namespace {
constexpr uint64_t kAlign = 4096;

// Memory of the generators at both ends, and the checks of both sides.
class TransferWork final : public Work {
 public:
  TransferWork(const Setup& setup, Source& source, Source::Generators generators, uint64_t block,
               const BatchShape& shape)
      : source_(source), generators_(generators), op_(setup.options.op), block_(block), shape_(shape) {
    order_.generators = generators.size();
    order_.ranges = shape.depth;
    order_.range_bytes = shape.range_bytes != 0 ? shape.range_bytes : block * shape.batch;
    order_.area_bytes = order_.range_bytes * shape.depth;
    order_.writes = op_ != Op::kRead ? 1 : 0;
    order_.reads = op_ != Op::kWrite ? 1 : 0;
    stride_ = round_up(order_.area_bytes, kAlign) + kShiftPad;
    order_.write_at = kDataAt;
    order_.read_at = kDataAt + order_.writes * order_.generators * stride_;
    order_.seed = source.nonce() + block;
  }

  Status prepare() override {
    const uint64_t bytes = (order_.writes + order_.reads) * order_.generators * stride_;
    if (Status s = source_.check_room(bytes); !s.ok()) return s;
    if (Status s = source_.reserve(bytes, &memory_); !s.ok()) return s;
    std::memset(memory_, 0, bytes);
    for (uint32_t g = 0; g < generators_.size(); ++g) {
      if (order_.writes != 0) fill_pattern(source_of(g), order_.area_bytes + kShiftPad, seed_of(order_.seed, g, false));
      std::unique_ptr<Port> port;
      if (Status s = source_.open_port(&port); !s.ok()) return s;
      TransferPlan plan{op_,
                        block_,
                        source_.segment(),
                        source_of(g),
                        sink_of(g),
                        order_.write_at + g * stride_,
                        order_.read_at + g * stride_,
                        &shape_,
                        order_.range_bytes,
                        {source_.nonce(), g, 0}};
      of(g).set_up(plan, std::move(port));
    }
    Outcome outcome;
    return source_.ask(order_, OrderKind::kPrepare, &outcome);
  }

  Status verify(std::string* wrong) override {
    for (uint32_t g = 0; g < generators_.size() && wrong->empty() && order_.reads != 0; ++g)
      for (uint32_t i = 0; i < shape_.depth && wrong->empty(); ++i) check_read(g, i, wrong);
    if (wrong->empty() && shape_.notify)
      if (Status s = check_notifies(wrong); !s.ok()) return s;
    if (!wrong->empty() || order_.writes == 0) return Code::kOk;
    for (uint32_t g = 0; g < generators_.size(); ++g)
      for (uint32_t i = 0; i < shape_.depth; ++i) order_.rounds[g * shape_.depth + i] = of(g).write_round(i);
    Outcome outcome;
    if (Status s = source_.ask(order_, OrderKind::kCheck, &outcome); !s.ok()) return s;
    if (outcome.bad_at != kNoBadByte) say(wrong, "writes, at the target", outcome.bad_generator, outcome.bad_at);
    return Code::kOk;
  }

 private:
  TransferGenerator& of(uint32_t g) { return static_cast<TransferGenerator&>(*generators_[g]); }
  std::byte* source_of(uint32_t g) { return memory_ + g * stride_; }
  std::byte* sink_of(uint32_t g) { return memory_ + (order_.writes * order_.generators + g) * stride_; }

  // Requests end in any order, and so do their notifies: each must be there, once.
  Status check_notifies(std::string* wrong) {
    uint64_t sent = 0;
    for (uint32_t g = 0; g < generators_.size(); ++g) sent += of(g).notified();
    constexpr int kAsks = 100;
    Outcome outcome{};
    for (int i = 0; i < kAsks && (i == 0 || outcome.received < sent); ++i)
      if (Status s = source_.ask(Order{}, OrderKind::kCounted, &outcome); !s.ok()) return s;
    if (outcome.received != sent || outcome.garbled != 0)
      *wrong = "verification of notifies: " + std::to_string(sent) + " sent, " + std::to_string(outcome.received) +
               " received, of them " + std::to_string(outcome.garbled) + " garbled";
    return Code::kOk;
  }
  void check_read(uint32_t g, uint32_t range, std::string* wrong) {
    const uint64_t round = of(g).read_round(range);
    if (round == 0) return;
    const uint64_t at = range * order_.range_bytes;
    const uint64_t bad =
        check_pattern(sink_of(g) + at, order_.range_bytes, seed_of(order_.seed, g, true), at + shift_of(round));
    if (bad != kNoBadByte) say(wrong, "reads", g, at + bad);
  }
  void say(std::string* wrong, std::string_view what, uint64_t generator, uint64_t at) {
    *wrong = "verification of " + std::string(what) + " found a wrong byte: generator " + std::to_string(generator) +
             ", batch in flight " + std::to_string(at / order_.range_bytes) + ", task " +
             std::to_string(at % order_.range_bytes / block_) + ", byte " + std::to_string(at % block_) + " of " +
             std::to_string(block_);
  }

  Source& source_;
  Source::Generators generators_;
  const Op op_;
  const uint64_t block_;
  const BatchShape& shape_;
  uint64_t stride_ = 0;
  std::byte* memory_ = nullptr;
  Order order_{};
};
}  // namespace

Status measure_transfers(std::string_view mode, const Setup& setup, Source& source, Source::Generators generators,
                         const BatchShape& shape, Report* report) {
  for (const uint64_t block : setup.options.blocks) {
    Run run;
    run.mode = mode;
    run.op = setup.options.op_name;
    run.block = block;
    run.batch = shape.batch;
    run.depth = shape.depth;
    run.note = shape.note;
    TransferWork work(setup, source, generators, block, shape);
    if (Status s = measure(setup, source, generators, work, &run); !s.ok()) return s;
    report->add(run);
    if (run.failed != 0) break;  // the target is gone, or as good as that
  }
  return Code::kOk;
}

}  // namespace sluice::bench
