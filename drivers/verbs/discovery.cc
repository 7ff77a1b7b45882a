#include "discovery.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "errors.h"
#include "xport/pair_options.h"

namespace sluice::verbs {
namespace {
namespace fs = std::filesystem;

constexpr size_t kMaxGids = 256;

/// The devices that there are, until it goes.
class DeviceList {
 public:
  DeviceList() : list_(ibv_get_device_list(&count_)) {}
  ~DeviceList() {
    if (list_ != nullptr) ibv_free_device_list(list_);
  }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;
  ibv_device** begin() const noexcept { return list_; }
  ibv_device** end() const noexcept { return list_ == nullptr ? nullptr : list_ + count_; }

 private:
  int count_ = 0;
  ibv_device** list_;
};

void add_reason(std::string* to, const std::string& name, std::string_view why) {
  to->append(to->empty() ? "" : "; ").append(name).append(": ").append(why);
}

// Soft devices hang on no bus.
void read_place(const ibv_device& device, DeviceInfo* info) {
  std::error_code error;
  const fs::path bus = fs::read_symlink(fs::path(device.ibdev_path) / "device", error);
  if (error) return;
  info->pci = bus.filename();
  std::ifstream numa(fs::path(device.ibdev_path) / "device/numa_node");
  if (int node = -1; numa >> node) info->numa_node = node;
}

void list_device(ibv_device* device, std::vector<DeviceInfo>* out, std::string* why_not) {
  const std::string name = ibv_get_device_name(device);
  const ContextPtr context(ibv_open_device(device));
  ibv_device_attr attr{};
  if (!context || ibv_query_device(context.get(), &attr) != 0)
    return add_reason(why_not, name, "cannot be opened (is /dev/infiniband there, and may this user open it?)");
  for (uint32_t port = 1; port <= attr.phys_port_cnt; ++port) {
    ibv_port_attr state{};
    if (ibv_query_port(context.get(), static_cast<uint8_t>(port), &state) != 0) continue;
    const std::string_view why = refusal_of(device->node_type, device->transport_type, state.link_layer);
    if (!why.empty()) {
      add_reason(why_not, port_name(name, port), why);
    } else if (state.state != IBV_PORT_ACTIVE) {
      add_reason(why_not, port_name(name, port), std::string("its port is ") + ibv_port_state_str(state.state));
    } else {
      out->push_back(describe_port(context.get(), port, state));
    }
  }
}

}  // namespace

std::string_view refusal_of(ibv_node_type node, ibv_transport_type transport, uint8_t link_layer) noexcept {
  if (transport == IBV_TRANSPORT_IWARP || node == IBV_NODE_RNIC)
    return "iWARP, whose queue pairs only a connection manager connects";
  if (node != IBV_NODE_CA || transport != IBV_TRANSPORT_IB)
    return "no reliable queue pairs; is there a libfabric provider for it? Use transport fabric";
  if (link_layer != IBV_LINK_LAYER_INFINIBAND && link_layer != IBV_LINK_LAYER_ETHERNET)
    return "neither InfiniBand nor Ethernet";
  return {};
}

uint64_t port_rate(uint8_t speed, uint8_t width) noexcept {
  struct Row {
    uint8_t code;
    uint64_t value;
  };
  static constexpr Row kLaneMbit[] = {{1, 2'500},   {2, 5'000},   {4, 10'000},  {8, 10'000},
                                      {16, 14'000}, {32, 25'000}, {64, 50'000}, {128, 100'000}};
  static constexpr Row kLanes[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
  uint64_t rate = 1'000'000;
  for (const auto& [rows, code] : {std::pair(std::span<const Row>(kLaneMbit), speed), {kLanes, width}}) {
    uint64_t value = 0;
    for (const Row& row : rows)
      if (row.code == code) value = row.value;
    rate *= value;
  }
  return rate;
}

std::string port_name(std::string_view device, uint32_t port) {
  std::string name(device);
  return port == 1 ? name : name + ":" + std::to_string(port);
}

void parse_port_name(std::string_view name, std::string* device, uint32_t* port) {
  *port = 1;
  const size_t colon = name.rfind(':');
  *device = name.substr(0, colon);
  if (colon == std::string_view::npos) return;
  const std::string_view digits = name.substr(colon + 1);
  uint8_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error == std::errc{} && end == digits.data() + digits.size() && number != 0) {
    *port = number;
  } else {
    *device = name;
  }
}

std::vector<DeviceInfo> list_ports(std::string* why_not) {
  std::vector<DeviceInfo> out;
  for (ibv_device* device : DeviceList()) list_device(device, &out, why_not);
  return out;
}

Status open_context(const std::string& name, ContextPtr* out) {
  std::string names;
  const DeviceList list;
  for (ibv_device* device : list) {
    if (name == ibv_get_device_name(device)) {
      out->reset(ibv_open_device(device));
      return *out ? Status{} : status_of("opening the device", name, errno);
    }
    names.append(names.empty() ? "" : ", ").append(ibv_get_device_name(device));
  }
  return {Code::kNotFound, "no RDMA device '" + name + "'; there are: " + (names.empty() ? "none" : names)};
}

std::vector<GidEntry> read_gids(ibv_context* context, uint32_t port) {
  std::array<ibv_gid_entry, kMaxGids> raw;
  const auto count = ibv_query_gid_table(context, raw.data(), raw.size(), 0);
  std::vector<GidEntry> out;
  for (ssize_t i = 0; i < count; ++i) {
    const ibv_gid_entry& from = raw[static_cast<size_t>(i)];
    if (from.port_num != port) continue;
    GidEntry entry{from.gid_index, GidKind::kInfiniBand, {}, from.ndev_ifindex != 0};
    if (from.gid_type == IBV_GID_TYPE_ROCE_V1) entry.kind = GidKind::kRoceV1;
    if (from.gid_type == IBV_GID_TYPE_ROCE_V2) entry.kind = GidKind::kRoceV2;
    std::memcpy(entry.gid.data(), from.gid.raw, entry.gid.size());
    out.push_back(entry);
  }
  return out;
}

DeviceInfo describe_port(ibv_context* context, uint32_t port, const ibv_port_attr& attr) {
  DeviceInfo info;
  info.name = port_name(ibv_get_device_name(context->device), port);
  info.bits_per_s = port_rate(attr.active_speed, attr.active_width);
  const bool by_lid = attr.link_layer == IBV_LINK_LAYER_INFINIBAND;
  GidChoice gid;
  if (choose_gid(read_gids(context, port), PairOptions::kAnyGid, by_lid, &gid).ok())
    info.address = by_lid ? "LID " + std::to_string(attr.lid) : gid_text(gid.entry.gid);
  read_place(*context->device, &info);
  return info;
}

}  // namespace sluice::verbs
