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
  std::string_view name;          ///< What a user asks for.
  std::string_view also = {};     ///< The same thing under another release's name; empty when there is none.
  int mr_mode = 0;                ///< Offered as hints: what the driver can honour for this provider.
  uint32_t api = 0;               ///< API version to ask for where the library has it; 0: that of our headers.
  std::string_view fabric = {};   ///< Of the fabrics that list one domain, the one to take; empty: any.
  std::string_view suffix = {};   ///< A domain is named after its device with this behind it.
  bool auto_pick = false;         ///< Whether `auto` may take it.
  bool hmem = false;              ///< Registers device memory (FI_HMEM).
  bool idle_poll_costly = false;  ///< An empty poll is a system call or more.
  bool places_first = false;      ///< FI_DELIVERY_COMPLETE is kept: a write completes once its bytes are at the target.
  bool closes_paths = false;      ///< Removing an address gives its outstanding ops back soon.
  bool leave_busy = false;  ///< Closing an endpoint with messages under way crashes inside the provider: leave it open.
  bool named_by_pid = false;  ///< Endpoints are files in /dev/shm, which a killed process leaves behind.
  bool verbs_cap = false;     ///< The largest region is what libibverbs says of the device: libfabric does not tell.
  int emulated_read = 0;      ///< The endpoint's options that tell whether it emulates what its device
  int emulated_write = 0;     ///< could do by itself; 0: there is none.
  uint64_t page_entries = 0;  ///< Pages that the NIC can map; 0: no known limit.
  std::string_view variable = {};     ///< An environment variable that the provider reads when libfabric is loaded,
  std::string_view value = {};        ///< and what it is set to unless the user has set it. Empty: none.
  bool variable_without_gpu = false;  ///< Set only where there is no device memory.
};

std::span<const Profile> profiles() noexcept;

/// The row of a provider's name, under any of its names; null when there is none.
const Profile* find_profile(std::string_view provider) noexcept;

/// "efa, cxi, ...", for messages.
std::string profile_names();

}  // namespace sluice::fabric
