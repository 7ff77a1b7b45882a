// The driver and the device of the simulator.
#include "sim_queue.h"

namespace sluice::sim {
namespace {

class SimDevice final : public Device {
 public:
  SimDevice(Wires* wires, QueueWatch* watch, DeviceInfo info, std::function<void(SimQueue*)> made)
      : wires_(wires), watch_(watch), info_(std::move(info)), made_(std::move(made)) {
    const Plan& plan = wires->world->plan;
    caps_.tx_depth = plan.tx_depth;
    caps_.rx_depth = 512;
    caps_.ordered = plan.ordered;
    caps_.needs_local_reg = true;
    caps_.closes_paths = plan.closes_paths;
  }
  ~SimDevice() override {
    if (registered_ != 0) wires_->world->fail("a device is closed with " + std::to_string(registered_) + " regions");
  }
  const DeviceInfo& info() const noexcept override { return info_; }
  const DeviceCaps& caps() const noexcept override { return caps_; }
  Status reg(Region& region, uint16_t index, bool) override {
    if (watch_->running() && wires_->world->hit(Fault::kNoExtent)) return Code::kNoMemory;
    region.keys(index).push_back({0, region.bytes(), 1, 0, 0, nullptr});
    ++registered_;
    return Code::kOk;
  }
  Status dereg(Region& region, uint16_t index) override {
    if (region.keys(index).empty()) return Code::kNotFound;
    region.keys(index).clear();
    --registered_;
    return Code::kOk;
  }
  Status open_queue(const QueueParams& params, std::unique_ptr<Queue>* out) override {
    auto made = std::make_unique<SimQueue>(wires_, watch_, params, params.rx_depth == caps_.rx_depth, queues_++);
    made_(made.get());
    *out = std::move(made);
    return Code::kOk;
  }

 private:
  Wires* const wires_;
  QueueWatch* const watch_;
  const DeviceInfo info_;
  const std::function<void(SimQueue*)> made_;
  DeviceCaps caps_;
  uint32_t queues_ = 0, registered_ = 0;
};

}  // namespace

Status SimDriver::probe(std::string_view, std::vector<DeviceInfo>* out) {
  DeviceInfo info;
  info.name = "sim";
  info.provider = "sim";
  out->push_back(info);
  return Code::kOk;
}

Status SimDriver::open(const DeviceInfo& info, const DeviceUse&, std::unique_ptr<Device>* out) {
  *out = std::make_unique<SimDevice>(wires_, watch_, info, made_);
  return Code::kOk;
}

}  // namespace sluice::sim
