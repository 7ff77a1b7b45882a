#include "fake_ofi.h"

#include <arpa/inet.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_ext.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace sluice::fabric {
namespace {

FakeOfi state;

// The structures of a fi_info in one allocation.
struct Whole {
  fi_info info{};
  fi_tx_attr tx{};
  fi_rx_attr rx{};
  fi_ep_attr ep{};
  fi_domain_attr domain{};
  fi_fabric_attr fabric{};
  fid_nic nic{};
  fi_bus_attr bus{};
  fi_link_attr link{};
};

fi_info* new_info() {
  auto* whole = new Whole;
  whole->info.tx_attr = &whole->tx;
  whole->info.rx_attr = &whole->rx;
  whole->info.ep_attr = &whole->ep;
  whole->info.domain_attr = &whole->domain;
  whole->info.fabric_attr = &whole->fabric;
  return &whole->info;
}

void set_address(fi_info* info, const std::string& text) {
  const bool v6 = text.find(':') != std::string::npos;
  info->addr_format = v6 ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
  info->src_addrlen = v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  info->src_addr = std::calloc(1, info->src_addrlen);
  if (v6) {
    auto* to = static_cast<sockaddr_in6*>(info->src_addr);
    to->sin6_family = AF_INET6;
    inet_pton(AF_INET6, text.c_str(), &to->sin6_addr);
  } else {
    auto* to = static_cast<sockaddr_in*>(info->src_addr);
    to->sin_family = AF_INET;
    inet_pton(AF_INET, text.c_str(), &to->sin_addr);
  }
}

fi_info* canned(const FakeInfo& from) {
  fi_info* info = new_info();
  set_address(info, from.address);
  info->mode = from.mode;
  info->tx_attr->size = from.tx_size;
  info->tx_attr->iov_limit = 4;
  info->rx_attr->size = from.rx_size;
  info->tx_attr->inject_size = from.inject;
  info->ep_attr->max_msg_size = from.max_msg;
  info->domain_attr->mr_key_size = from.key_size;
  info->fabric_attr->name = strdup(from.fabric.c_str());
  info->domain_attr->name = strdup(from.domain.c_str());
  info->domain_attr->mr_mode = from.mr_mode;
  info->domain_attr->threading = from.threading;
  info->fabric_attr->prov_name = strdup(from.provider.c_str());
  if (!from.pci) return info;
  auto* whole = reinterpret_cast<Whole*>(info);
  whole->bus.bus_type = FI_BUS_PCI;
  whole->bus.attr.pci = {1, 0xc1, 0, 2};
  whole->link.speed = 100'000'000'000;
  whole->nic.bus_attr = &whole->bus;
  whole->nic.link_attr = &whole->link;
  info->nic = &whole->nic;
  return info;
}

void freeinfo(fi_info* info) {
  while (info != nullptr) {
    fi_info* next = info->next;
    std::free(info->src_addr);
    std::free(info->domain_attr->name);
    std::free(info->fabric_attr->prov_name);
    std::free(info->fabric_attr->name);
    delete reinterpret_cast<Whole*>(info);  // info is its first member
    info = next;
  }
}

fi_info* dupinfo(const fi_info* from) {
  fi_info* info = new_info();
  if (from == nullptr) return info;
  *reinterpret_cast<Whole*>(info) = *reinterpret_cast<const Whole*>(from);
  auto* whole = reinterpret_cast<Whole*>(info);
  *info = from[0];
  info->next = nullptr;
  info->tx_attr = &whole->tx;
  info->rx_attr = &whole->rx;
  info->ep_attr = &whole->ep;
  info->domain_attr = &whole->domain;
  info->fabric_attr = &whole->fabric;
  info->src_addr = std::malloc(from->src_addrlen);
  std::memcpy(info->src_addr, from->src_addr, from->src_addrlen);
  info->domain_attr->name = strdup(from->domain_attr->name);
  info->fabric_attr->prov_name = strdup(from->fabric_attr->prov_name);
  info->fabric_attr->name = strdup(from->fabric_attr->name);
  whole->nic.bus_attr = &whole->bus;
  whole->nic.link_attr = &whole->link;
  if (from->nic != nullptr) info->nic = &whole->nic;
  return info;
}

// Like libfabric 2, lists layered providers too when the plain one is asked for.
int getinfo(uint32_t version, const char*, const char*, uint64_t, const fi_info* hints, fi_info** out) {
  state.asked_version = version;
  state.asked_caps = hints->caps;
  state.asked_mr_mode = hints->domain_attr->mr_mode;
  if (state.getinfo_ret != 0) return state.getinfo_ret;
  *out = nullptr;
  fi_info** tail = out;
  for (const FakeInfo& one : state.list) {
    if (one.provider.compare(0, std::strlen(hints->fabric_attr->prov_name), hints->fabric_attr->prov_name) != 0)
      continue;
    *tail = canned(one);
    tail = &(*tail)->next;
  }
  return *out == nullptr ? -FI_ENODATA : 0;
}

int close_any(fid*) { return 0; }
int close_ep(fid*) {
  for (const FakeRegion& one : state.regions) state.closed_before_its_regions |= one.bound && !one.closed;
  state.ep_open = false;
  return 0;
}
int bind_any(fid*, fid*, uint64_t) { return 0; }
int control_any(fid*, int, void*) { return 0; }

fi_ops plain_ops{sizeof(fi_ops), close_any, bind_any, control_any, nullptr, nullptr, nullptr};
fi_ops ep_ops{sizeof(fi_ops), close_ep, bind_any, control_any, nullptr, nullptr, nullptr};

ssize_t cq_read(fid_cq*, void* buf, size_t count) {
  if (state.done.empty()) return state.errors.empty() ? -FI_EAGAIN : -FI_EAVAIL;
  size_t n = 0;
  for (; n < count && !state.done.empty(); ++n) {
    static_cast<fi_cq_msg_entry*>(buf)[n] = state.done.front();
    state.done.pop_front();
  }
  return static_cast<ssize_t>(n);
}
ssize_t cq_readerr(fid_cq*, fi_cq_err_entry* out, uint64_t) {
  if (state.errors.empty()) return -FI_EAGAIN;
  *out = state.errors.front();
  state.errors.pop_front();
  return 1;
}
fi_ops_cq cq_ops{};
fid_cq cq{};

int av_insert(fid_av*, const void*, size_t, fi_addr_t* out, uint64_t, void*) {
  *out = static_cast<fi_addr_t>(state.inserts++);
  return 1;
}
int av_remove(fid_av*, fi_addr_t*, size_t, uint64_t) {
  ++state.removes;
  state.removed_after_ep |= !state.ep_open;
  return 0;
}
fi_ops_av av_ops{};
fid_av av{};

ssize_t keep(int64_t ret, std::vector<void*>* list, void* context) {
  if (ret == 0) list->push_back(context);
  return ret;
}
ssize_t ep_send(fid_ep*, const void*, size_t, void*, fi_addr_t, void* context) {
  return keep(state.send_ret, &state.sends, context);
}
ssize_t ep_sendv(fid_ep*, const iovec*, void**, size_t, fi_addr_t, void* context) {
  return keep(state.send_ret, &state.sends, context);
}
ssize_t ep_recv(fid_ep*, void*, size_t, void*, fi_addr_t, void* context) {
  return keep(state.recv_ret, &state.receives, context);
}
int ep_getname(fid*, void* out, size_t* length) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(4711);
  std::memcpy(out, &at, sizeof at);
  *length = sizeof at;
  return 0;
}
ssize_t ep_cancel(fid*, void*) { return 0; }
int ep_getopt(fid*, int, int option, void* value, size_t* length) {
  state.asked_options.push_back(option);
  const int which = option + FI_PROV_SPECIFIC_EFA;
  if (state.emulates < 0 || which < 1 || which > 2 || *length != sizeof(bool)) return -FI_ENOPROTOOPT;
  *static_cast<bool*>(value) = (state.emulates & which) != 0;
  return 0;
}
fi_ops_msg msg_ops{};
fi_ops_cm cm_ops{};
fi_ops_ep ep_more{};
fid_ep ep{};

int cq_open(fid_domain*, fi_cq_attr* attr, fid_cq** out, void*) {
  if (state.cq_size != 0) attr->size = state.cq_size;
  cq_ops.size = sizeof cq_ops;
  cq_ops.read = cq_read;
  cq_ops.readerr = cq_readerr;
  cq.fid.ops = &plain_ops;
  cq.ops = &cq_ops;
  *out = &cq;
  return 0;
}
int av_open(fid_domain*, fi_av_attr*, fid_av** out, void*) {
  av_ops.insert = av_insert;
  av_ops.remove = av_remove;
  av.fid.ops = &plain_ops;
  av.ops = &av_ops;
  *out = &av;
  return 0;
}
int endpoint(fid_domain*, fi_info*, fid_ep** out, void*) {
  msg_ops.send = ep_send;
  msg_ops.sendv = ep_sendv;
  msg_ops.recv = ep_recv;
  cm_ops.getname = ep_getname;
  ep_more.cancel = ep_cancel;
  ep_more.getopt = ep_getopt;
  ep.fid.ops = &ep_ops;
  ep.msg = &msg_ops;
  ep.cm = &cm_ops;
  ep.ops = &ep_more;
  state.ep_open = true;
  *out = &ep;
  return 0;
}
// A region's number is its context's; its key is only there when it could be used.
struct RegionObject {
  fid_mr mr{};
  size_t number = 0;
};
std::deque<RegionObject> objects;

FakeRegion& region_of(fid* object) { return state.regions[reinterpret_cast<RegionObject*>(object)->number]; }
int close_region(fid* object) {
  if (state.on_region) state.on_region();
  region_of(object).closed = true;
  return state.close_region_ret;
}
int bind_region(fid* object, fid* to, uint64_t) {
  if (state.bind_ret == 0) region_of(object).bound = to == &ep.fid;
  return state.bind_ret;
}
int control_region(fid* object, int command, void*) {
  FakeRegion& region = region_of(object);
  if (command != FI_ENABLE) return -FI_ENOSYS;
  state.enabled_unbound |= !region.bound || !state.ep_open;
  region.enabled = true;
  reinterpret_cast<RegionObject*>(object)->mr.key =
      0xffff'0000'0000'0000 + reinterpret_cast<RegionObject*>(object)->number;
  return 0;
}
fi_ops region_ops{sizeof(fi_ops), close_region, bind_region, control_region, nullptr, nullptr, nullptr};

int regattr(fid*, const fi_mr_attr* attr, uint64_t, fid_mr** out) {
  if (state.on_region) state.on_region();
  if (state.regions.size() == state.failing_region) return state.region_ret;
  const FakeInfo& info = state.list.front();
  FakeRegion region;
  region.base = attr->mr_iov->iov_base;
  region.bytes = attr->mr_iov->iov_len;
  region.access = attr->access;
  region.requested_key = attr->requested_key;
  region.iface = attr->iface;
  region.device = attr->device.cuda;
  RegionObject& object = objects.emplace_back();
  object.number = state.regions.size();
  object.mr.fid.ops = &region_ops;
  object.mr.mem_desc = &object;
  object.mr.key = attr->requested_key;
  if ((info.mr_mode & FI_MR_PROV_KEY) != 0) object.mr.key = 0xffff'0000'0000'0000 + object.number;
  if ((info.mr_mode & FI_MR_ENDPOINT) != 0) object.mr.key = FI_KEY_NOTAVAIL;
  state.regions.push_back(region);
  *out = &object.mr;
  return 0;
}
int reg(fid* from, const void* base, size_t bytes, uint64_t access, uint64_t, uint64_t key, uint64_t, fid_mr** out,
        void*) {
  const iovec piece{const_cast<void*>(base), bytes};
  fi_mr_attr attr{};
  attr.mr_iov = &piece;
  attr.iov_count = 1;
  attr.access = access;
  attr.requested_key = key;
  return regattr(from, &attr, 0, out);
}
fi_ops_mr mr_ops{};

fi_ops_domain domain_ops{};
fid_domain domain{};
int open_domain(fid_fabric*, fi_info*, fid_domain** out, void*) {
  domain_ops.cq_open = cq_open;
  domain_ops.av_open = av_open;
  domain_ops.endpoint = endpoint;
  domain.fid.ops = &plain_ops;
  domain.ops = &domain_ops;
  mr_ops.reg = reg;
  mr_ops.regattr = regattr;
  domain.mr = &mr_ops;
  *out = &domain;
  return 0;
}
fi_ops_fabric fabric_ops{};
fid_fabric fabric{};
int open_fabric(fi_fabric_attr*, fid_fabric** out, void*) {
  fabric_ops.domain = open_domain;
  fabric.fid.ops = &plain_ops;
  fabric.ops = &fabric_ops;
  *out = &fabric;
  return 0;
}

uint32_t version() { return state.version; }
const char* error_text(int) { return "fake words"; }
uint64_t verbs_max_region(const char* device) {
  state.asked_device = device;
  return state.max_region;
}

}  // namespace

FakeOfi& fake() { return state; }
void reset_fake() {
  state = FakeOfi{};
  objects.clear();
}

Status load_fake(const OfiApi** out) {
  static const OfiApi api{getinfo, freeinfo, dupinfo, open_fabric, version, error_text, verbs_max_region};
  if (state.missing) return {Code::kUnsupported, "install the package libfabric1"};
  *out = &api;
  return Code::kOk;
}

}  // namespace sluice::fabric
