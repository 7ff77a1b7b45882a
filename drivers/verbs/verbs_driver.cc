#include "verbs_driver.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "device.h"
#include "discovery.h"

namespace sluice::verbs {

Status VerbsDriver::probe(std::string_view provider, std::vector<DeviceInfo>* out) {
  if (!provider.empty() && provider != "auto")
    return {Code::kNotFound, "verbs has devices and no providers: leave provider at auto, not '" +
                                 std::string(provider) + "', and choose by device"};
  std::string why_not;
  std::vector<DeviceInfo> found = list_ports(&why_not);
  if (found.empty())
    return {Code::kUnsupported, "no RDMA port can be used: " + (why_not.empty() ? "there is no RDMA device" : why_not)};
  std::ranges::move(found, std::back_inserter(*out));
  return Code::kOk;
}

Status VerbsDriver::open(const DeviceInfo& info, const DeviceUse& use, std::unique_ptr<Device>* out) {
  std::string device;
  uint32_t port = 1;
  parse_port_name(info.name, &device, &port);
  ContextPtr context;
  if (Status status = open_context(device, &context); !status.ok()) return status;
  return VerbsDevice::make(std::move(context), port, use, out);
}

}  // namespace sluice::verbs

namespace sluice {
std::unique_ptr<Driver> make_verbs_driver();
std::unique_ptr<Driver> make_verbs_driver() { return std::make_unique<verbs::VerbsDriver>(); }
}  // namespace sluice
