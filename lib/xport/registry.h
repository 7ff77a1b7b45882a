/// @file registry.h
/// The drivers that this program was built with, by name.
///
/// Model    A program's main links drivers; each names itself in one table made by the build. Nothing registers
///          itself before main.
/// Threads  Read-only after start.
/// Memory   The table is constant; a made driver is the caller's.
/// Errors   kNotFound names what was asked for and lists what is built in.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "xport/driver.h"

namespace sluice {

struct DriverEntry {
  std::string_view name;
  std::unique_ptr<Driver> (*make)();
};

/// Every driver that is built in. Defined by the generated table in drivers/.
std::span<const DriverEntry> built_in_drivers() noexcept;

/// Make the driver called @p name. @return kNotFound.
Status make_driver(std::string_view name, std::unique_ptr<Driver>* out);

}  // namespace sluice
