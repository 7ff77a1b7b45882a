/// @file report.h
/// What a run found, as a row of a table or as a line of JSON.
///
/// Model    One Run for each block size. The report also knows whether all is well: the exit status.
/// Threads  The main thread.
/// Memory   Allocates.
/// Errors   None.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/types.h"
#include "stats/histogram.h"

namespace sluice::bench {

struct Run {
  std::string mode, op;
  TransportInfo transport;
  uint64_t block = 0;
  uint32_t batch = 0, depth = 0, threads = 0;
  double seconds = 0;
  uint64_t ops = 0, bytes = 0, failed = 0;
  Histogram latency_ns;
  bool checked = false;  ///< Verification was asked for.
  bool verified = false;
  double submit_ns = 0;  ///< Of a task, in the call that takes it.
  std::string note;      ///< What a request of mode kv is; else empty.
  uint64_t waits = 0, wait_max_us = 0;
  uint64_t extents_min = 0, extents_max = 0, extents_end = 0;  ///< Of the node that received.
  std::string trouble;                                         ///< One line: what failed or did not verify.
};

class Report {
 public:
  explicit Report(bool json) noexcept : json_(json) {}
  void add(const Run& run);
  /// Every run ended well, and there was one.
  bool ok() const noexcept { return runs_ != 0 && ok_; }

 private:
  void row(const Run& run);
  bool json_, ok_ = true;
  uint32_t runs_ = 0;
};

/// "64", "4k", "1M": as the options take it.
std::string size_text(uint64_t bytes);
std::string json_line(const Run& run);

/// Progress of a long run, on stderr, when that is a terminal.
class Progress {
 public:
  explicit Progress(double seconds) noexcept;
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void show(std::string_view what, double done_seconds, double gb_per_s);

 private:
  double seconds_;
  bool on_, shown_ = false;
};

}  // namespace sluice::bench
