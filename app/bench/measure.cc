#include "measure.h"

#include <algorithm>

namespace sluice::bench {
namespace {
constexpr double kSliceSeconds = 0.5, kWarmSeconds = 0.1;

// Adds up what the slices so far moved; histograms too.
void gather(Source::Generators generators, Run* run) {
  run->ops = run->bytes = run->failed = 0;
  run->latency_ns.reset();
  double submit_ticks = 0, submitted = 0;
  for (const auto& generator : generators) {
    const Score& score = generator->score();
    run->ops += score.tasks;
    run->bytes += score.bytes;
    run->failed += score.failed;
    run->latency_ns.merge(score.latency_ns);
    submit_ticks += static_cast<double>(score.submit_ticks);
    submitted += static_cast<double>(score.submitted);
  }
  run->submit_ns = submitted != 0 ? submit_ticks / submitted / ticks_per_ns() : 0;
}

Slice by_time(double seconds) { return {static_cast<uint64_t>(seconds * 1e9 * ticks_per_ns()), 0}; }

uint64_t moved(Source::Generators generators) {
  uint64_t bytes = 0;
  for (const auto& generator : generators) bytes += generator->score().bytes;
  return bytes;
}

// Timed slices until the window is full, each verified before the next one writes over it.
Status timed(const Setup& setup, Source& source, Source::Generators generators, Work& work, Run* run) {
  const BenchOptions& o = setup.options;
  const uint64_t per_round = uint64_t{run->batch} * generators.size();
  const double window = o.count != 0 ? 0 : o.seconds;
  Progress progress(window);
  do {
    Slice slice = o.count != 0 ? Slice{0, (o.count + per_round - 1) / per_round}
                               : by_time(o.verify ? std::min(kSliceSeconds, window - run->seconds) : window);
    double seconds = 0;
    if (Status s = source.run_slice(slice, &seconds); !s.ok()) return s;
    run->seconds += seconds;
    run->trouble = source.trouble();
    if (!run->trouble.empty()) break;
    progress.show(run->op + " " + size_text(run->block), run->seconds,
                  static_cast<double>(moved(generators)) / run->seconds / 1e9);
    if (!o.verify) continue;
    if (Status s = work.verify(&run->trouble); !s.ok()) return s;
  } while (run->trouble.empty() && run->seconds < window - 0.01);
  return Code::kOk;
}

// Bounce memory grows where messages arrive: for reads here, else at the target, whose peaks begin with kPrepare.
Status read_extents(Source& source, const NodeStats& here, Run* run) {
  run->extents_min = here.extents_min;
  run->extents_max = here.extents_max;
  run->extents_end = here.extents;
  if (run->op == "read" || !run->trouble.empty()) return Code::kOk;
  Outcome outcome;
  if (Status s = source.ask(Order{}, OrderKind::kCounted, &outcome); !s.ok()) return s;
  run->extents_min = outcome.extents_min;
  run->extents_max = outcome.extents_max;
  run->extents_end = outcome.extents;
  return Code::kOk;
}
}  // namespace

Status measure(const Setup& setup, Source& source, Source::Generators generators, Work& work, Run* run) {
  const BenchOptions& o = setup.options;
  run->transport = source.engine().transport();
  run->threads = o.threads;
  run->checked = o.verify;
  if (Status s = work.prepare(); !s.ok()) return s;
  for (const auto& generator : generators) generator->reset();
  double warm = 0;
  const Slice first = o.count != 0 ? Slice{0, run->depth} : by_time(kWarmSeconds);
  if (Status s = source.run_slice(first, &warm); !s.ok()) return s;
  run->trouble = source.trouble();
  if (run->trouble.empty() && o.verify)
    if (Status s = work.verify(&run->trouble); !s.ok()) return s;
  const bool warm_ok = run->trouble.empty();
  source.engine().restart_peaks();
  const NodeStats before = source.engine().stats();
  if (warm_ok) {
    for (const auto& generator : generators) generator->reset();
    if (Status s = timed(setup, source, generators, work, run); !s.ok()) return s;
  }
  gather(generators, run);
  const NodeStats after = source.engine().stats();
  run->waits = after.waits - before.waits;
  run->wait_max_us = after.wait_max_ns / 1000;
  if (Status s = read_extents(source, after, run); !s.ok()) return s;
  run->verified = o.verify && run->trouble.empty() && run->failed == 0;
  return Code::kOk;
}

}  // namespace sluice::bench
