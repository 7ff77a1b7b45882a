#include "sim.h"

#include <algorithm>

#include "app.h"

namespace sluice::sim {
namespace {
constexpr uint64_t kMostSteps = 120'000;  // of a phase in which faults come
constexpr uint64_t kIdleStep = 50 * kUs, kQuietStep = 200 * kUs;
constexpr uint64_t kProbeTime = 4 * kSecond, kRestTime = 3 * kSecond;
// Those that come by time, not with an opportunity.
constexpr Fault kTimed[] = {
    Fault::kPathDeath, Fault::kRailFlap,  Fault::kCleanRestart, Fault::kKill,     Fault::kMute,
    Fault::kSlow,      Fault::kClockJump, Fault::kOobCut,       Fault::kWithdraw, Fault::kSimultaneousOpen};
}  // namespace

Simulation::Simulation(const Plan& plan, Coverage* coverage, bool trace)
    : plan_(plan),
      coverage_(coverage),
      world_(plan, coverage, trace),
      wires_(&world_),
      net_(&world_),
      oracle_(&world_),
      laws_(&world_, &nodes_) {
  oracle_.rx_epoch = [this](uint32_t sender, SessionId session) { return laws_.rx_epoch(sender, session); };
}

Verdict Simulation::run() {
  start();
  if (!world_.failed()) fault_phase();
  heal();
  if (!world_.failed()) settle_phase();
  if (!world_.failed()) probe_phase();
  if (!world_.failed()) rest_phase();
  if (!world_.failed()) end_phase();
  if (world_.failed())
    for (const auto& node : nodes_) laws_.dump(*node);
  Verdict v{world_.failure(), world_.hash(), steps_, world_.now(), world_.lines()};
  coverage_->steps += steps_;
  coverage_->virtual_ns += world_.now() - kSecond;
  ++coverage_->seeds;
  return v;
}

void Simulation::start() {
  tasks_left = plan_.tasks;
  for (uint32_t n = 0; n < plan_.nodes; ++n) {
    nodes_.push_back(std::make_unique<SimNode>(&world_, &wires_, &net_, &oracle_, n));
    actors_ += nodes_.back()->actors();
    nodes_.back()->boot();
    if (world_.failed()) return;
  }
  for (const Fault f : kTimed)
    next_[static_cast<size_t>(f)] = world_.now() + world_.chance.below(plan_.every[static_cast<size_t>(f)]);
  if (plan_.has(Fault::kSimultaneousOpen)) apply(Fault::kSimultaneousOpen);
}

// One turn of one agent, somewhere; then the laws; then time goes on, faster the longer nothing happens.
void Simulation::step() {
  ++steps_;
  if (world_.faults_on) plan_faults();
  SimNode& node = *nodes_[world_.turns.below(nodes_.size())];
  const bool slow = world_.now() < node.slow_until && world_.turns.below(10) != 0;
  uint32_t work = 0;
  if (node.up() && world_.now() >= node.muted_until && !slow && !world_.failed()) {
    const uint64_t which = world_.turns.below(node.actors());
    work = node.turn(which);
    world_.note(world_.now() ^ (which << 8 | node.index()) << 40 ^ work);
    if (!world_.failed()) laws_.check(node);
  }
  idle_ = work != 0 ? 0 : idle_ + 1;
  uint64_t ns = world_.turns.range(50, 800);
  if (idle_ > 3 * actors_) {
    const uint64_t most = world_.faults_on ? kIdleStep : kQuietStep;
    ns = std::min(most, ns << std::min<uint64_t>(20, idle_ / actors_ - 2));
  }
  world_.pass(ns);
}

bool Simulation::run_until(const std::function<bool()>& reached, uint64_t within_ns, uint64_t max_steps) {
  const uint64_t until = world_.now() + within_ns, last = steps_ + max_steps;
  while (!world_.failed()) {
    if (steps_ % 32 == 0 && reached()) return true;
    if (world_.now() >= until || steps_ >= last) return reached();
    step();
  }
  return false;
}

// ---- faults that come by time

void Simulation::plan_faults() {
  if (std::exchange(world_.rare, false) && plan_.has(Fault::kKill) && world_.chance.below(4) == 0) apply(Fault::kKill);
  for (const Fault f : kTimed) {
    uint64_t& next = next_[static_cast<size_t>(f)];
    if (!plan_.has(f) || world_.now() < next) continue;
    next = world_.now() + world_.chance.range(1, 2 * plan_.every[static_cast<size_t>(f)]);
    apply(f);
  }
}

void Simulation::apply(Fault fault) {
  if (fault == Fault::kSimultaneousOpen) {
    world_.count(fault);
    for (const auto& node : nodes_)
      if (node->up() && !node->stopping()) node->life().app->open_all(plan_.nodes);
  } else if (fault == Fault::kOobCut) {
    world_.count(fault);
    const SimNode &a = any_node(), &b = any_node();
    net_.cut(a.port(), b.port(), world_.now() + world_.chance.wide(1 * kMs, 300 * kMs));
    world_.trace("oob between " + std::to_string(a.index()) + " and " + std::to_string(b.index()) + " is cut");
  } else if (SimNode& node = any_node(); node.up() && !node.stopping() && world_.now() >= node.muted_until) {
    apply_to_node(fault, node);
  }
}

void Simulation::apply_to_node(Fault fault, SimNode& node) {
  const uint64_t lease = plan_.settings[node.index()].lease_ms * kMs;
  if (fault == Fault::kClockJump && world_.now() - last_jump_ < 3 * lease) return;
  world_.count(fault);
  world_.trace(std::string(fault_name(fault)) + " at node " + std::to_string(node.index()));
  switch (fault) {
    case Fault::kPathDeath:
    case Fault::kRailFlap: break_something(node, fault); break;
    case Fault::kCleanRestart: node.begin_stop(world_.chance.wide(1, 50 * kMs)); break;
    case Fault::kKill: node.kill(world_.chance.wide(1, 50 * kMs)); break;
    case Fault::kMute: node.muted_until = world_.now() + world_.chance.wide(100 * kUs, 3 * lease); break;
    case Fault::kSlow: node.slow_until = world_.now() + world_.chance.wide(100 * kUs, 100 * kMs); break;
    case Fault::kClockJump:  // by less than the margin that leases leave
      last_jump_ = world_.now();
      node.jump(world_.chance.below(node.settings().heartbeat_ms * kMs / 2));
      break;
    case Fault::kWithdraw: node.life().app->withdraw(); break;
    default: break;
  }
}

void Simulation::break_something(SimNode& node, Fault fault) {
  SimQueue& queue = *node.life().queues[world_.chance.below(node.life().queues.size())];
  const uint64_t until = world_.now() + world_.chance.wide(10 * kUs, 200 * kMs);
  if (fault == Fault::kRailFlap)
    queue.break_all(until);
  else
    queue.break_path(world_.chance.below(plan_.nodes), until);
}

void Simulation::heal() {
  world_.faults_on = false;
  net_.heal();
  for (const auto& node : nodes_) {
    node->muted_until = node->slow_until = 0;
    if (!node->up()) continue;
    for (SimQueue* queue : node->life().queues) queue->heal();
  }
}

// ---- the phases

bool Simulation::all_up() const {
  return std::all_of(nodes_.begin(), nodes_.end(), [](const auto& n) { return n->up() && !n->stopping(); });
}

bool Simulation::all_quiet() const {
  return all_up() && std::all_of(nodes_.begin(), nodes_.end(), [](const auto& n) { return n->life().app->quiet(); });
}

void Simulation::fault_phase() {
  (void)run_until([] { return false; }, plan_.fault_ns, kMostSteps);
}

// Every task has its final status within a bound.
void Simulation::settle_phase() {
  world_.trace("faults end");
  tasks_left = 0;
  uint64_t bound = 2 * kSecond;
  for (const NodeSettings& s : plan_.settings)
    bound = std::max<uint64_t>(
        bound, (s.task_timeout_ms + 3ull * s.lease_ms + 2ull * s.connect_timeout_ms) * kMs + 2 * kSecond);
  if (run_until([this] { return all_quiet(); }, bound, 3'000'000) || world_.failed()) return;
  std::string open;
  for (const auto& node : nodes_)
    if (node->up()) open += node->life().app->describe() + "; ";
  world_.fail("law 12: tasks are not final though all faults are over: " + open);
}

// Every node reaches every other, and work ends well.
void Simulation::probe_phase() {
  world_.trace("probes");
  for (const auto& node : nodes_) node->life().app->probe(plan_.nodes);
  const auto done = [this] {
    return std::all_of(nodes_.begin(), nodes_.end(), [](const auto& n) { return n->life().app->probed(); });
  };
  if (run_until(done, kProbeTime, 3'000'000) || world_.failed()) return;
  std::string open;
  for (const auto& node : nodes_) open += node->life().app->describe() + "; ";
  world_.fail("law 7: new work stands still though all faults are over: " + open);
}

void Simulation::rest_phase() {
  world_.trace("rest");
  std::string left;
  const auto rest = [&] {
    left.clear();
    for (const auto& node : nodes_) left += laws_.at_rest(*node);
    return left.empty();
  };
  if (!run_until(rest, kRestTime, 3'000'000) && !world_.failed()) world_.fail("law 6: not home: " + left);
  for (const auto& node : nodes_)
    if (plan_.gentle && node->life().plane->control().stats().violations.load() != 0)
      world_.fail("a session was ended though no fault was that bad");
}

// One node stops, for good; then every byte is where it belongs.
void Simulation::end_phase() {
  nodes_[0]->begin_stop(1'000'000 * kSecond);
  if (!run_until([this] { return !nodes_[0]->up(); }, 2 * kSecond, 3'000'000) && !world_.failed())
    world_.fail("a node does not stop");
  if (!world_.failed()) oracle_.check_all();
}

}  // namespace sluice::sim
