/// @file address.h
/// Who a loop queue is: the blob that peers exchange, and whether the process behind it still lives.
///
/// Model    A process is a pid plus its start time, so that a reused pid is another process. A queue is a random id.
/// Threads  Pure, apart from reading /proc.
/// Memory   Only encoding allocates.
/// Errors   kBadArgument names what is wrong with a blob.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace sluice {

inline constexpr uint32_t kLoopMaxMsgBytes = 16u << 20;
inline constexpr size_t kLoopAddressBytes = 32;

struct LoopAddress {
  uint32_t pid = 0;
  uint32_t msg_bytes = 0;  ///< The largest message that the queue takes.
  uint64_t queue_id = 0;
  uint64_t start_time = 0;  ///< Of the process, in the kernel's ticks since boot.
};

std::vector<std::byte> encode_loop_address(const LoopAddress& address);
/// @return kBadArgument.
Status parse_loop_address(std::span<const std::byte> blob, LoopAddress* out);

/// @return when process @p pid started; 0 when there is none, or it has ended and only waits for its parent.
uint64_t process_start_time(uint32_t pid) noexcept;

}  // namespace sluice
