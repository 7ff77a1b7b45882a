#include "xport/registry.h"

namespace sluice {

Status make_driver(std::string_view name, std::unique_ptr<Driver>* out) {
  std::string list;
  for (const DriverEntry& entry : built_in_drivers()) {
    if (entry.name == name) {
      *out = entry.make();
      return Code::kOk;
    }
    list.append(list.empty() ? "" : ", ").append(entry.name);
  }
  return {Code::kNotFound, "driver '" + std::string(name) + "' is not built in; built in: " + list};
}

}  // namespace sluice
