#include "env/eal_args.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace sluice {
namespace {
// Whether the user gave one of these options: "-m", "-m64", "--lcores", "--lcores=...".
bool gave(const std::vector<std::string>& args, std::initializer_list<std::string_view> names) {
  for (const std::string& arg : args) {
    for (std::string_view name : names) {
      if (!arg.starts_with(name)) continue;
      const bool is_long = name.starts_with("--");
      if (!is_long || arg.size() == name.size() || arg[name.size()] == '=') return true;
    }
  }
  return false;
}

std::string plural(uint64_t n, std::string_view what) {
  return std::to_string(n) + " " + std::string(what) + (n == 1 ? "" : "s");
}

// "--lcores=0@(0-1),1@0,2@1": lcore 0 floats and only starts EAL; each worker has a CPU.
Status lcores(const EalOptions& options, const EalFacts& facts, std::string* out) {
  *out = "--lcores=0@(" + format_cpus(facts.allowed_cpus) + ")";
  int lcore = 1;
  for (int cpu : options.worker_cpus) {
    if (!std::ranges::binary_search(facts.allowed_cpus, cpu))
      return {Code::kBadArgument, "cpu " + std::to_string(cpu) + " is not among the CPUs that this process may use (" +
                                      format_cpus(facts.allowed_cpus) + "): choose from these, or widen its affinity"};
    *out += "," + std::to_string(lcore++) + "@" + std::to_string(cpu);
  }
  return Code::kOk;
}

std::string huge_line(const MemInfo& memory, uint64_t bytes) {
  const uint64_t page = memory.hugepage_bytes != 0 ? memory.hugepage_bytes : 2u << 20;
  const uint64_t pages = (bytes + page - 1) / page;
  return plural(pages, "hugepage") + " of " + std::to_string(page >> 10) + " kB needed, " +
         std::to_string(memory.hugepages_free) + " of " + std::to_string(memory.hugepages_total) +
         " free: raise /proc/sys/vm/nr_hugepages by " + std::to_string(pages - std::min(pages, memory.hugepages_free)) +
         ", or run without (hugepages=off)";
}
}  // namespace

Status make_eal_args(const EalOptions& options, const EalFacts& facts, EalArgs* out) {
  const auto& user = options.user_args;
  const MemInfo& memory = facts.memory;
  EalArgs made;
  auto& list = made.list;
  const bool user_memory = gave(user, {"--no-huge", "--legacy-mem", "--in-memory", "--huge-dir", "--huge-unlink",
                                       "--proc-type", "--single-file-segments", "--no-shconf", "--file-prefix"});
  const bool enough = memory.hugepages_free * memory.hugepage_bytes >= kEalBytes;
  made.hugepages = user_memory ? !gave(user, {"--no-huge"}) : options.hugepages != HugePolicy::kOff && enough;
  if (!user_memory && options.hugepages == HugePolicy::kOn && !enough)
    return {Code::kNoMemory, huge_line(memory, kEalBytes)};
  if (made.hugepages) {
    if (!user_memory) list.push_back("--in-memory");
  } else {
    // EAL refuses --in-memory beside --no-huge; without a shared config it leaves no file either.
    if (!user_memory) list.insert(list.end(), {"--no-huge", "--no-shconf"});
    if (!gave(user, {"-m", "--socket-mem"})) list.insert(list.end(), {"-m", std::to_string(kEalBytes >> 20)});
  }
  if (!gave(user, {"-a", "--allow", "-b", "--block", "--no-pci"})) list.push_back("--no-pci");
  if (!gave(user, {"-a", "--allow", "--iova-mode"}) && made.hugepages) list.push_back("--iova-mode=va");
  if (!options.telemetry && !gave(user, {"--telemetry", "--no-telemetry"})) list.push_back("--no-telemetry");
  if (!gave(user, {"--log-level"})) list.push_back("--log-level=error");
  if (!gave(user, {"-l", "--lcores", "-c"})) {
    std::string text;
    Status status = lcores(options, facts, &text);
    if (!status.ok()) return status;
    list.push_back(std::move(text));
    if (!gave(user, {"--main-lcore"})) list.push_back("--main-lcore=0");
  }
  list.insert(list.end(), user.begin(), user.end());
  *out = std::move(made);
  return Code::kOk;
}

std::vector<std::string> preflight(const EalFacts& facts, uint64_t locked_bytes, uint64_t huge_bytes) {
  std::vector<std::string> lines;
  if (locked_bytes > facts.memlock_bytes)
    lines.push_back("locked memory: " + std::to_string(locked_bytes) + " bytes needed, the limit is " +
                    std::to_string(facts.memlock_bytes) +
                    ": raise it with `ulimit -l unlimited` or LimitMEMLOCK=infinity in the service's unit");
  if (huge_bytes > facts.memory.hugepages_free * facts.memory.hugepage_bytes)
    lines.push_back(huge_line(facts.memory, huge_bytes));
  const uint64_t plain = locked_bytes - std::min(locked_bytes, huge_bytes);
  if (facts.memory.available_bytes != 0 && plain > facts.memory.available_bytes)
    lines.push_back("memory: " + std::to_string(plain) + " bytes needed, " +
                    std::to_string(facts.memory.available_bytes) +
                    " available: use fewer or smaller slots and segments, or add memory");
  return lines;
}

EalFacts read_eal_facts() {
  EalFacts facts;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) facts.allowed_cpus.push_back(cpu);
  } else {
    facts.allowed_cpus.push_back(0);
  }
  facts.memory = read_meminfo();
  facts.memlock_bytes = memlock_bytes();
  return facts;
}

std::string format_cpus(const std::vector<int>& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(cpus[i]);
    if (last > i) text += "-" + std::to_string(cpus[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace sluice
