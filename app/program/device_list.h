/// @file device_list.h
/// --list: the devices of a transport, on stdout.
///
/// Model    One line for each, under a heading; then those that are not taken unless they are asked for, and why.
/// Threads  The main thread.
/// Memory   Allocates.
/// Errors   What the driver says; no device at all is kNotFound.
#pragma once

#include "base/status.h"
#include "env/node_settings.h"

namespace sluice {

Status print_devices(const NodeSettings& node);

}  // namespace sluice
