/// @file remote.h
/// One-sided access between loop queues: who may touch which memory, and the copy.
///
/// Model    Registrations for remote access stand in one table of the process; a key names its place and a random
///          number. A queue of the same process copies after it has looked the key up. Into another process the kernel
///          copies (process_vm_writev and process_vm_readv, as a user who may trace it): there the kernel checks the
///          address, and nobody the key.
/// Threads  remote_add, remote_remove: any. remote_copy: any, at the same time; @pre nothing copies into a registration
///          that is being removed.
/// Memory   A table of fixed size.
/// Errors   remote_copy: kBadArgument (key or range), kPeerDead, kDeviceError (the kernel forbids it).
#pragma once

#include <cstdint>

#include "loop/address.h"
#include "xport/driver.h"

namespace sluice {

/// @return the key; 0: the table is full.
uint64_t remote_add(std::byte* base, uint64_t bytes) noexcept;
void remote_remove(uint64_t key) noexcept;

/// Carry out @p op, a kWrite or kRead, on memory of @p peer's process.
Code remote_copy(const LoopAddress& self, const LoopAddress& peer, const Op& op) noexcept;

}  // namespace sluice
