/// @file errors.h
/// libfabric's error numbers in the words of the driver door.
///
/// Model    Two pure maps: one for an op's completion, one for a slow call.
/// Threads  Pure.
/// Memory   code_of_completion: none. status_of allocates its text.
/// Errors   None of its own.
#pragma once

#include <string_view>

#include "base/status.h"
#include "ofi_loader.h"

namespace sluice::fabric {

/// What an op ended with. @p err is fi_cq_err_entry::err or a negative return value: shm writes it negative, so the
/// sign says nothing.
Code code_of_completion(int err) noexcept;

/// The outcome of @p call on @p subject, which returned @p ret (0 or negative).
Status status_of(const OfiApi& api, std::string_view call, std::string_view subject, int64_t ret);

}  // namespace sluice::fabric
