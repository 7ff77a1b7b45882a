/// @file sizing.h
/// What a node gets of what its settings ask for, what memory that takes, and what is said where either falls short.
///
/// Model    Pure functions of settings and of what the device gave. A value that was cut gives a line with the setting,
///          what was asked, what is used and why; also a default that a device cuts, apart from those that were chosen.
/// Threads  Any.
/// Memory   Slow; allocates.
/// Errors   None.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "env/eal_args.h"
#include "env/node_settings.h"
#include "xport/driver.h"

namespace sluice {

struct Sizing {
  uint32_t rx_slots = 0, rx_slots_max = 0;  ///< Per worker.
  uint32_t window = 0;                      ///< The most slots that one session is granted.
  std::vector<std::string> chosen_cuts;     ///< Of values that are not the default.
  std::vector<std::string> default_cuts;
};

/// @p depth: of the workers' queues on @p device.
Sizing size_pools(const NodeSettings& settings, std::string_view device, QueueDepth depth);

/// Bytes of bounce memory at the start, of data and of control.
uint64_t bounce_bytes(const NodeSettings& settings, uint32_t ctrl_slots);

/// @p failed with the reasons of preflight() behind its text, when it is kNoMemory and @p facts are short of
/// @p locked_bytes.
Status with_shortage(Status failed, const EalFacts& facts, uint64_t locked_bytes, uint64_t huge_bytes);

}  // namespace sluice
