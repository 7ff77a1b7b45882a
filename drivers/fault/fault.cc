#include "fault/fault.h"

#include <utility>

#include "fault/queue.h"

namespace sluice {
namespace {

class FaultDevice final : public Device {
 public:
  FaultDevice(std::unique_ptr<Device> inner, const FaultPlan& plan) : inner_(std::move(inner)), plan_(plan) {}

  const DeviceInfo& info() const noexcept override { return inner_->info(); }
  const DeviceCaps& caps() const noexcept override { return inner_->caps(); }
  Status reg(Region& region, uint16_t index, bool remote) override { return inner_->reg(region, index, remote); }
  Status dereg(Region& region, uint16_t index) override { return inner_->dereg(region, index); }

  Status open_queue(const QueueParams& params, std::unique_ptr<Queue>* out) override {
    std::unique_ptr<Queue> queue;
    if (Status status = inner_->open_queue(params, &queue); !status.ok()) return status;
    *out = std::make_unique<FaultQueue>(std::move(queue), plan_);
    ++plan_.seed;
    return Code::kOk;
  }

 private:
  std::unique_ptr<Device> inner_;
  FaultPlan plan_;
};
}  // namespace

std::unique_ptr<Device> make_fault_device(std::unique_ptr<Device> inner, const FaultPlan& plan) {
  return std::make_unique<FaultDevice>(std::move(inner), plan);
}

void set_fault_plan(Queue& queue, const FaultPlan& plan) noexcept { static_cast<FaultQueue&>(queue).set_plan(plan); }

const FaultCounts& fault_counts(const Queue& queue) noexcept { return static_cast<const FaultQueue&>(queue).counts(); }

}  // namespace sluice
