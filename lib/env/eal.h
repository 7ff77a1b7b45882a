/// @file eal.h
/// Start DPDK's EAL without disturbing the caller, and run work on its worker lcores.
///
/// Model    EAL exists once in a process. It starts in a thread of its own that then ends, so the caller's affinity,
///          signal mask and name stay; EAL's threads block every signal. An EAL that is already up is used as it is.
///          EAL's main lcore runs nothing; agents run on the worker lcores, which sleep in the kernel until launched.
/// Threads  Slow calls, any thread; they serialise themselves.
/// Memory   Without hugepage files or shared configuration: a killed process leaves nothing behind.
/// Errors   kBadArgument, kNoMemory, kSystemError with EAL's reason. A start refused before EAL saw it (a bad CPU, no
///          hugepages) can be tried again; one that EAL refused cannot, since EAL keeps what it had parsed.
#pragma once

#include <functional>
#include <vector>

#include "base/status.h"
#include "env/eal_args.h"

namespace sluice {

/// Start EAL, unless it is up. @return kBadArgument, kNoMemory, kSystemError.
Status start_eal(const EalOptions& options);

struct EalState {
  bool up = false;
  bool taken_over = false;  ///< The embedding program had started it: our options were not used.
  bool hugepages = false;
};
EalState eal_state();

/// The worker lcores, in the order of EalOptions::worker_cpus where we started EAL.
std::vector<unsigned> worker_lcores();

/// Run @p body on worker @p lcore. It must not throw. @return kNotFound for no worker, kBusy when it already runs one.
Status launch(unsigned lcore, std::function<void()> body);

/// Sleep until the body launched on @p lcore has ended; at once when there is none.
void join(unsigned lcore);

}  // namespace sluice
