/// @file rails.h
/// The devices that a node uses: which they are, and memory registered on all of them.
///
/// Model    A transport is a protocol over a driver. A two-sided node has one rail, a one-sided one up to kMaxRails of
///          one provider. Region::keys(i) are those of rail i.
/// Threads  Slow calls. register_region and deregister_region: any thread, several at once. The rest: who builds the
///          node.
/// Memory   Owns the devices.
/// Errors   Status with a line that names the transport, the device, and what is built in.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "engine/outside.h"
#include "env/node_settings.h"
#include "xport/driver.h"

namespace sluice {

struct TransportRow {
  std::string_view name, driver;
  bool one_sided;
};

/// @return null when there is no such transport.
const TransportRow* find_transport(std::string_view name) noexcept;

class Rails {
 public:
  /// The driver of the settings' transport, and the devices that it finds for their provider. With provider "auto":
  /// those of the best one, or with @p all of every one.
  static Status probe(const NodeSettings& settings, const Outside& outside, bool all, std::unique_ptr<Driver>* driver,
                      std::vector<DeviceInfo>* found);
  /// Those of @p found that are named. Without names: the one at the listening address, or the first; and one-sided,
  /// with it every other one of its provider that leads to other hosts as well.
  static std::vector<DeviceInfo> choose(const NodeSettings& settings, const std::vector<DeviceInfo>& found);

  ~Rails();
  Status open(const NodeSettings& settings, const Outside& outside);
  bool one_sided() const noexcept { return one_sided_; }
  uint16_t count() const noexcept { return static_cast<uint16_t>(devices_.size()); }
  Device& device(uint16_t rail) const noexcept { return *devices_[rail]; }
  /// What devices have to say now and then (Device::tend).
  void tend() noexcept {
    for (const auto& device : devices_) device->tend();
  }
  std::string names() const;  ///< "mlx5_0,mlx5_1".

  /// Register application memory on every rail, or on none. @return what Device::reg says.
  Status register_region(Region& region);
  Status deregister_region(Region& region);

 private:
  std::vector<Device*> rails() const;

  bool one_sided_ = false;
  std::mutex lock_;  // registrations, one at a time for a device
  std::unique_ptr<Driver> driver_;
  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace sluice
