// sluice-bench: see bench_about() in options.cc, or --help.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "child.h"
#include "modes.h"
#include "pattern.h"
#include "program/device_list.h"
#include "program/stop_signal.h"
#include "target.h"

namespace sluice::bench {
namespace {
constexpr int kFailed = 1, kUsage = 2;
constexpr uint32_t kStopMs = 1000;
constexpr long kNapNs = 1'000'000;

int complain(const Status& status, int exit_status) {
  std::fprintf(stderr, "sluice-bench: %s\n", status.text().empty() ? status.describe().c_str() : status.text().c_str());
  return exit_status;
}

// Serve until a signal.
int run_target(const Setup& setup) {
  StopSignal signal;
  signal.hold();
  Target target;
  RunOptions run;
  run.eal_args = setup.eal_args;
  run.extra_agents.push_back(&target);
  std::unique_ptr<Engine> engine;
  if (Status s = Engine::start(setup.node, run, &engine); !s.ok()) return complain(s, kFailed);
  if (Status s = target.open(engine.get(), setup.options.segment_bytes); !s.ok()) return complain(s, kFailed);
  const TransportInfo info = engine->transport();
  std::printf("%s%s transport %s provider %s device %s (%s) segment %s of %s\n", kReadyLine,
              info.listen_address.c_str(), info.transport.c_str(), info.provider.empty() ? "-" : info.provider.c_str(),
              info.device.c_str(), info.device_address.c_str(), std::string(kSegmentName).c_str(),
              size_text(setup.options.segment_bytes).c_str());
  (void)std::fflush(stdout);
  while (!signal.came(kNapNs)) target.serve();
  const Status stopped = engine->stop(kStopMs);
  return stopped.ok() ? 0 : complain(stopped, kFailed);
}

// The allowed CPUs are shared out: the parent's workers first, then the child's; all to both when there are too few.
void part_cpus(const Settings& settings, const Setup& setup, NodeSettings* parent, std::string* child) {
  if (settings.source("cpus") != "default" || !setup.eal_args.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return;
  std::vector<int> allowed;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) allowed.push_back(cpu);
  const uint32_t workers = setup.node.workers;
  if (allowed.size() < 2 * size_t{workers}) return;
  parent->cpus.assign(allowed.begin(), allowed.begin() + workers);
  for (uint32_t i = 0; i < workers; ++i)
    child->append(child->empty() ? "" : ",").append(std::to_string(allowed[workers + i]));
}

// What the child needs at most: both directions of the largest block.
uint64_t segment_need(const BenchOptions& o) {
  uint64_t block = 0;
  for (const uint64_t b : o.blocks) block = std::max(block, b);
  constexpr uint64_t kPage = 4096;
  const uint64_t range = o.kv.range_bytes != 0 ? o.kv.range_bytes : block * o.batch;
  const uint64_t area = (range * o.depth + kPage - 1) / kPage * kPage + kShiftPad;
  return std::max<uint64_t>(1 << 20, kDataAt + 2 * area * std::max(1u, o.threads));
}

// This program's words as the child gets them: EAL's, and each node setting that the command line or a file gave.
std::vector<std::string> child_words(const Settings& settings, const Setup& setup, const std::string& cpus) {
  std::vector<std::string> words{"sluice-bench"};
  words.insert(words.end(), setup.eal_args.begin(), setup.eal_args.end());
  words.push_back("--");
  for (const Setting& row : node_rows()) {
    const std::string name(row.name);
    if (settings.source(name) == "default" || name == "config" || name == "name" || name == "listen") continue;
    std::string value;
    switch (row.type) {
      case SettingType::kBool: value = settings.flag(name) ? "true" : "false"; break;
      case SettingType::kUint:
      case SettingType::kSize: value = std::to_string(settings.number(name)); break;
      case SettingType::kList:
        for (const std::string& item : settings.list(name)) value += (value.empty() ? "" : ",") + item;
        break;
      default: value = settings.text(name);
    }
    words.push_back("--" + name + "=" + value);
  }
  if (!cpus.empty()) words.push_back("--cpus=" + cpus);
  words.insert(words.end(), {"--target", "--listen=127.0.0.1:0"});
  words.push_back("--segment-size=" + std::to_string(setup.options.segment_bytes));
  return words;
}

int run_modes(const Settings& settings, Setup& setup) {
  const Mode* mode = nullptr;
  for (const Mode& m : kModes)
    if (m.name == setup.options.mode) mode = &m;
  if (mode == nullptr) return complain({Code::kInternal, "mode " + setup.options.mode + " has no row"}, kFailed);
  if (mode->block != 0 && setup.options.default_blocks) setup.options.blocks = {mode->block};
  if (mode->batch != 0 && setup.options.default_batch) setup.options.batch = mode->batch;
  Child child;
  if (mode->alone || setup.options.self) setup.options.segment_bytes = segment_need(setup.options);
  if (setup.options.self && !mode->alone) {
    std::string cpus;
    part_cpus(settings, setup, &setup.node, &cpus);
    if (Status s = child.start(child_words(settings, setup, cpus)); !s.ok()) return complain(s, kFailed);
    if (Status s = child.ready(&setup.target); !s.ok()) return complain(s, kFailed);
    setup.target_ended = [&child] { return child.ended(); };
  } else {
    setup.target = setup.options.peer;
  }
  Report report(setup.options.json);
  Status status = mode->run(setup, &report);
  if (!status.ok()) (void)complain(status, kFailed);
  const Status stopped = child.stop();
  if (!stopped.ok() && status.ok() && report.ok()) return complain(stopped, kFailed);
  return status.ok() && report.ok() ? 0 : kFailed;
}

int run(int argc, char** argv) {
  Setup setup;
  std::vector<std::string> own;
  split_words(argc, argv, &setup.eal_args, &own);
  Settings settings({bench_rows(), kv_rows(), node_rows()});
  std::string help;
  Status status = load_node_settings("sluice-bench", bench_about(), own, &settings, &setup.node, &help);
  if (status.ok() && !help.empty()) return std::printf("%s", help.c_str()) < 0 ? kFailed : 0;
  if (status.ok()) status = read_bench_options(settings, &setup.options);
  if (!status.ok()) return complain(status, kUsage);
  if (setup.node.name.empty()) setup.node.name = "bench-" + std::to_string(::getpid());
  if (setup.options.list) {
    status = print_devices(setup.node);
    return status.ok() ? 0 : complain(status, kFailed);
  }
  return setup.options.target ? run_target(setup) : run_modes(settings, setup);
}
}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) { return sluice::bench::run(argc, argv); }
