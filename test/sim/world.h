// Virtual time: events in order, chance in streams, a trace, and what was covered.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <string>
#include <vector>

#include "plan.h"
#include "rng.h"

namespace sluice::sim {

/// What happened, over many seeds.
struct Coverage {
  std::array<uint64_t, kFaults> faults{};
  std::map<std::string, uint64_t> counts;  ///< Frames, messages, transitions and ends, by name.
  uint64_t steps = 0, seeds = 0, virtual_ns = 0;

  void add(const Coverage& other);
};

class World {
 public:
  World(const Plan& drawn, Coverage* coverage, bool trace)
      : plan(drawn),
        net(drawn.seed, 2),
        chance(drawn.seed, 3),
        turns(drawn.seed, 4),
        app(drawn.seed, 5),
        ids(drawn.seed, 6),
        coverage_(coverage),
        tracing_(trace) {}

  uint64_t now() const noexcept { return now_; }
  void at(uint64_t when, std::function<void()> what) {
    events_.push({when < now_ ? now_ : when, next_event_++, std::move(what)});
  }
  void after(uint64_t ns, std::function<void()> what) { at(now_ + ns, std::move(what)); }
  /// Go on by at most @p ns, to the next event if that is nearer, and let what is due happen.
  void pass(uint64_t ns);

  /// An opportunity for @p fault: whether it comes now. Counts it.
  bool hit(Fault fault) noexcept;
  void count(Fault fault) noexcept { ++coverage_->faults[static_cast<size_t>(fault)]; }
  void count(const std::string& what) { ++coverage_->counts[what]; }
  bool faults_on = true;
  bool rare = false;  ///< A state was entered that is left soon: a good moment for a death.

  /// A law is broken: the first one is kept.
  void fail(const std::string& text);
  bool failed() const noexcept { return !failure_.empty(); }
  const std::string& failure() const noexcept { return failure_; }

  bool tracing() const noexcept { return tracing_; }
  /// Into the trace, if there is one. The hash goes over what note() is given, traced or not.
  void trace(const std::string& line);
  void note(uint64_t value) noexcept { hash_ = mix(hash_ ^ value); }
  uint64_t hash() const noexcept { return hash_; }
  const std::vector<std::string>& lines() const noexcept { return lines_; }

  const Plan& plan;
  Rng net, chance, turns, app, ids;

 private:
  struct Event {
    uint64_t when, number;
    std::function<void()> what;
    bool operator>(const Event& o) const noexcept { return when != o.when ? when > o.when : number > o.number; }
  };
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t now_ = 1 * kSecond, next_event_ = 0, hash_ = 0;
  std::string failure_;
  Coverage* coverage_;
  bool tracing_;
  std::vector<std::string> lines_;
};

}  // namespace sluice::sim
