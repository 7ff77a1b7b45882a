// Notifies: rate, and the time until the peer has acknowledged one. The target counts each.
#include <algorithm>
#include <array>
#include <cstring>

#include "measure.h"
#include "modes.h"

namespace sluice::bench {
namespace {
constexpr uint64_t kMaxMessage = 4096;  // the engine's own limit (ctrl-slot-size) may be lower, and says so

class NotifyGenerator final : public Generator {
 public:
  void set_up(const CountedNotify& first, SegmentHandle segment, uint64_t bytes, std::unique_ptr<Port> port,
              uint32_t depth) {
    head_ = first;
    segment_ = segment;
    task_bytes_ = bytes;
    give_port(std::move(port), depth, 1);
  }
  uint64_t sent() const noexcept { return head_.number; }

 private:
  Code start_batch(uint32_t, BatchHandle* batch) noexcept override {
    if (const Code code = port().allocate_batch(1, batch); code != Code::kOk) return code;
    std::memcpy(message_.data(), &head_, sizeof head_);
    fill_pattern(message_.data() + sizeof head_, task_bytes_ - sizeof head_, head_.nonce + head_.number);
    const Code code = port().attach_notify(*batch, segment_, kCountedNotify,
                                           {reinterpret_cast<const char*>(message_.data()), task_bytes_});
    if (code == Code::kOk)
      ++head_.number;
    else
      (void)port().release(*batch);
    return code;
  }
  uint32_t done_of(const BatchStatus& status) const noexcept override {
    return status.notify == NotifyState::kDelivered ? 1 : 0;
  }
  void batch_done(uint32_t) noexcept override {}

  CountedNotify head_{};
  SegmentHandle segment_{};
  std::array<std::byte, kMaxMessage> message_;
};

class NotifyWork final : public Work {
 public:
  NotifyWork(Source& source, Source::Generators generators, uint64_t bytes, uint32_t depth)
      : source_(source), generators_(generators), bytes_(bytes), depth_(depth) {}

  Status prepare() override {
    for (uint32_t g = 0; g < generators_.size(); ++g) {
      std::unique_ptr<Port> port;
      if (Status s = source_.open_port(&port); !s.ok()) return s;
      of(g).set_up({source_.nonce(), g, 0}, source_.segment(), bytes_, std::move(port), depth_);
    }
    return source_.ask(Order{}, OrderKind::kPrepare, &outcome_);
  }
  // An order is a notify too, and comes after those before it of the same port only: so ask until all are there.
  Status verify(std::string* wrong) override {
    uint64_t sent = 0;
    for (uint32_t g = 0; g < generators_.size(); ++g) sent += of(g).sent();
    constexpr int kAsks = 100;
    for (int i = 0; i < kAsks && (i == 0 || outcome_.received < sent); ++i)
      if (Status s = source_.ask(Order{}, OrderKind::kCounted, &outcome_); !s.ok()) return s;
    if (outcome_.received == sent && outcome_.repeated + outcome_.missing + outcome_.garbled == 0) return Code::kOk;
    *wrong = "verification of notifies: " + std::to_string(sent) + " sent, " + std::to_string(outcome_.received) +
             " received, of them " + std::to_string(outcome_.repeated) + " repeated and " +
             std::to_string(outcome_.garbled) + " garbled; " + std::to_string(outcome_.missing) + " missing";
    return Code::kOk;
  }

 private:
  NotifyGenerator& of(uint32_t g) { return static_cast<NotifyGenerator&>(*generators_[g]); }

  Source& source_;
  Source::Generators generators_;
  const uint64_t bytes_;
  const uint32_t depth_;
  Outcome outcome_{};
};
}  // namespace

Status run_notify(const Setup& setup, Report* report) {
  std::vector<std::unique_ptr<Generator>> generators;
  for (uint32_t i = 0; i < generator_count(setup); ++i) generators.push_back(std::make_unique<NotifyGenerator>());
  for (const uint64_t bytes : setup.options.blocks)
    if (bytes < sizeof(CountedNotify) || bytes > kMaxMessage)
      return {Code::kBadArgument, "block = " + size_text(bytes) + ": a notify of this mode has " +
                                      std::to_string(sizeof(CountedNotify)) + " to " + size_text(kMaxMessage) +
                                      " bytes"};
  Source source(setup, generators);
  if (Status s = source.start(); !s.ok()) return s;
  if (Status s = source.connect(); !s.ok()) return s;
  for (const uint64_t bytes : setup.options.blocks) {
    Run run;
    run.mode = "notify";
    run.op = "notify";
    run.block = bytes;
    run.batch = 1;
    run.depth = std::min(setup.options.depth, kMaxNotifies);
    NotifyWork work(source, generators, bytes, run.depth);
    if (Status s = measure(setup, source, generators, work, &run); !s.ok()) return s;
    report->add(run);
    if (run.failed != 0) break;
  }
  return Code::kOk;
}

}  // namespace sluice::bench
