#include "derive.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <algorithm>
#include <utility>

namespace sluice::fabric {
namespace {

uint32_t clamp32(size_t value) { return static_cast<uint32_t>(std::min<size_t>(value, UINT32_MAX)); }

// What a provider may ask of us; what else it asks for is better told here than met as wrong bytes.
constexpr int kHonoured =
    FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT | FI_MR_HMEM;

std::string names_of(int mr_mode) {
  static constexpr std::pair<int, const char*> kNames[] = {{1 << 0, "FI_MR_BASIC"},
                                                           {1 << 1, "FI_MR_SCALABLE"},
                                                           {FI_MR_RAW, "FI_MR_RAW: keys of more than 64 bits"},
                                                           {FI_MR_MMU_NOTIFY, "FI_MR_MMU_NOTIFY"},
                                                           {FI_MR_RMA_EVENT, "FI_MR_RMA_EVENT"},
                                                           {FI_MR_COLLECTIVE, "FI_MR_COLLECTIVE"}};
  std::string out;
  for (const auto& [bit, name] : kNames)
    if ((mr_mode & bit) != 0) out.append(out.empty() ? "" : ", ").append(name);
  return out.empty() ? "bits " + std::to_string(mr_mode) : out;
}

uint64_t smaller_cap(uint64_t a, uint64_t b) { return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b); }

}  // namespace

Status derive(const fi_info& info, const Profile& profile, const DeviceUse& use, uint64_t max_region,
              std::string_view subject, DeviceCaps* caps, RegionRules* rules) {
  const int mr_mode = info.domain_attr->mr_mode;
  const std::string who(subject);
  if ((mr_mode & ~kHonoured) != 0)
    return {Code::kUnsupported, who + " asks for memory registration that this driver does not do (" +
                                    names_of(mr_mode & ~kHonoured) + ")"};
  if (info.domain_attr->mr_key_size > sizeof(uint64_t))
    return {Code::kUnsupported, who + " has keys of " + std::to_string(info.domain_attr->mr_key_size) +
                                    " bytes; this driver carries keys of at most 8"};
  if (info.domain_attr->threading == FI_THREAD_DOMAIN)
    return {Code::kUnsupported, who + " cannot serve queues on different threads (FI_THREAD_DOMAIN)"};
  rules->bind = (mr_mode & FI_MR_ENDPOINT) != 0;
  rules->addresses = (mr_mode & FI_MR_VIRT_ADDR) != 0;
  rules->own_keys = (mr_mode & FI_MR_PROV_KEY) != 0;
  rules->key_bytes = info.domain_attr->mr_key_size == 0 ? 8 : static_cast<uint32_t>(info.domain_attr->mr_key_size);
  caps->tx_depth = clamp32(info.tx_attr->size);
  caps->rx_depth = clamp32(info.rx_attr->size);
  caps->max_msg_bytes = info.ep_attr->max_msg_size;
  caps->max_region_bytes = smaller_cap(max_region, use.max_region_bytes);
  caps->page_entries = profile.page_entries;
  caps->inject_bytes = clamp32(info.tx_attr->inject_size);
  caps->sge = info.tx_attr->iov_limit >= 2 ? 2 : 1;
  caps->rma = use.rma;
  caps->device_memory = use.device_memory;
  caps->one_target = use.rma && rules->bind;
  caps->delivery_complete = use.rma && profile.places_first;
  caps->ordered = (info.tx_attr->msg_order & info.rx_attr->msg_order & FI_ORDER_SAS) != 0;
  caps->needs_local_reg = (mr_mode & FI_MR_LOCAL) != 0;
  caps->idle_poll_costly = profile.idle_poll_costly;
  caps->target_polls = use.rma && info.domain_attr->data_progress != FI_PROGRESS_AUTO;
  caps->closes_paths = profile.closes_paths;
  return Code::kOk;
}

std::string device_of(const Profile& profile, std::string_view domain) {
  if (!profile.suffix.empty() && domain.ends_with(profile.suffix)) domain.remove_suffix(profile.suffix.size());
  return std::string(domain);
}

}  // namespace sluice::fabric
