/// @file eal_args.h
/// The arguments that EAL starts with, and what is short on this machine.
///
/// Model    Pure functions of options and facts: the defaults (no PCI, memory that leaves no files, one lcore for each
///          worker, hugepages when there are enough), then the user's own arguments, which replace the defaults that
///          they contradict.
/// Threads  Any.
/// Memory   Slow; allocates.
/// Errors   kBadArgument for a CPU that the process may not use, kNoMemory when hugepages are demanded and short.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/meminfo.h"
#include "base/status.h"

namespace sluice {

enum class HugePolicy : uint8_t {
  kAuto,  ///< Hugepages when there are enough of them.
  kOn,    ///< Hugepages, or an error.
  kOff,
};

struct EalOptions {
  std::string program = "sluice";           ///< For EAL's own log lines.
  std::vector<int> worker_cpus = {};        ///< One worker lcore for each, in order; a CPU may stand twice.
  std::vector<std::string> user_args = {};  ///< What stands before "--" on a program's command line.
  HugePolicy hugepages = HugePolicy::kAuto;
  bool telemetry = false;
};

/// What a start depends on.
struct EalFacts {
  std::vector<int> allowed_cpus = {};  ///< This process's affinity (containers narrow it).
  MemInfo memory;
  uint64_t memlock_bytes = UINT64_MAX;  ///< RLIMIT_MEMLOCK; UINT64_MAX: no limit, or the right to pass it.
};

struct EalArgs {
  std::vector<std::string> list;  ///< Without the program's name.
  bool hugepages = false;
};

/// EAL's own memory: rings and the heads of mempools. Bounce memory and segments are apart from it.
inline constexpr uint64_t kEalBytes = 256ull << 20;

/// @return kBadArgument, kNoMemory.
Status make_eal_args(const EalOptions& options, const EalFacts& facts, EalArgs* out);

/// One line for each thing that is short for @p locked_bytes of registered memory, of it @p huge_bytes in hugepages;
/// empty when nothing is.
std::vector<std::string> preflight(const EalFacts& facts, uint64_t locked_bytes, uint64_t huge_bytes);

/// The facts of this process now.
EalFacts read_eal_facts();

/// "0-3,8" for {0,1,2,3,8}. @pre sorted.
std::string format_cpus(const std::vector<int>& cpus);

}  // namespace sluice
