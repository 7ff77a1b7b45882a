/// @file kv.h
/// What one request of mode kv moves: the KV cache of a prompt, cut as an inference engine has it in memory.
///
/// Model    A descriptor is a page of tokens of one layer (layout layer), or of all layers (layout block). Descriptors
///          lie in runs, one behind another at both ends; runs follow one another in no order of memory. Where a
///          request is larger than the memory that it may use, descriptors begin again at its start, with the same
///          bytes.
/// Threads  Pure.
/// Memory   Allocates.
/// Errors   kBadArgument names the option, the value and the remedy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "env/settings.h"

namespace sluice::bench {

/// A prompt's KV cache as descriptors.
struct KvShape {
  uint64_t block = 0;             ///< Bytes of a descriptor.
  uint32_t descriptors = 0;       ///< Of a request.
  uint64_t range_bytes = 0;       ///< Memory of a request at each end.
  std::vector<uint64_t> offsets;  ///< Of each descriptor in it.
  bool notify = false;            ///< One behind each request.
  std::string note;               ///< For people.
};

inline constexpr std::string_view kKvModels = "llama-3-70b|llama-3.1-8b|qwen3-235b|deepseek-v3";

SettingRows kv_rows() noexcept;
Status read_kv_shape(const Settings& settings, KvShape* out);

}  // namespace sluice::bench
