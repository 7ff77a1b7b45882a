/// @file device.h
/// One opened port: registration, queues, and what the device tells on its own.
///
/// Model    A context and a protection domain. What queues need of it stands in QueueHost, so that a test can make
///          one. tend() takes the device's events: after a change of addresses the next path uses the new ones; a
///          device that is gone ends every path.
/// Threads  Slow calls, one at a time; tend() and Queue::address() on the service thread. Queues only read.
/// Memory   Owns context and domain. @pre queues and registrations are gone before it is.
/// Errors   A registration that fails in the middle is rolled back.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "discovery.h"
#include "verbs_api.h"
#include "xport/driver.h"

namespace sluice::verbs {

/// The port as paths see it.
struct PortFacts {
  uint32_t number = 1;
  uint16_t lid = 0;
  uint8_t mtu_code = 1;
  bool by_lid = false;
  GidEntry gid{};
};

/// What a queue needs of its device.
struct QueueHost {
  VerbsApi api;
  ibv_context* context = nullptr;
  ibv_pd* domain = nullptr;
  DeviceCaps caps;
  PairOptions pair;
  PortFacts port;
  uint32_t max_cqe = 0;
  uint8_t reads_in = 1;   ///< READs of the peer served at once.
  uint8_t reads_out = 1;  ///< READs of ours under way at once.
  bool shared_receives = true;
  uint64_t flush_ns = 2'000'000'000;  ///< What the device has to give back the ops of a failed pair.
  std::atomic<bool> gone{false};
  std::string subject;
};

class VerbsDevice final : public Device {
 public:
  /// @return kUnsupported, kNotFound (no such port, no GID), kDeviceError.
  static Status make(ContextPtr context, uint32_t port, const DeviceUse& use, std::unique_ptr<Device>* out);
  ~VerbsDevice() override;

  const DeviceInfo& info() const noexcept override { return described_; }
  const DeviceCaps& caps() const noexcept override { return host_.caps; }
  Status reg(Region& region, uint16_t index, bool remote) override;
  Status dereg(Region& region, uint16_t index) override;
  Status open_queue(const QueueParams& params, std::unique_ptr<Queue>* out) override;
  void tend() noexcept override;

 private:
  VerbsDevice(ContextPtr context, const DeviceUse& use) : context_(std::move(context)) {
    host_.pair = use.pair;
    host_.caps.rma = use.rma;
    host_.caps.max_region_bytes = use.max_region_bytes;
  }
  Status open(uint32_t port);
  Status look_at_port(bool first);
  void derive(const ibv_device_attr& attr, const ibv_port_attr& port);
  void try_inline();
  Status reg_chunk(const Region& region, bool remote, ChunkKey* key);
  void on_event(const ibv_async_event& event);

  ContextPtr context_;
  QueueHost host_;
  DeviceInfo described_;
};

}  // namespace sluice::verbs
