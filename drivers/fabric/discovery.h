/// @file discovery.h
/// Which libfabric domains exist here, one entry each.
///
/// Model    fi_getinfo lists a domain several times (IPv4, IPv6, variants of an endpoint); the best entry of each is
///          kept: the fabric that the profile row names before others, keys of 64 bits before longer ones, IPv4 before
///          IPv6 before link-local, since a link-local address means nothing on another link.
/// Threads  Slow calls.
/// Memory   Found owns its fi_info.
/// Errors   kBadArgument for a provider that no profile row has; kNotFound says what was looked for.
#pragma once

#include <string>
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

/// A row of the profile table that gave no domain, or was not looked at.
struct Missing {
  const Profile* profile;
  std::string why;
};

/// Every domain of @p provider (a profile's name; "auto": of the best profile that has one; empty: of all)
/// that can be used as @p use says. Loopback interfaces are included. Of "auto" and of all, @p missing tells about the
/// other rows. @return kBadArgument, kNotFound, kDeviceError.
Status discover(const OfiApi& api, std::string_view provider, const DeviceUse& use, std::vector<Found>* out,
                std::vector<Missing>* missing);

/// What the door tells about a domain: what libfabric says of its NIC, and the kernel's word for the rest.
DeviceInfo describe(const Found& found, const std::string& sys = "/sys");

}  // namespace sluice::fabric
