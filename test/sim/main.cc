// sluice-sim: seeds, one after another; a failing one is told with how to replay it, and is made shorter on request.
#include <rte_eal.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "base/log.h"
#include "base/mutant.h"
#include "env/settings.h"
#include "laws.h"
#include "sim.h"
#include "xport/registry.h"

namespace sluice {
// The simulator hands its own driver in.
std::span<const DriverEntry> built_in_drivers() noexcept { return {}; }
}  // namespace sluice

namespace sluice::sim {
namespace {
using enum SettingType;

constexpr Setting kRows[] = {
    {"seeds", kString, "1-100", "Runs", "The first and the last seed, or one", "A-B"},
    {"nodes", kUint, "0", "Runs", "Nodes; 0: the seed decides", "nodes", 0, 8},
    {"minutes", kString, "0", "Runs", "Virtual minutes in which faults come; 0: the seed decides", "M"},
    {"faults", kString, "all", "Runs", "Faults that may come, by name, comma-separated; none", "LIST"},
    {"tasks", kUint, "1000000", "Runs", "The most tasks of a run", "tasks", 0, 1000000},
    {"mutant", kString, "", "Runs", "A deliberate fault to switch on; in a build with -Dmutants=true", "NAME"},
    {"trace", kBool, "false", "Output", "Print what happened in the last seed"},
    {"shrink", kBool, "false", "Output", "Look for a shorter run that fails"},
    {"twice", kBool, "false", "Output", "Run each seed twice: both must be the same, step for step"},
    {"cover", kBool, "false", "Output", "Fail when a transition, frame or fault was never reached"},
    {"keep-going", kBool, "false", "Output", "Go on after a seed that fails"},
};

constexpr std::array<std::string_view, static_cast<size_t>(Mutant::kCount)> kMutants = {"",
                                                                                        "incremental-grants",
                                                                                        "no-request-timer",
                                                                                        "full-rollback",
                                                                                        "no-epoch-check",
                                                                                        "shrink-too-far",
                                                                                        "grants-from-data",
                                                                                        "one-by-one",
                                                                                        "shared-pool",
                                                                                        "release-first",
                                                                                        "grant-first",
                                                                                        "done-at-post",
                                                                                        "notify-first",
                                                                                        "no-generation"};

struct Options {
  uint64_t first = 1, last = 100;
  PlanOptions plan;
  bool trace, shrink, twice, cover, keep_going;
};

uint64_t g_seed = 0;  // for a crash

void on_crash(int signal) {
  std::array<char, 64> text{};
  const int n = std::snprintf(text.data(), text.size(), "seed %" PRIu64 " crashes: signal %d\n", g_seed, signal);
  (void)!::write(2, text.data(), static_cast<size_t>(n));
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

Verdict run_seed(uint64_t seed, const PlanOptions& options, Coverage* coverage, bool trace) {
  g_seed = seed;
  const Plan plan = make_plan(seed, options);
  return Simulation(plan, coverage, trace).run();
}

std::string list_of(uint32_t mask) {
  std::string out;
  for (size_t f = 0; f < kFaults; ++f)
    if ((mask >> f & 1) != 0) out.append(out.empty() ? "" : ",").append(fault_name(static_cast<Fault>(f)));
  return out.empty() ? "none" : out;
}

void tell(uint64_t seed, const PlanOptions& o, const Verdict& v) {
  const Plan plan = make_plan(seed, o);
  std::printf("seed %" PRIu64 " FAILS after %" PRIu64 " steps, %.3f s: %s\n", seed, v.steps,
              static_cast<double>(v.virtual_ns - kSecond) / 1e9, v.failure.c_str());
  std::printf("  %u nodes, faults: %s\n", plan.nodes, list_of(plan.faults).c_str());
  std::printf("  replay: sluice-sim --seeds %" PRIu64 " --nodes %u --minutes %.9f --tasks %u --faults %s --trace\n",
              seed, o.nodes, static_cast<double>(o.fault_ns) / 6e10, std::min(o.tasks, 1000000u),
              list_of(o.only & plan.faults).c_str());
}

// Take away what is not needed to fail: kinds of faults, time, tasks, nodes.
void shrink(uint64_t seed, PlanOptions o) {
  Coverage none;
  Plan plan = make_plan(seed, o);
  o.only = plan.faults;
  o.fault_ns = plan.fault_ns;
  o.tasks = plan.tasks;
  Verdict best = run_seed(seed, o, &none, false);
  if (best.failure.empty()) return;
  const auto attempt = [&](const PlanOptions& tried) {
    const Verdict v = run_seed(seed, tried, &none, false);
    if (v.failure.empty()) return false;
    o = tried;
    best = v;
    return true;
  };
  for (uint32_t nodes = 2; nodes < plan.nodes; ++nodes) {
    PlanOptions tried = o;
    tried.nodes = nodes;
    if (attempt(tried)) break;
  }
  for (size_t f = 0; f < kFaults; ++f) {
    PlanOptions tried = o;
    tried.only &= ~(1u << f);
    if (tried.only != o.only) (void)attempt(tried);
  }
  for (bool shorter = true; shorter;) {
    PlanOptions time = o, tasks = o;
    time.fault_ns = time.fault_ns * 3 / 4;
    tasks.tasks = tasks.tasks * 3 / 4;
    shorter = (o.tasks > 1 && attempt(tasks)) || (o.fault_ns > kMs && attempt(time));
  }
  std::printf("shortest found:\n");
  tell(seed, o, best);
}

bool print_coverage(const Coverage& c, bool must) {
  std::printf("%" PRIu64 " seeds, %" PRIu64 " steps, %.1f virtual seconds\n", c.seeds, c.steps,
              static_cast<double>(c.virtual_ns) / 1e9);
  std::printf("faults:");
  std::string missing;
  for (size_t f = 0; f < kFaults; ++f) {
    const auto name = fault_name(static_cast<Fault>(f));
    std::printf(" %.*s %" PRIu64, static_cast<int>(name.size()), name.data(), c.faults[f]);
    if (c.faults[f] == 0) missing.append(" ").append(name);
  }
  std::printf("\n");
  for (const auto& [name, n] : c.counts) std::printf("  %-34s %" PRIu64 "\n", name.c_str(), n);
  for (const std::string& name : wanted_coverage(c.seeds))
    if (c.counts.count(name) == 0) missing.append(" ").append(name);
  if (missing.empty() || !must) return true;
  std::printf("never reached:%s\n", missing.c_str());
  return false;
}

int run(const Options& o) {
  Coverage coverage;
  uint64_t failed = 0;
  for (uint64_t seed = o.first; seed <= o.last; ++seed) {
    Verdict v = run_seed(seed, o.plan, &coverage, o.trace);
    if (o.twice) {
      Coverage again;
      if (run_seed(seed, o.plan, &again, false).hash != v.hash) v.failure = "two runs of it differ";
    }
    if (o.trace && seed == o.last)
      for (const std::string& line : v.trace) std::printf("%s\n", line.c_str());
    if (v.failure.empty()) continue;
    ++failed;
    tell(seed, o.plan, v);
    if (o.shrink) shrink(seed, o.plan);
    if (!o.keep_going) break;
  }
  const bool covered = print_coverage(coverage, o.cover && failed == 0);
  if (failed != 0) std::printf("%" PRIu64 " seeds failed\n", failed);
  return failed == 0 && covered ? 0 : 1;
}

bool set_mutant(std::string_view name) {
  for (size_t i = 0; i < kMutants.size(); ++i) {
    if (kMutants[i] != name) continue;
#ifdef SLUICE_MUTANTS
    active_mutant = static_cast<Mutant>(i);
    return true;
#else
    return i == 0;
#endif
  }
  return false;
}

bool read_options(const Settings& s, Options* o) {
  const std::string& seeds = s.text("seeds");
  const size_t dash = seeds.find('-');
  const auto number = [](std::string_view text, uint64_t* out) {
    return std::from_chars(text.data(), text.data() + text.size(), *out).ptr == text.data() + text.size();
  };
  if (!number(std::string_view(seeds).substr(0, dash), &o->first)) return false;
  o->last = o->first;
  if (dash != std::string::npos && !number(std::string_view(seeds).substr(dash + 1), &o->last)) return false;
  o->plan.nodes = static_cast<uint32_t>(s.number("nodes"));
  o->plan.tasks = static_cast<uint32_t>(s.number("tasks"));
  o->plan.fault_ns = static_cast<uint64_t>(std::strtod(s.text("minutes").c_str(), nullptr) * 6e10 + 0.5);
  std::string_view bad;
  if (!parse_faults(s.text("faults"), &o->plan.only, &bad)) {
    std::fprintf(stderr, "sluice-sim: no fault is called '%.*s'; known: %s\n", static_cast<int>(bad.size()), bad.data(),
                 list_of((1u << kFaults) - 1).c_str());
    return false;
  }
  if (!set_mutant(s.text("mutant"))) {
    std::fprintf(stderr, "sluice-sim: no mutant is called '%s', or none is built in (-Dmutants=true)\n",
                 s.text("mutant").c_str());
    return false;
  }
  o->trace = s.flag("trace");
  o->shrink = s.flag("shrink");
  o->twice = s.flag("twice");
  o->cover = s.flag("cover");
  o->keep_going = s.flag("keep-going");
  return true;
}

}  // namespace
}  // namespace sluice::sim

int main(int argc, char** argv) {
  using namespace sluice;
  using namespace sluice::sim;
  Settings settings({kRows});
  std::string help;
  const std::vector<std::string> words(argv + 1, argv + argc);
  const Status s =
      settings.parse_command_line("sluice-sim", "Whole nodes in one thread, by seed, under faults.", words, &help);
  if (!help.empty()) return std::puts(help.c_str()) < 0;
  Options options;
  if (!s.ok() || !read_options(settings, &options)) {
    std::fprintf(stderr, "%s\n", s.text().c_str());
    return 2;
  }
  std::array<const char*, 8> args{"sluice-sim",     "--no-huge", "--no-shconf", "--no-pci",
                                  "--no-telemetry", "-m",        "128",         "--log-level=critical"};
  if (rte_eal_init(static_cast<int>(args.size()), const_cast<char**>(args.data())) < 0) return 1;
  set_log_level(LogLevel::kOff);
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE}) ::signal(signal, on_crash);
  const int result = run(options);
  rte_eal_cleanup();
  return result;
}
