/// @file derive.h
/// What follows from a fi_info and its profile row: what the device can do, and how its memory is registered.
///
/// Model    A pure function. The mr_mode bits that fi_getinfo returned decide, never the provider's name.
/// Threads  Pure.
/// Memory   Allocates the text of an error only.
/// Errors   kUnsupported names what the domain asks for and this driver does not do.
#pragma once

#include <rdma/fabric.h>

#include <string>
#include <string_view>

#include "base/status.h"
#include "profile.h"
#include "xport/driver.h"

namespace sluice::fabric {

/// How a domain wants its regions.
struct RegionRules {
  bool bind = false;       ///< To an endpoint, and enabled there, before use (FI_MR_ENDPOINT).
  bool addresses = false;  ///< A peer names virtual addresses; else offsets (FI_MR_VIRT_ADDR).
  bool own_keys = false;   ///< The provider chooses keys (FI_MR_PROV_KEY).
  uint32_t key_bytes = 8;  ///< Of a key that we choose.
};

/// @p max_region: the device's cap on one region, 0: none known. @return kUnsupported.
Status derive(const fi_info& info, const Profile& profile, const DeviceUse& use, uint64_t max_region,
              std::string_view subject, DeviceCaps* caps, RegionRules* rules);

/// The device behind a domain: its name without what the profile row says stands behind it.
std::string device_of(const Profile& profile, std::string_view domain);

}  // namespace sluice::fabric
