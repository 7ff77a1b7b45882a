#include "fabric_driver.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/log.h"
#include "derive.h"
#include "device.h"
#include "discovery.h"

namespace sluice::fabric {

namespace {

/// Whether @p profile has an entry that is no loopback interface.
bool has_real(const std::vector<Found>& found, const Profile* profile) {
  return std::any_of(found.begin(), found.end(),
                     [&](const Found& one) { return one.profile == profile && !describe(one).loopback; });
}

std::string reasons(const std::vector<Missing>& missing) {
  std::string out;
  for (const Missing& one : missing) out.append("; ").append(one.profile->name).append(": ").append(one.why);
  return out;
}

/// Why auto, which takes @p picked, leaves @p profile out; empty: it does not.
std::string passed_over(const Profile* profile, const Profile* picked) {
  if (profile == picked) return {};
  if (!profile->auto_pick) return "is taken only when it is asked for: --provider " + std::string(profile->name);
  return "provider auto takes " + std::string(picked->name) + ", which comes first";
}

}  // namespace

Status FabricDriver::probe(std::string_view provider, std::vector<DeviceInfo>* out) {
  const OfiApi* api = nullptr;
  if (Status status = load_(&api); !status.ok()) return status;
  std::vector<Found> found;
  std::vector<Missing> missing;
  Status status = discover(*api, provider, {}, &found, &missing);
  if (!status.ok()) return provider == "auto" ? Status{status.code(), status.text() + reasons(missing)} : status;
  if (provider == "auto")
    log_info("fabric", "provider auto: took " + std::string(found.front().profile->name) + reasons(missing));
  for (const Found& one : found) {
    DeviceInfo info = describe(one);
    if (!info.loopback || !has_real(found, one.profile)) out->push_back(std::move(info));
  }
  return Code::kOk;
}

Status FabricDriver::list(std::string_view provider, std::vector<DeviceInfo>* out) {
  const OfiApi* api = nullptr;
  if (Status status = load_(&api); !status.ok()) return status;
  std::vector<Found> found;
  std::vector<Missing> missing;
  const bool automatic = provider == "auto";
  if (Status status = discover(*api, automatic ? "" : provider, {}, &found, &missing); !status.ok()) return status;
  const auto best = std::find_if(found.begin(), found.end(), [](const Found& one) { return one.profile->auto_pick; });
  const Profile* picked = best == found.end() ? nullptr : best->profile;
  for (const Found& one : found) {
    DeviceInfo info = describe(one);
    if (automatic) info.left_out = passed_over(one.profile, picked);
    if (info.left_out.empty() && info.loopback && has_real(found, one.profile))
      info.left_out = "loopback, and there are others: is taken only by its name";
    out->push_back(std::move(info));
  }
  for (const Missing& one : missing) {
    DeviceInfo info;
    info.provider = one.profile->name;
    info.left_out = one.why;
    out->push_back(std::move(info));
  }
  std::stable_partition(out->begin(), out->end(), [](const DeviceInfo& info) { return info.left_out.empty(); });
  return Code::kOk;
}

Status FabricDriver::open(const DeviceInfo& info, const DeviceUse& use, std::unique_ptr<Device>* out) {
  const OfiApi* api = nullptr;
  if (Status status = load_(&api); !status.ok()) return status;
  std::vector<Found> found;
  if (Status status = discover(*api, info.provider.empty() ? "auto" : info.provider, use, &found, nullptr);
      !status.ok())
    return status;
  std::string names;
  for (Found& one : found) {
    DeviceInfo described = describe(one);
    if (described.name == info.name || device_of(*one.profile, described.name) == info.name)
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
