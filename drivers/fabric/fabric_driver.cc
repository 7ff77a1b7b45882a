#include "fabric_driver.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/log.h"
#include "device.h"
#include "discovery.h"

namespace sluice::fabric {

Status FabricDriver::probe(std::string_view provider, std::vector<DeviceInfo>* out) {
  const OfiApi* api = nullptr;
  if (Status status = load_(&api); !status.ok()) return status;
  std::vector<Found> found;
  if (Status status = discover(*api, provider, {}, &found); !status.ok()) return status;
  if (provider == "auto") log_info("fabric", "provider auto: took " + std::string(found.front().profile->name));
  const auto real = [&](const Profile* profile) {
    return std::any_of(found.begin(), found.end(),
                       [&](const Found& one) { return one.profile == profile && !describe(one).loopback; });
  };
  for (const Found& one : found) {
    DeviceInfo info = describe(one);
    if (!info.loopback || !real(one.profile)) out->push_back(std::move(info));
  }
  return Code::kOk;
}

Status FabricDriver::open(const DeviceInfo& info, const DeviceUse& use, std::unique_ptr<Device>* out) {
  const OfiApi* api = nullptr;
  if (Status status = load_(&api); !status.ok()) return status;
  std::vector<Found> found;
  if (Status status = discover(*api, info.provider.empty() ? "auto" : info.provider, use, &found); !status.ok())
    return status;
  std::string names;
  for (Found& one : found) {
    DeviceInfo described = describe(one);
    if (described.name == info.name)
      return FabricDevice::make(*api, *one.profile, use, std::move(one.info), std::move(described), out);
    names.append(names.empty() ? "" : ", ").append(described.name);
  }
  return {Code::kNotFound, "no device '" + info.name + "' of provider '" + info.provider + "'; there are: " + names};
}

}  // namespace sluice::fabric

namespace sluice {
std::unique_ptr<Driver> make_fabric_driver();
std::unique_ptr<Driver> make_fabric_driver() { return std::make_unique<fabric::FabricDriver>(fabric::load_ofi); }
}  // namespace sluice
