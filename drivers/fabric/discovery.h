/// @file discovery.h
/// Which libfabric domains exist here, one entry each.
///
/// Model    fi_getinfo lists a domain several times (IPv4, IPv6, variants of an endpoint); the best entry of each is
///          kept: IPv4 before IPv6 before link-local, since a link-local address means nothing on another link.
/// Threads  Slow calls.
/// Memory   Found owns its fi_info.
/// Errors   kBadArgument for a provider that no profile row has; kNotFound says what was looked for.
#pragma once

#include <string_view>
#include <vector>

#include "ofi_loader.h"
#include "profile.h"
#include "xport/driver.h"

namespace sluice::fabric {

struct Found {
  InfoPtr info;
  const Profile* profile;
};

/// Every domain of @p provider (a profile's name; "auto": of the best profile that has one; empty: of all)
/// that can be used as @p use says. Loopback interfaces are included. @return kBadArgument, kNotFound, kDeviceError.
Status discover(const OfiApi& api, std::string_view provider, const DeviceUse& use, std::vector<Found>* out);

/// What the door tells about a domain.
DeviceInfo describe(const Found& found);

}  // namespace sluice::fabric
