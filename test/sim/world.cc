#include "world.h"

namespace sluice::sim {

void Coverage::add(const Coverage& other) {
  for (size_t f = 0; f < kFaults; ++f) faults[f] += other.faults[f];
  for (const auto& [name, n] : other.counts) counts[name] += n;
  steps += other.steps;
  seeds += other.seeds;
  virtual_ns += other.virtual_ns;
}

void World::pass(uint64_t ns) {
  uint64_t to = now_ + ns;
  if (!events_.empty() && events_.top().when < to) to = events_.top().when;
  now_ = to;
  while (!events_.empty() && events_.top().when <= now_ && !failed()) {
    const auto what = std::move(const_cast<Event&>(events_.top()).what);
    note(events_.top().number);
    events_.pop();
    what();
  }
}

bool World::hit(Fault fault) noexcept {
  if (!faults_on || !plan.has(fault) || !chance.chance(plan.rate[static_cast<size_t>(fault)])) return false;
  count(fault);
  return true;
}

void World::fail(const std::string& text) {
  if (failed()) return;
  failure_ = text;
  trace("FAIL " + text);
}

void World::trace(const std::string& line) {
  if (!tracing_) return;
  lines_.push_back(std::to_string(now_ / 1000) + "." + std::to_string(now_ % 1000 / 100) + " " + line);
}

}  // namespace sluice::sim
