/// @file profile.h
/// What cannot be derived about a provider, one row each. Everything else follows from what fi_getinfo returned.
///
/// Model    A constant table, best first. A driver that compares a provider's name anywhere else is wrong.
/// Threads  Constant.
/// Memory   Constant.
/// Errors   None.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sluice::fabric {

struct Profile {
  std::string_view name;  ///< What a user asks for.
  std::string_view also;  ///< The same thing under another release's name; empty when there is none.
  int mr_mode;            ///< Offered as hints: what the driver can honour for this provider.
  bool auto_pick;         ///< Whether `auto` may take it.
  bool idle_poll_costly;  ///< An empty poll is a system call or more.
  bool places_first;      ///< FI_DELIVERY_COMPLETE is kept: a write completes once its bytes are at the target.
  bool closes_paths;      ///< Removing an address gives its outstanding ops back soon.
  bool leave_busy;        ///< Closing an endpoint with messages under way crashes inside the provider: leave it open.
  bool named_by_pid;      ///< Endpoints are files in /dev/shm, which a killed process leaves behind.
  std::string_view variable = {};  ///< An environment variable that the provider reads when libfabric is loaded,
  std::string_view value = {};     ///< and what it is set to unless the user has set it. Empty: none.
};

std::span<const Profile> profiles() noexcept;

/// The row of a provider's name, under any of its names; null when there is none.
const Profile* find_profile(std::string_view provider) noexcept;

/// "efa, cxi, ...", for messages.
std::string profile_names();

}  // namespace sluice::fabric
