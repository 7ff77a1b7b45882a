#include "device.h"

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "errors.h"
#include "queue.h"
#include "shm_names.h"

namespace sluice::fabric {
namespace {

uint32_t clamp32(size_t value) { return static_cast<uint32_t>(std::min<size_t>(value, UINT32_MAX)); }

DeviceCaps derive_caps(const fi_info& info, const Profile& profile, const DeviceUse& use) {
  DeviceCaps caps;
  caps.tx_depth = clamp32(info.tx_attr->size);
  caps.rx_depth = clamp32(info.rx_attr->size);
  caps.max_msg_bytes = info.ep_attr->max_msg_size;
  caps.inject_bytes = clamp32(info.tx_attr->inject_size);
  caps.sge = info.tx_attr->iov_limit >= 2 ? 2 : 1;
  caps.rma = use.rma;
  caps.delivery_complete = use.rma && profile.places_first;
  caps.ordered = (info.tx_attr->msg_order & info.rx_attr->msg_order & FI_ORDER_SAS) != 0;
  caps.needs_local_reg = (info.domain_attr->mr_mode & FI_MR_LOCAL) != 0;
  caps.idle_poll_costly = profile.idle_poll_costly;
  caps.closes_paths = profile.closes_paths;
  return caps;
}

}  // namespace

FabricDevice::FabricDevice(const OfiApi& api, const Profile& profile, const DeviceUse& use, InfoPtr info,
                           DeviceInfo described)
    : api_(api), profile_(profile), info_(std::move(info)), described_(std::move(described)) {
  caps_ = derive_caps(*info_, profile_, use);
}

Status FabricDevice::make(const OfiApi& api, const Profile& profile, const DeviceUse& use, InfoPtr info,
                          DeviceInfo described, std::unique_ptr<Device>* out) {
  std::unique_ptr<FabricDevice> device(new FabricDevice(api, profile, use, std::move(info), std::move(described)));
  if (Status status = device->open(); !status.ok()) return status;
  *out = std::move(device);
  return Code::kOk;
}

Status FabricDevice::open() {
  // What a provider may ask of us and we do not do yet; better told here than met as wrong bytes.
  constexpr int kHonoured = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  const int mr_mode = info_->domain_attr->mr_mode;
  if ((mr_mode & ~kHonoured) != 0)
    return {Code::kUnsupported, subject() + " asks for memory registration mode " + std::to_string(mr_mode) +
                                    ", of which this driver does not know " + std::to_string(mr_mode & ~kHonoured)};
  const fi_threading threading = info_->domain_attr->threading;
  if (threading == FI_THREAD_DOMAIN)
    return {Code::kUnsupported, subject() + " cannot serve queues on different threads (FI_THREAD_DOMAIN)"};
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

/// A key of as many bits as the provider takes, that nobody can guess.
uint64_t FabricDevice::new_key() const noexcept {
  const size_t bytes = info_->domain_attr->mr_key_size;
  const uint64_t key = random_u64();
  return bytes == 0 || bytes >= sizeof key ? key >> 1 : key >> (65 - 8 * bytes);
}

Status FabricDevice::reg_chunk(const Region& region, bool remote, ChunkKey* key) {
  constexpr int kTries = 8;  // a key that we choose may be taken
  const int mode = info_->domain_attr->mr_mode;
  uint64_t access = FI_SEND | FI_RECV;
  if (caps_.rma) access |= FI_READ | FI_WRITE;
  if (remote) access |= FI_REMOTE_READ | FI_REMOTE_WRITE;
  const std::byte* at = region.base() + key->offset;
  fid_mr* mr = nullptr;
  int ret = -FI_ENOKEY;
  for (int i = 0; i < kTries && ret == -FI_ENOKEY; ++i)
    ret = fi_mr_reg(domain_.get(), at, key->length, access, 0, new_key(), 0, &mr, nullptr);
  if (ret != 0) return status_of(api_, "registering " + std::to_string(key->length) + " bytes", subject(), ret);
  key->handle = mr;
  key->local_desc = reinterpret_cast<uint64_t>(fi_mr_desc(mr));
  if (!remote) return Code::kOk;
  key->remote_key = fi_mr_key(mr);
  key->remote_addr = (mode & FI_MR_VIRT_ADDR) != 0 ? reinterpret_cast<uintptr_t>(at) : 0;
  if (key->remote_key == FI_KEY_NOTAVAIL)
    return {Code::kUnsupported, subject() + " has keys longer than 64 bits, which this driver does not know"};
  return Code::kOk;
}

Status FabricDevice::reg(Region& region, uint16_t index, bool remote) {
  std::vector<ChunkKey>& keys = region.keys(index);
  if (!keys.empty()) return {Code::kExists, "region is registered on " + subject() + " already"};
  if (remote && !caps_.rma) return {Code::kUnsupported, subject() + " is opened for messages only, not remote access"};
  const uint64_t chunk = caps_.max_region_bytes != 0 ? caps_.max_region_bytes : region.bytes();
  for (uint64_t offset = 0; offset < region.bytes(); offset += chunk) {
    keys.push_back({offset, std::min(chunk, region.bytes() - offset), 0, 0, 0, nullptr});
    if (!caps_.needs_local_reg && !remote) continue;
    if (Status status = reg_chunk(region, remote, &keys.back()); !status.ok()) {
      (void)dereg(region, index);  // the cause is the first error, not what undoing it says
      return status;
    }
  }
  return Code::kOk;
}

Status FabricDevice::dereg(Region& region, uint16_t index) {
  Status first;
  for (ChunkKey& key : region.keys(index)) {
    if (key.handle == nullptr) continue;
    const int ret = fi_close(&static_cast<fid_mr*>(key.handle)->fid);
    if (ret != 0 && first.ok()) first = status_of(api_, "deregistering", subject(), ret);
  }
  region.keys(index).clear();
  return first;
}

Status FabricDevice::open_queue(const QueueParams& params, std::unique_ptr<Queue>* out) {
  return FabricQueue::make(*this, params, out);
}

}  // namespace sluice::fabric
