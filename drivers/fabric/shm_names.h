/// @file shm_names.h
/// Endpoint names of providers that keep an endpoint as a file in /dev/shm.
///
/// Model    A name is "sluice.<pid namespace>.<pid>.<count>.<random>": never used twice, so that what a killed process
///          left cannot stand in a new one's way; and it tells whose it is, so that it can be removed once that
///          process is gone. Files of another pid namespace are left alone: their pids mean nothing here.
/// Threads  Slow calls, any thread.
/// Memory   set_unique_name gives the fi_info an address from malloc, as libfabric's own are.
/// Errors   A file that cannot be removed is left.
#pragma once

#include <rdma/fabric.h>

#include "base/status.h"

namespace sluice::fabric {

/// Give the endpoint that will be opened from @p info a name of its own. @return kNoMemory.
Status set_unique_name(fi_info* info);

/// Remove the files of processes that are gone.
void remove_stale_names() noexcept;

}  // namespace sluice::fabric
