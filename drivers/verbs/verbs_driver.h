/// @file verbs_driver.h
/// The driver over libibverbs: reliable connected queue pairs on InfiniBand and RoCE.
///
/// Model    A device is a port (discovery.h). There are no providers.
/// Threads  Slow calls, one at a time.
/// Memory   Keeps nothing between calls.
/// Errors   kUnsupported when no port is usable, with the reason for each.
#pragma once

#include "xport/driver.h"

namespace sluice::verbs {

class VerbsDriver final : public Driver {
 public:
  std::string_view name() const noexcept override { return "verbs"; }
  Status probe(std::string_view provider, std::vector<DeviceInfo>* out) override;
  Status open(const DeviceInfo& info, const DeviceUse& use, std::unique_ptr<Device>* out) override;
};

}  // namespace sluice::verbs
