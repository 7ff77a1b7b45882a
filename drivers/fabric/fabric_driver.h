/// @file fabric_driver.h
/// The driver over libfabric: finds its domains and opens them.
///
/// Model    One driver for every provider with FI_EP_RDM; what differs between them stands in profile.cc or is read
///          from fi_getinfo. The provider "auto" means the best present. A loopback interface is listed only where a
///          provider has no other, and opened whenever it is named.
/// Threads  Slow calls, one at a time.
/// Memory   Keeps nothing between calls.
/// Errors   Without the library every call is kUnsupported with the package's name.
#pragma once

#include "ofi_loader.h"
#include "xport/driver.h"

namespace sluice::fabric {

class FabricDriver final : public Driver {
 public:
  using Load = Status (*)(const OfiApi** out);
  /// @p load gives the entry points: load_ofi, or a test's own.
  explicit FabricDriver(Load load) : load_(load) {}

  std::string_view name() const noexcept override { return "fabric"; }
  Status probe(std::string_view provider, std::vector<DeviceInfo>* out) override;
  Status list(std::string_view provider, std::vector<DeviceInfo>* out) override;
  Status open(const DeviceInfo& info, const DeviceUse& use, std::unique_ptr<Device>* out) override;

 private:
  const Load load_;
};

}  // namespace sluice::fabric
