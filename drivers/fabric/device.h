/// @file device.h
/// One opened libfabric domain: registration and queues.
///
/// Model    A fabric, a domain, and the fi_info that both came from. What the device can do is derived from that
///          fi_info; the profile row adds what cannot be (derive.h).
///          Where regions belong to an endpoint (FI_MR_ENDPOINT), they are bound to the first queue opened, since a
///          region has one key and one endpoint. What is registered before that queue is there waits unbound, and gets
///          its keys when it opens; a queue that closes takes its regions' registrations along, and the next one that
///          opens makes new ones.
/// Threads  Slow calls, one at a time. The domain is FI_THREAD_SAFE, so that its queues run on different lcores.
/// Memory   Owns the libfabric objects. @pre queues and registrations are gone before it is.
/// Errors   A registration that fails in the middle is rolled back; the text names region, size and provider.
#pragma once

#include <rdma/fi_domain.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "derive.h"
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
  uint64_t mapped_pages() const noexcept override { return mapped_pages_; }
  Status reg(Region& region, uint16_t index, bool remote) override;
  Status dereg(Region& region, uint16_t index) override;
  Status open_queue(const QueueParams& params, std::unique_ptr<Queue>* out) override;

  // For the device's queues.
  const OfiApi& api() const noexcept { return api_; }
  const Profile& profile() const noexcept { return profile_; }
  const fi_info& ofi_info() const noexcept { return *info_; }
  fid_domain* domain() const noexcept { return domain_.get(); }
  /// @p ep is enabled: bind what waits for an endpoint. @return kDeviceError, with nothing left bound to it.
  Status queue_opened(fid_ep* ep);
  /// @p ep is about to be closed.
  void queue_closing(const fid_ep* ep) noexcept;
  std::string subject() const { return described_.provider + " device " + described_.name; }

 private:
  struct Tracked {
    bool remote;
    uint64_t pages;
  };
  FabricDevice(const OfiApi& api, const Profile& profile, InfoPtr info, DeviceInfo described);
  Status open(const DeviceUse& use);
  Status reg_chunk(const Region& region, bool remote, ChunkKey* key);
  Status make_region(const Region& region, bool remote, ChunkKey* key);
  Status enable(bool remote, const Region& region, ChunkKey* key);
  Status failed(const Region& region, uint64_t bytes, int ret) const;
  static uint64_t pages_of(Region& region, uint16_t index);
  Status close_chunks(Region& region, uint16_t index);
  uint64_t new_key() const noexcept;

  const OfiApi& api_;
  const Profile& profile_;
  InfoPtr info_;
  DeviceInfo described_;
  DeviceCaps caps_;
  RegionRules rules_;
  uint64_t mapped_pages_ = 0;  // counted only where caps().page_entries limits them
  // Only where regions belong to an endpoint, or the device's pages are limited.
  std::map<std::pair<Region*, uint16_t>, Tracked> tracked_;
  fid_ep* target_ = nullptr;  // theirs
  FidPtr<fid_fabric> fabric_;
  FidPtr<fid_domain> domain_;
};

}  // namespace sluice::fabric
