// One seed, from boot to rest.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "laws.h"
#include "node.h"
#include "oracle.h"
#include "plan.h"
#include "world.h"

namespace sluice::sim {

struct Verdict {
  std::string failure;  ///< Empty: every law held.
  uint64_t hash = 0, steps = 0, virtual_ns = 0;
  std::vector<std::string> trace;
};

class Simulation {
 public:
  Simulation(const Plan& plan, Coverage* coverage, bool trace);
  Verdict run();

 private:
  void start();
  void step();
  bool run_until(const std::function<bool()>& reached, uint64_t within_ns, uint64_t max_steps);
  void plan_faults();
  void apply(Fault fault);
  void apply_to_node(Fault fault, SimNode& node);
  void break_something(SimNode& node, Fault fault);
  void heal();
  bool all_quiet() const;
  bool all_up() const;
  void fault_phase();
  void settle_phase();
  void probe_phase();
  void rest_phase();
  void end_phase();
  SimNode& any_node() { return *nodes_[world_.chance.below(nodes_.size())]; }

  const Plan& plan_;
  Coverage* const coverage_;
  World world_;
  Wires wires_;
  OobNet net_;
  Oracle oracle_;
  std::vector<std::unique_ptr<SimNode>> nodes_;
  Laws laws_;
  std::array<uint64_t, kFaults> next_{};
  uint64_t steps_ = 0, idle_ = 0, actors_ = 0, last_jump_ = 0;
};

}  // namespace sluice::sim
