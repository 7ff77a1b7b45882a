#include "engine/rails.h"

#include <algorithm>

#include "base/log.h"
#include "meta/address.h"
#include "meta/message.h"
#include "xport/registration.h"

namespace sluice {
namespace {
constexpr TransportRow kTransports[] = {
    {"fabric", "fabric", true}, {"fabric_twosided", "fabric", false},
    {"loop", "loop", true},     {"loop_twosided", "loop", false},
    {"rdma", "verbs", true},    {"rdma_twosided", "verbs", false},
};

DeviceUse use_of(const NodeSettings& settings, bool one_sided) {
  const auto byte = [](uint32_t value) { return static_cast<uint8_t>(value); };
  DeviceUse use;
  use.rma = one_sided;
  use.pair.gid_index = static_cast<uint16_t>(settings.gid_index);
  use.pair.mtu_bytes = static_cast<uint16_t>(settings.rdma_mtu);
  use.pair.timeout = byte(settings.ack_timeout);
  use.pair.retries = byte(settings.ack_retries);
  use.pair.rnr_retries = byte(settings.rnr_retries);
  use.pair.rnr_timer = byte(settings.rnr_timer);
  use.pair.traffic_class = byte(settings.traffic_class);
  use.pair.service_level = byte(settings.service_level);
  use.pair.relaxed_ordering = settings.relaxed_ordering;
  return use;
}

Status in_transport(const NodeSettings& settings, const Status& s) {
  return s.ok() ? Status{} : Status{s.code(), "transport '" + settings.transport + "': " + s.text()};
}
}  // namespace

const TransportRow* find_transport(std::string_view name) noexcept {
  for (const TransportRow& row : kTransports)
    if (row.name == name) return &row;
  return nullptr;
}

Status Rails::probe(const NodeSettings& settings, const Outside& outside, bool all, std::unique_ptr<Driver>* driver,
                    std::vector<DeviceInfo>* found) {
  const TransportRow* row = find_transport(settings.transport);
  if (row == nullptr) {
    std::string list;
    for (const TransportRow& known : kTransports) list.append(list.empty() ? "" : ", ").append(known.name);
    return {Code::kNotFound, "transport '" + settings.transport + "' is not known; known: " + list};
  }
  Status s = outside.driver(row->driver, driver);
  if (s.ok()) s = all ? (*driver)->list(settings.provider, found) : (*driver)->probe(settings.provider, found);
  return in_transport(settings, s);
}

std::vector<DeviceInfo> Rails::choose(const NodeSettings& settings, const std::vector<DeviceInfo>& found) {
  std::vector<DeviceInfo> chosen;
  for (const std::string& name : settings.devices) {
    const auto named = std::ranges::find(found, name, &DeviceInfo::name);
    chosen.push_back(named != found.end() ? *named : DeviceInfo{});
    if (named != found.end()) continue;
    chosen.back().name = name;  // the driver knows why it is not there
    chosen.back().provider = settings.provider == "auto" ? "" : settings.provider;
  }
  if (!chosen.empty()) return chosen;
  const DeviceInfo* first = found.data();
  bool listens = false;
  Address listen;
  std::vector<SockAddr> targets;
  if (parse_address(settings.listen, AddressUse::kListen, 0, &listen).ok() && !listen.host.empty() &&
      resolve(listen, AddressUse::kListen, &targets).ok()) {
    for (const DeviceInfo& info : found)
      for (const SockAddr& target : targets)
        if (address_of(target).host == info.address) {
          first = &info;
          listens = true;
        }
  }
  chosen.push_back(*first);
  const TransportRow* row = find_transport(settings.transport);
  if (row == nullptr || !row->one_sided || (listens && first->loopback)) return chosen;
  for (const DeviceInfo& info : found)
    if (&info != first && info.provider == first->provider && !info.loopback && chosen.size() < kMaxRails)
      chosen.push_back(info);
  return chosen;
}

Rails::~Rails() = default;

Status Rails::open(const NodeSettings& settings, const Outside& outside) {
  std::vector<DeviceInfo> found;
  if (Status s = probe(settings, outside, false, &driver_, &found); !s.ok()) return s;
  one_sided_ = find_transport(settings.transport)->one_sided;
  const std::vector<DeviceInfo> chosen = choose(settings, found);
  const size_t most = one_sided_ ? kMaxRails : 1;
  if (chosen.size() > most)
    return {Code::kLimit, "device: " + std::to_string(chosen.size()) + " names, but transport '" + settings.transport +
                              "' takes at most " + std::to_string(most)};
  for (const DeviceInfo& info : chosen) {
    std::unique_ptr<Device> device;
    if (Status s = driver_->open(info, use_of(settings, one_sided_), &device); !s.ok())
      return in_transport(settings, s);
    devices_.push_back(std::move(device));
  }
  return Code::kOk;
}

std::string Rails::names() const {
  std::string list;
  for (const auto& device : devices_) list.append(list.empty() ? "" : ",").append(device->info().name);
  return list;
}

Status Rails::register_region(Region& region) {
  if (!one_sided_) return Code::kOk;  // two-sided data goes through bounce memory
  const std::lock_guard lock(lock_);
  return sluice::register_region(region, rails(), {.remote = true});
}

Status Rails::deregister_region(Region& region) {
  if (!one_sided_) return Code::kOk;
  const std::lock_guard lock(lock_);
  return sluice::deregister_region(region, rails(), {.remote = true});
}

std::vector<Device*> Rails::rails() const {
  std::vector<Device*> list;
  for (const auto& device : devices_) list.push_back(device.get());
  return list;
}

}  // namespace sluice
