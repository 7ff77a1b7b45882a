/// @file options.h
/// The bench's own settings, beside the node's.
///
/// Model    Rows of the settings table, read into a struct.
/// Threads  Slow calls, one thread.
/// Memory   Allocates.
/// Errors   kBadArgument with one line that names the option, the value and the remedy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "env/settings.h"
#include "kv.h"

namespace sluice::bench {

enum class Op : uint8_t { kWrite, kRead, kBoth };

struct BenchOptions {
  bool self, target, list, json, verify;
  std::string peer, mode, op_name;
  Op op;
  std::vector<uint64_t> blocks;
  uint32_t batch, depth, threads, seconds;
  uint64_t count;  ///< 0: by time.
  uint64_t segment_bytes;
  KvShape kv;                          ///< Of mode kv, which gives blocks and batch.
  bool default_blocks, default_batch;  ///< A mode may have its own.
};

SettingRows bench_rows() noexcept;
/// What --help says above the options.
std::string_view bench_about() noexcept;
Status read_bench_options(const Settings& settings, BenchOptions* out);

}  // namespace sluice::bench
