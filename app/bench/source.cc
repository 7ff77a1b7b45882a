#include "source.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/random.h"
#include "report.h"

namespace sluice::bench {
namespace {
using Clock = std::chrono::steady_clock;
constexpr std::chrono::microseconds kNap{200};
constexpr uint32_t kStopMs = 3000;
constexpr uint32_t kTurnsPerLook = 256;  // turns of the main thread's between two looks at the clock

// A thread of the application's with a port of its own.
void generate(Generator* generator, const std::atomic<bool>* quit) noexcept {
  uint32_t empty = 0;
  while (!generator->idle() && !quit->load(std::memory_order_relaxed)) {
    empty = generator->turn(ticks_now()) != 0 ? 0 : empty + 1;
    if (empty > 64) (void)sched_yield();
  }
}
}  // namespace

void Source::stop() {
  port_.reset();
  for (const auto& generator : generators_) generator->take_port();
  if (engine_ != nullptr) (void)engine_->stop(kStopMs).ok();
  engine_.reset();
}

Status Source::start() {
  RunOptions run;
  run.eal_args = setup_.eal_args;
  run.own_lcores = setup_.turn == nullptr;
  if (setup_.options.threads == 0)
    for (const auto& generator : generators_) run.extra_agents.push_back(generator.get());
  nonce_ = random_u64();
  return Engine::start(setup_.node, run, &engine_);
}

Status Source::connect() {
  if (Status s = engine_->open_segment(setup_.target, kSegmentName, &segment_); !s.ok())
    return gone(s.text(), s.code());
  target_ = setup_.target;
  SegmentInfo info;
  if (Status s = engine_->segment_info(segment_, &info); !s.ok()) return s;
  segment_bytes_ = info.buffer_bytes.empty() ? 0 : info.buffer_bytes[0];
  if (segment_bytes_ <= kDataAt)
    return {Code::kLimit, "segment '" + std::string(kSegmentName) + "' of " + setup_.target +
                              " is too small: " + "it is not a sluice-bench --target's"};
  if (Status s = engine_->allocate_buffer(kDataAt, &records_); !s.ok()) return s;
  return engine_->open_port(&port_);
}

Status Source::reserve(uint64_t bytes, std::byte** out) {
  if (memory_.bytes < bytes) {
    if (memory_.addr != nullptr)
      if (Status s = engine_->unregister_memory(memory_.memory); !s.ok()) return s;
    memory_ = {};
    if (Status s = engine_->allocate_buffer(bytes, &memory_); !s.ok()) return s;
  }
  *out = static_cast<std::byte*>(memory_.addr);
  return Code::kOk;
}

Status Source::check_room(uint64_t bytes) const {
  if (bytes <= segment_bytes_ - kDataAt) return Code::kOk;
  return {Code::kLimit, "the target exports " + size_text(segment_bytes_) + ", and " + std::to_string(bytes + kDataAt) +
                            " bytes are needed: start it with a larger --segment-size, or lower block, batch or depth"};
}

// What moves is looked at, not only the clock: a run by count may take as long as it needs.
Status Source::wait(const std::function<bool()>& done) {
  const auto patience = std::chrono::milliseconds(setup_.node.task_timeout_ms + setup_.node.lease_ms + 5000);
  auto until = Clock::now() + patience;
  uint64_t moved = 0;
  while (!done()) {
    if (setup_.turn == nullptr) {
      std::this_thread::sleep_for(kNap);
    } else {
      for (uint32_t i = 0; i < kTurnsPerLook && !done(); ++i) {
        (void)engine_->progress();
        setup_.turn();
      }
    }
    const NodeStats stats = engine_->stats();
    const uint64_t now = stats.tasks_done + stats.bytes_sent + stats.bytes_received + stats.notifies_sent;
    if (now != moved) until = Clock::now() + patience;
    moved = now;
    if (Clock::now() > until) return gone("nothing moved any more", Code::kTimeout);
  }
  return Code::kOk;
}

Status Source::gone(std::string what, Code code) const {
  if (!target_.empty()) what = "target " + target_ + ": " + what;
  if (setup_.target_ended)
    if (const std::string why = setup_.target_ended(); !why.empty()) what += ": " + why;
  return {code, std::move(what)};
}

// One task of the bench's own, with a notify behind it when @p notify is not empty.
Status Source::transfer(const Request& request, std::string_view notify) {
  BatchHandle batch;
  Code code = port_->allocate_batch(1, &batch);
  if (code == Code::kOk) code = port_->submit(batch, {&request, 1});
  if (code == Code::kOk && !notify.empty()) code = port_->attach_notify(batch, segment_, notify, "");
  if (code != Code::kOk) return gone("the target cannot be asked (" + std::string(code_name(code)) + ")", code);
  BatchStatus status;
  Status waited = wait([&] {
    (void)port_->poll();
    return port_->status(batch, &status) != Code::kOk || status.final;
  });
  if (!waited.ok()) return waited;
  TaskStatus task;
  (void)port_->status(batch, 0, &task);
  (void)port_->release(batch);
  if (status.ok()) return Code::kOk;
  code = task.code == Code::kOk ? Code::kPeerRefused : task.code;
  return gone("the target cannot be asked (" + std::string(code_name(code)) + ")", code);
}

Status Source::ask(Order order, OrderKind kind, Outcome* outcome) {
  order.kind = kind;
  order.nonce = nonce_;
  order.number = ++orders_;
  auto* records = static_cast<std::byte*>(records_.addr);
  std::memcpy(records + kOrderAt, &order, sizeof order);
  const uint64_t used = sizeof order - (kMaxRanges - order.generators * order.ranges) * sizeof order.rounds[0];
  const Request write{TransferOp::kWrite, 0, records + kOrderAt, segment_, kOrderAt, used};
  if (Status s = transfer(write, kOrderNotify); !s.ok()) return s;
  const Request read{TransferOp::kRead, 0, records + kOutcomeAt, segment_, kOutcomeAt, sizeof *outcome};
  const auto until = Clock::now() + std::chrono::milliseconds(setup_.node.task_timeout_ms);
  bool here = false;
  while (true) {
    if (Status s = transfer(read, {}); !s.ok()) return s;
    std::memcpy(outcome, records + kOutcomeAt, sizeof *outcome);
    if (here) break;  // read once more after its number was seen: the rest was written before it
    here = outcome->number == order.number && outcome->nonce == nonce_;
    if (!here && Clock::now() > until)
      return gone("the target does not answer: is another bench using it?", Code::kTimeout);
    if (!here && setup_.turn == nullptr) std::this_thread::sleep_for(kNap);
  }
  if (outcome->refused != 0)
    return {Code::kPeerRefused, "the target refused an order: it is of another version, or its segment too small"};
  return Code::kOk;
}

Status Source::run_slice(const Slice& slice, double* seconds) {
  for (const auto& generator : generators_) generator->run(slice);
  std::atomic<bool> quit{false};
  std::vector<std::thread> threads;
  if (setup_.options.threads != 0)
    for (const auto& generator : generators_) threads.emplace_back(generate, generator.get(), &quit);
  const Status waited = wait([&] { return std::ranges::all_of(generators_, [](const auto& g) { return g->idle(); }); });
  quit = true;
  for (std::thread& thread : threads) thread.join();
  if (!waited.ok()) return waited;
  uint64_t first = UINT64_MAX, last = 0;
  for (const auto& generator : generators_) {
    first = std::min(first, generator->score().first_tick);
    last = std::max(last, generator->score().last_tick);
  }
  *seconds = static_cast<double>(last - first) / ticks_per_ns() / 1e9;
  return Code::kOk;
}

std::string Source::trouble() const {
  for (const auto& generator : generators_) {
    const Score& score = generator->score();
    if (score.failed == 0) continue;
    return gone(std::to_string(score.failed) + " tasks failed (" + std::string(code_name(score.error)) + ")",
                score.error)
        .text();
  }
  return {};
}

}  // namespace sluice::bench
