#include "device.h"

#include <sys/uio.h>

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "errors.h"
#include "queue.h"
#include "shm_names.h"

namespace sluice::fabric {

FabricDevice::FabricDevice(const OfiApi& api, const Profile& profile, InfoPtr info, DeviceInfo described)
    : api_(api), profile_(profile), info_(std::move(info)), described_(std::move(described)) {}

Status FabricDevice::make(const OfiApi& api, const Profile& profile, const DeviceUse& use, InfoPtr info,
                          DeviceInfo described, std::unique_ptr<Device>* out) {
  std::unique_ptr<FabricDevice> device(new FabricDevice(api, profile, std::move(info), std::move(described)));
  if (Status status = device->open(use); !status.ok()) return status;
  *out = std::move(device);
  return Code::kOk;
}

Status FabricDevice::open(const DeviceUse& use) {
  const std::string name = device_of(profile_, described_.name);
  const uint64_t cap = profile_.verbs_cap ? api_.verbs_max_region(name.c_str()) : 0;
  if (Status status = derive(*info_, profile_, use, cap, subject(), &caps_, &rules_); !status.ok()) return status;
  if (profile_.named_by_pid) remove_stale_names();
  fid_fabric* fabric = nullptr;
  int ret = api_.fabric(info_->fabric_attr, &fabric, nullptr);
  if (ret != 0) return status_of(api_, "fi_fabric", subject(), ret);
  fabric_.reset(fabric);
  fid_domain* domain = nullptr;
  ret = fi_domain(fabric, info_.get(), &domain, nullptr);
  if (ret != 0) return status_of(api_, "fi_domain", subject(), ret);
  domain_.reset(domain);
  return Code::kOk;
}

/// A key of as many bits as the provider takes, that nobody can guess; 0 where the provider chooses.
uint64_t FabricDevice::new_key() const noexcept {
  if (rules_.own_keys) return 0;
  return random_u64() >> (rules_.key_bytes >= sizeof(uint64_t) ? 1 : 65 - 8 * rules_.key_bytes);
}

Status FabricDevice::failed(const Region& region, uint64_t bytes, int ret) const {
  std::string call = "registering " + std::to_string(bytes) + " bytes of " + std::to_string(region.bytes()) + " bytes";
  if (region.kind() == RegionKind::kDevice) call += " of GPU " + std::to_string(region.device());
  return status_of(api_, call, subject(), ret);
}

/// The registration itself, without key.
Status FabricDevice::make_region(const Region& region, bool remote, ChunkKey* key) {
  constexpr int kTries = 8;  // a key that we choose may be taken
  uint64_t access = FI_SEND | FI_RECV;
  if (caps_.rma) access |= FI_READ | FI_WRITE;
  if (remote) access |= FI_REMOTE_READ | FI_REMOTE_WRITE;
  fid_mr* mr = nullptr;
  int ret = -FI_ENOKEY;
  const iovec piece{region.base() + key->offset, key->length};
  fi_mr_attr attr{};
  attr.mr_iov = &piece;
  attr.iov_count = 1;
  attr.access = access;
  attr.iface = region.kind() == RegionKind::kDevice ? FI_HMEM_CUDA : FI_HMEM_SYSTEM;
  if (region.kind() == RegionKind::kDevice) attr.device.cuda = region.device();
  Status status = region.in_context([&]() -> Status {
    for (int i = 0; i < kTries && ret == -FI_ENOKEY; ++i) {
      attr.requested_key = new_key();
      ret = fi_mr_regattr(domain_.get(), &attr, 0, &mr);
    }
    return ret == 0 ? Status{} : failed(region, key->length, ret);
  });
  if (!status.ok()) return status;
  key->handle = mr;
  return Code::kOk;
}

/// What a registration becomes usable with, on the endpoint that it belongs to where it belongs to one.
Status FabricDevice::enable(bool remote, const Region& region, ChunkKey* key) {
  auto* mr = static_cast<fid_mr*>(key->handle);
  if (rules_.bind) {
    int ret = fi_mr_bind(mr, &target_->fid, 0);
    if (ret == 0) ret = fi_mr_enable(mr);
    if (ret != 0) return status_of(api_, "binding a region to the queue", subject(), ret);
  }
  key->local_desc = reinterpret_cast<uint64_t>(fi_mr_desc(mr));
  if (!remote) return Code::kOk;
  key->remote_key = fi_mr_key(mr);
  key->remote_addr = rules_.addresses ? reinterpret_cast<uintptr_t>(region.base() + key->offset) : 0;
  if (key->remote_key == FI_KEY_NOTAVAIL)
    return {Code::kUnsupported, subject() + " has keys longer than 64 bits, which this driver does not know"};
  return Code::kOk;
}

Status FabricDevice::reg_chunk(const Region& region, bool remote, ChunkKey* key) {
  if (key->handle == nullptr)
    if (Status status = make_region(region, remote, key); !status.ok()) return status;
  if (rules_.bind && target_ == nullptr) return Code::kOk;  // queue_opened() goes on
  return enable(remote, region, key);
}

Status FabricDevice::reg(Region& region, uint16_t index, bool remote) {
  std::vector<ChunkKey>& keys = region.keys(index);
  if (!keys.empty()) return {Code::kExists, "region is registered on " + subject() + " already"};
  if (remote && !caps_.rma) return {Code::kUnsupported, subject() + " is opened for messages only, not remote access"};
  if (region.kind() == RegionKind::kDevice && !caps_.device_memory)
    return {Code::kUnsupported, subject() + " is not opened for device memory"};
  const uint64_t chunk = largest_chunk(region, caps_.max_region_bytes, caps_.page_entries);
  const bool needed = caps_.needs_local_reg || remote;
  for (uint64_t offset = 0; offset < region.bytes(); offset += chunk) {
    keys.push_back({offset, std::min(chunk, region.bytes() - offset), 0, 0, 0, nullptr});
    if (!needed || !region.takes(index, keys.size() - 1)) continue;
    if (Status status = reg_chunk(region, remote, &keys.back()); !status.ok()) {
      (void)close_chunks(region, index);  // the cause is the first error, not what undoing it says
      keys.clear();
      return status;
    }
  }
  if (needed && (rules_.bind || caps_.page_entries != 0)) {
    const uint64_t pages = caps_.page_entries != 0 ? pages_of(region, index) : 0;
    mapped_pages_ += pages;
    tracked_[{&region, index}] = {remote, pages};
  }
  return Code::kOk;
}

/// How many pages the chunks of @p region that are registered here take.
uint64_t FabricDevice::pages_of(Region& region, uint16_t index) {
  const uint64_t page = region.page_bytes();
  uint64_t pages = 0;
  for (const ChunkKey& key : region.keys(index))
    if (key.handle != nullptr) pages += (key.length - 1) / page + 1;
  return pages;
}

/// Close every registration of @p region; its chunks stay. @return the first error.
Status FabricDevice::close_chunks(Region& region, uint16_t index) {
  Status first;
  for (ChunkKey& key : region.keys(index)) {
    if (key.handle == nullptr) continue;
    const Status closed = region.in_context(
        [&] { return status_of(api_, "deregistering", subject(), fi_close(&static_cast<fid_mr*>(key.handle)->fid)); });
    if (!closed.ok() && first.ok()) first = closed;
    key.handle = nullptr;
  }
  return first;
}

Status FabricDevice::dereg(Region& region, uint16_t index) {
  if (const auto found = tracked_.find({&region, index}); found != tracked_.end()) {
    mapped_pages_ -= found->second.pages;
    tracked_.erase(found);
  }
  Status first = close_chunks(region, index);
  region.keys(index).clear();
  return first;
}

Status FabricDevice::queue_opened(fid_ep* ep) {
  if (!rules_.bind || target_ != nullptr) return Code::kOk;
  target_ = ep;
  for (const auto& [at, one] : tracked_) {
    const auto& [region, index] = at;
    std::vector<ChunkKey>& keys = region->keys(index);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (!region->takes(index, i)) continue;
      if (Status status = reg_chunk(*region, one.remote, &keys[i]); !status.ok()) {
        queue_closing(ep);
        return status;
      }
    }
  }
  return Code::kOk;
}

void FabricDevice::queue_closing(const fid_ep* ep) noexcept {
  if (target_ != ep || ep == nullptr) return;
  target_ = nullptr;
  for (const auto& [at, one] : tracked_) (void)close_chunks(*at.first, at.second);
}

Status FabricDevice::open_queue(const QueueParams& params, std::unique_ptr<Queue>* out) {
  return FabricQueue::make(*this, params, out);
}

}  // namespace sluice::fabric
