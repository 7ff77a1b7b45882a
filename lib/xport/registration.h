/// @file registration.h
/// A region on several devices at once: the same chunks on each, all of them or none.
///
/// Model    The chunk size is settled first, as the smallest that any device asks for, so that a chunk is the same span
///          on each. Devices register side by side, a bounded number of them at a time.
/// Threads  Slow calls, one at a time for a device. They start threads of their own, and end them; small regions on one
///          device are registered by the caller.
/// Memory   Allocates. A device's keys are the region's keys() under its index in @p devices.
/// Errors   Registering stops at the first error and undoes what was done; its text says what was asked for, of how
///          many devices, and which limits are near. Deregistering tries all and returns the first error.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "xport/driver.h"

namespace sluice {

struct RegisterOptions {
  bool remote = false;     ///< As of Device::reg.
  bool share_out = false;  ///< Memory that a device cannot map beside what it has is shared out, each chunk on some of
                           ///< them only: for callers that skip a device without a chunk's key. Else it fails.
  bool near_only = false;  ///< Only on devices of numa_node, where it has any: each registration costs, most of all
                           ///< of a GPU's memory. A device that is skipped has no keys() of the region.
  int numa_node = -1;      ///< Of the memory; -1: unknown, and near_only without effect.
  uint32_t max_parallel = 8;   ///< Devices at a time: pinning takes locks of the kernel's, so more need not be faster.
  uint64_t tell_ms = 5000;     ///< What takes longer says so, each time that this has passed.
  uint64_t memlock_bytes = 0;  ///< The limit of locked memory, for texts; 0: the process's.
  std::function<void(const std::string&)> tell = {};  ///< Called on the caller's thread; empty: a line in the log.
};

/// @return what a device gave (kExists, kLimit, kNoMemory, kUnsupported, kDeviceError), kBadArgument without devices.
Status register_region(Region& region, std::span<Device* const> devices, const RegisterOptions& options);

Status deregister_region(Region& region, std::span<Device* const> devices, const RegisterOptions& options);

}  // namespace sluice
