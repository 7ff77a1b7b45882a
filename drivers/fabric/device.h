/// @file device.h
/// One opened libfabric domain: registration and queues.
///
/// Model    A fabric, a domain, and the fi_info that both came from. What the device can do is derived from that
///          fi_info; the profile row adds what cannot be.
/// Threads  Slow calls, one at a time. The domain is FI_THREAD_SAFE, so that its queues run on different lcores.
/// Memory   Owns the libfabric objects. @pre queues and registrations are gone before it is.
/// Errors   A registration that fails in the middle is rolled back; the text names region, size and provider.
#pragma once

#include <rdma/fi_domain.h>

#include <memory>
#include <string>

#include "ofi_loader.h"
#include "profile.h"
#include "xport/driver.h"

namespace sluice::fabric {

class FabricDevice final : public Device {
 public:
  /// @return kUnsupported when the domain asks for something that this driver cannot do.
  static Status make(const OfiApi& api, const Profile& profile, const DeviceUse& use, InfoPtr info,
                     DeviceInfo described, std::unique_ptr<Device>* out);

  const DeviceInfo& info() const noexcept override { return described_; }
  const DeviceCaps& caps() const noexcept override { return caps_; }
  Status reg(Region& region, uint16_t index, bool remote) override;
  Status dereg(Region& region, uint16_t index) override;
  Status open_queue(const QueueParams& params, std::unique_ptr<Queue>* out) override;

  // For the device's queues.
  const OfiApi& api() const noexcept { return api_; }
  const Profile& profile() const noexcept { return profile_; }
  const fi_info& ofi_info() const noexcept { return *info_; }
  fid_domain* domain() const noexcept { return domain_.get(); }
  std::string subject() const { return described_.provider + " device " + described_.name; }

 private:
  FabricDevice(const OfiApi& api, const Profile& profile, const DeviceUse& use, InfoPtr info, DeviceInfo described);
  Status open();
  Status reg_chunk(const Region& region, bool remote, ChunkKey* key);
  uint64_t new_key() const noexcept;

  const OfiApi& api_;
  const Profile& profile_;
  InfoPtr info_;
  DeviceInfo described_;
  DeviceCaps caps_;
  FidPtr<fid_fabric> fabric_;
  FidPtr<fid_domain> domain_;
};

}  // namespace sluice::fabric
