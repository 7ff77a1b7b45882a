/// @file outside.h
/// What a node takes from outside of itself: clocks, chance, the device, the out-of-band side.
///
/// Model    The defaults are the real ones. A simulator hands in others, and everything else of the engine stays as it
///          is.
/// Threads  Set before a node is built; the functions are called on its threads.
/// Memory   Plain data.
/// Errors   None of its own.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "agent/agent.h"
#include "base/random.h"
#include "base/status.h"
#include "meta/oob.h"
#include "xport/registry.h"

namespace sluice {

uint64_t tsc_now() noexcept;

struct Outside {
  TickSource ticks = tsc_now;
  uint64_t ticks_per_us = 0;  ///< 0: of the TSC, as EAL measured it.
  uint64_t (*now_ns)() noexcept = monotonic_ns;
  uint64_t (*random)() noexcept = random_u64;
  std::function<Status(std::string_view, std::unique_ptr<Driver>*)> driver = make_driver;
  std::function<std::unique_ptr<Oob>(OobConfig, OobEvents*)> oob = [](OobConfig config, OobEvents* events) {
    return std::make_unique<OobNode>(std::move(config), events);
  };
};

}  // namespace sluice
