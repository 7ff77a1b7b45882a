#include "discovery.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "derive.h"
#include "errors.h"
#include "place.h"

namespace sluice::fabric {
namespace {

/// @return whether @p info's source is a socket address of @p family, with it in @p out.
template <typename Address>
bool source_of(const fi_info& info, int family, Address* out) {
  if (info.src_addr == nullptr || info.src_addrlen < sizeof *out) return false;
  std::memcpy(out, info.src_addr, sizeof *out);
  return reinterpret_cast<const sockaddr*>(out)->sa_family == family;
}

bool is_loopback(const fi_info& info) {
  sockaddr_in v4;
  if (source_of(info, AF_INET, &v4)) return (ntohl(v4.sin_addr.s_addr) >> 24) == 127;
  sockaddr_in6 v6;
  return source_of(info, AF_INET6, &v6) && IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

/// Of the entries of one domain the lowest is taken.
int rank_of(const fi_info& info, const Profile& profile) {
  int rank = 0;
  if (!profile.fabric.empty() && info.fabric_attr->name != nullptr && profile.fabric != info.fabric_attr->name)
    rank += 100;
  if ((info.domain_attr->mr_mode & FI_MR_RAW) != 0 || info.domain_attr->mr_key_size > sizeof(uint64_t)) rank += 10;
  sockaddr_in6 v6;
  if (!source_of(info, AF_INET6, &v6)) return rank;
  return rank + (IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr) ? 2 : 1);
}

std::string address_of(const fi_info& info) {
  char text[INET6_ADDRSTRLEN] = "";
  sockaddr_in v4;
  sockaddr_in6 v6;
  if (source_of(info, AF_INET, &v4)) inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
  if (source_of(info, AF_INET6, &v6)) inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
  if (text[0] == '\0' && info.addr_format == FI_ADDR_STR && info.src_addr != nullptr)
    return {static_cast<const char*>(info.src_addr),
            strnlen(static_cast<const char*>(info.src_addr), info.src_addrlen)};
  return text;
}

InfoPtr make_hints(const OfiApi& api, const Profile& profile, std::string_view provider, const DeviceUse& use) {
  InfoPtr hints(api.dupinfo(nullptr), {&api});
  if (!hints) return hints;
  hints->caps = FI_MSG | (use.rma ? FI_RMA : 0) | (use.device_memory ? FI_HMEM : 0);
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = profile.mr_mode | (use.device_memory ? FI_MR_HMEM : 0);
  // The queue's owner drives progress: no thread of the provider's beside it. Several queues of one domain, each on
  // its own lcore, want the provider's locks (FI_THREAD_SAFE).
  hints->domain_attr->threading = FI_THREAD_SAFE;
  hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
  hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
  hints->fabric_attr->prov_name = strndup(provider.data(), provider.size());
  return hints;
}

/// Keep the best entry of each domain that is @p provider's own: asking for "tcp" also lists "tcp;ofi_rxm".
void keep(const OfiApi& api, const Profile& profile, std::string_view provider, const fi_info* list,
          std::vector<Found>* out) {
  for (const fi_info* info = list; info != nullptr; info = info->next) {
    if (info->fabric_attr == nullptr || info->fabric_attr->prov_name == nullptr || info->domain_attr == nullptr ||
        info->domain_attr->name == nullptr || provider != info->fabric_attr->prov_name)
      continue;
    const auto same = std::find_if(out->begin(), out->end(), [&](const Found& found) {
      return found.profile == &profile && std::strcmp(found.info->domain_attr->name, info->domain_attr->name) == 0;
    });
    if (same != out->end() && rank_of(*same->info, profile) <= rank_of(*info, profile)) continue;
    InfoPtr copy(api.dupinfo(info), {&api});
    if (!copy) continue;
    if (same == out->end()) {
      out->push_back({std::move(copy), &profile});
    } else {
      same->info = std::move(copy);
    }
  }
}

Status discover_row(const OfiApi& api, const Profile& profile, const DeviceUse& use, std::vector<Found>* out) {
  if (use.device_memory && !profile.hmem)
    return {Code::kUnsupported, "provider " + std::string(profile.name) + " does not take device memory"};
  for (std::string_view provider : {profile.name, profile.also}) {
    if (provider.empty()) continue;
    const InfoPtr hints = make_hints(api, profile, provider, use);
    if (!hints || hints->fabric_attr->prov_name == nullptr)
      return {Code::kNoMemory, "no memory for fi_getinfo's hints"};
    fi_info* list = nullptr;
    const int ret = api.getinfo(api_version(api, profile.api), nullptr, nullptr, 0, hints.get(), &list);
    const InfoPtr owned(list, {&api});
    if (ret == -FI_ENODATA) continue;  // not present here
    if (ret != 0) return status_of(api, "fi_getinfo", provider, ret);
    keep(api, profile, provider, list, out);
  }
  return Code::kOk;
}

std::string version_of(const OfiApi& api) {
  const uint32_t version = api.version();
  return "libfabric " + std::to_string(FI_MAJOR(version)) + "." + std::to_string(FI_MINOR(version));
}

/// All rows, or until the best that @p automatic may take. A row that fails is no reason to do without the others.
Status discover_rows(const OfiApi& api, bool automatic, const DeviceUse& use, std::vector<Found>* out,
                     std::vector<Missing>* missing) {
  Status first;
  for (const Profile& profile : profiles()) {
    std::string why;
    if (automatic && !profile.auto_pick) {
      why = "is taken only when it is asked for";
    } else if (automatic && !out->empty()) {
      why = std::string(out->front().profile->name) + " comes first";
    } else {
      const size_t before = out->size();
      const Status status = discover_row(api, profile, use, out);
      if (!status.ok() && first.ok()) first = status;
      if (out->size() == before) why = status.ok() ? version_of(api) + " lists no device of it here" : status.text();
    }
    if (!why.empty() && missing != nullptr) missing->push_back({&profile, why});
  }
  return out->empty() ? first : Status{};
}

}  // namespace

Status discover(const OfiApi& api, std::string_view provider, const DeviceUse& use, std::vector<Found>* out,
                std::vector<Missing>* missing) {
  const bool automatic = provider == "auto";
  const Profile* wanted = automatic || provider.empty() ? nullptr : find_profile(provider);
  if (wanted == nullptr && !automatic && !provider.empty())
    return {Code::kBadArgument,
            "provider '" + std::string(provider) + "' is not known; known: auto, " + profile_names()};
  Status status =
      wanted != nullptr ? discover_row(api, *wanted, use, out) : discover_rows(api, automatic, use, out, missing);
  if (!status.ok() || !out->empty()) return status;
  return {Code::kNotFound,
          version_of(api) + " has no device for provider '" + std::string(provider) + "'" +
              (use.rma ? " with one-sided operations" : "") + (use.device_memory ? " on device memory" : "") +
              " here; asked for: " + (wanted != nullptr ? std::string(wanted->name) : profile_names())};
}

DeviceInfo describe(const Found& found, const std::string& sys) {
  const fi_info& info = *found.info;
  DeviceInfo out;
  out.name = info.domain_attr->name;
  out.provider = info.fabric_attr->prov_name;
  out.address = address_of(info);
  out.loopback = is_loopback(info);
  if (info.nic != nullptr && info.nic->bus_attr != nullptr && info.nic->bus_attr->bus_type == FI_BUS_PCI) {
    const fi_pci_attr& pci = info.nic->bus_attr->attr.pci;
    char text[32];
    std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", pci.domain_id, pci.bus_id, pci.device_id, pci.function_id);
    out.pci = text;
  }
  if (info.nic != nullptr && info.nic->link_attr != nullptr) out.bits_per_s = info.nic->link_attr->speed;
  const Place place = read_place(sys, device_of(*found.profile, out.name), out.pci);
  out.numa_node = place.numa_node;
  if (out.pci.empty()) out.pci = place.pci;
  if (out.bits_per_s == 0) out.bits_per_s = place.bits_per_s;
  return out;
}

}  // namespace sluice::fabric
