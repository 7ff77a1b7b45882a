#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/random.h"
#include "loop/queue.h"
#include "loop/remote.h"

namespace sluice {

std::unique_ptr<Driver> make_loop_driver();

namespace {
constexpr char kDeviceName[] = "loop0";
constexpr uint32_t kMaxDepth = 1024;

class LoopDevice final : public Device {
 public:
  LoopDevice(DeviceInfo info, const DeviceUse& use) : info_(std::move(info)) {
    caps_.tx_depth = kMaxDepth;
    caps_.rx_depth = kMaxDepth;
    caps_.max_msg_bytes = kLoopMaxMsgBytes;
    caps_.sge = 2;
    caps_.ordered = true;
    caps_.rma = use.rma;
    caps_.max_region_bytes = use.max_region_bytes;
    caps_.delivery_complete = use.rma;
    caps_.paired = true;  // each end makes the ring that it receives from
  }

  const DeviceInfo& info() const noexcept override { return info_; }
  const DeviceCaps& caps() const noexcept override { return caps_; }

  // The processor needs no registration of local memory; the entry lets callers treat every device alike.
  Status reg(Region& region, uint16_t index, bool remote) override {
    std::vector<ChunkKey>& keys = region.keys(index);
    if (!keys.empty())
      return {Code::kExists, "the region is registered on device " + std::to_string(index) + " already"};
    if (remote && !caps_.rma) return {Code::kUnsupported, "loop0 is opened for messages only, not remote access"};
    if (region.kind() == RegionKind::kDevice) return {Code::kUnsupported, "loop0 copies with the processor: no GPU's"};
    const uint64_t chunk = largest_chunk(region, caps_.max_region_bytes, 0);
    for (uint64_t offset = 0; offset < region.bytes(); offset += chunk) {
      std::byte* const at = region.base() + offset;
      const uint64_t length = std::min(chunk, region.bytes() - offset);
      const uint64_t key = remote ? remote_add(at, length) : 0;
      if (remote && key == 0) {
        (void)dereg(region, index);
        keys.clear();
        return {Code::kLimit, "loop0 has no room for another registration of memory for peers"};
      }
      keys.push_back({offset, length, 0, key, reinterpret_cast<uintptr_t>(at), nullptr});
    }
    return Code::kOk;
  }

  Status dereg(Region& region, uint16_t index) override {
    std::vector<ChunkKey>& keys = region.keys(index);
    if (keys.empty()) return {Code::kNotFound, "the region is not registered on device " + std::to_string(index)};
    for (const ChunkKey& key : keys)
      if (key.remote_key != 0) remote_remove(key.remote_key);
    keys.clear();
    return Code::kOk;
  }

  Status open_queue(const QueueParams& wanted, std::unique_ptr<Queue>* out) override {
    if (wanted.msg_bytes == 0 || wanted.msg_bytes > kLoopMaxMsgBytes)
      return {Code::kBadArgument, "msg_bytes is " + std::to_string(wanted.msg_bytes) + ": it must be from 1 to " +
                                      std::to_string(kLoopMaxMsgBytes)};
    QueueParams params = wanted;
    params.tx_depth = std::clamp(params.tx_depth, 1u, kMaxDepth);
    params.rx_depth = std::clamp(params.rx_depth, 1u, kMaxDepth);
    const auto pid = static_cast<uint32_t>(getpid());
    const LoopAddress self{
        .pid = pid, .msg_bytes = params.msg_bytes, .queue_id = random_u64(), .start_time = process_start_time(pid)};
    if (self.start_time == 0) return {Code::kUnsupported, "loop needs /proc to tell whether a peer lives: mount it"};
    *out = std::make_unique<LoopQueue>(params, self, caps_.rma);
    return Code::kOk;
  }

 private:
  DeviceInfo info_;
  DeviceCaps caps_;
};

class LoopDriver final : public Driver {
 public:
  std::string_view name() const noexcept override { return "loop"; }

  Status probe(std::string_view provider, std::vector<DeviceInfo>* out) override {
    out->clear();
    if (!provider.empty() && provider != "auto")
      return {Code::kNotFound,
              "driver loop has no providers, '" + std::string(provider) + "' was asked for: leave it empty"};
    if (access("/dev/shm", R_OK | W_OK | X_OK) != 0)
      return {Code::kUnsupported,
              std::string("loop keeps its rings in /dev/shm, which cannot be used: ") + std::strerror(errno)};
    Ring::sweep();
    DeviceInfo info;
    info.name = kDeviceName;
    info.address = "this host";
    info.loopback = true;
    out->push_back(std::move(info));
    return Code::kOk;
  }

  Status open(const DeviceInfo& info, const DeviceUse& use, std::unique_ptr<Device>* out) override {
    if (info.name != kDeviceName)
      return {Code::kNotFound, "driver loop has no device '" + info.name + "', only " + kDeviceName};
    *out = std::make_unique<LoopDevice>(info, use);
    return Code::kOk;
  }
};
}  // namespace

std::unique_ptr<Driver> make_loop_driver() { return std::make_unique<LoopDriver>(); }

}  // namespace sluice
