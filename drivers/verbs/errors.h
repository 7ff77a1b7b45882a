/// @file errors.h
/// What libibverbs says, in this library's codes.
///
/// Model    One table for completions, one function for calls.
/// Threads  Pure.
/// Memory   Texts of slow calls.
/// Errors   None of its own.
#pragma once

#include <infiniband/verbs.h>

#include <string_view>

#include "base/status.h"

namespace sluice::verbs {

/// The code of a completion's status; its class is code_class() of that. A status that nobody knows is kDeviceError.
Code code_of_completion(ibv_wc_status status) noexcept;

/// The status of a call that returned (or left in errno) @p err; 0 is kOk.
Status status_of(std::string_view call, std::string_view subject, int err);

}  // namespace sluice::verbs
