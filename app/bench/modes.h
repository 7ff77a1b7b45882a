/// @file modes.h
/// The bench's modes: a table, one short file for each.
///
/// Model    A mode runs once for each block size, and reports each run. To add one: a file mode_NAME.cc with its run
///          function, a row in mode_table(), its name in kModeNames.
/// Threads  The main thread.
/// Memory   Allocates.
/// Errors   A Status of what kept it from running; that a run failed or did not verify is in its report.
#pragma once

#include <span>
#include <string_view>

#include "report.h"
#include "source.h"

namespace sluice::bench {

struct Mode {
  std::string_view name;
  /// Bytes of the default block, and tasks of the default batch; 0: those of the options.
  uint64_t block;
  uint32_t batch;
  bool alone;  ///< Needs no target process.
  Status (*run)(const Setup& setup, Report* report);
};

inline constexpr std::string_view kModeNames = "xfer|notify|pingpong|kv|submit";

Status run_xfer(const Setup& setup, Report* report);
Status run_notify(const Setup& setup, Report* report);
Status run_pingpong(const Setup& setup, Report* report);
Status run_kv(const Setup& setup, Report* report);
Status run_submit(const Setup& setup, Report* report);

inline constexpr Mode kModes[] = {
    {"xfer", 0, 0, false, run_xfer}, {"notify", 64, 0, false, run_notify}, {"pingpong", 64, 0, false, run_pingpong},
    {"kv", 0, 0, false, run_kv},     {"submit", 64, 32, true, run_submit},
};

}  // namespace sluice::bench
