#include "ofi_loader.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string>

#include "mem/device_memory.h"
#include "profile.h"

namespace sluice::fabric {
namespace {

// A newer library's default symbols take larger structures, and keep the older ones under their versions: ask for the
// version whose layout our headers have. Headers newer than those known here match the library's own default.
constexpr uint32_t kHeaders = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
constexpr const char* info_symbol_version() {
  if (kHeaders < FI_VERSION(1, 20)) return "FABRIC_1.3";
  if (kHeaders < FI_VERSION(2, 0)) return "FABRIC_1.7";
  if (kHeaders < FI_VERSION(2, 2)) return "FABRIC_1.8";
  return nullptr;
}

struct Loaded {
  OfiApi api{};
  Status status;
};

template <typename Fn>
bool resolve(void* library, const char* name, const char* version, Fn* out, std::string* missing) {
  void* found = version != nullptr ? dlvsym(library, name, version) : dlsym(library, name);
  if (found == nullptr && missing->empty()) *missing = std::string(name) + "@" + (version != nullptr ? version : "");
  *out = reinterpret_cast<Fn>(found);
  return found != nullptr;
}

void load(Loaded* loaded) {
  set_provider_variables(DeviceMemory::installed());
  void* library = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* why = dlerror();
    loaded->status = {Code::kUnsupported, std::string("libfabric cannot be loaded (") + (why != nullptr ? why : "?") +
                                              "); install the package libfabric1"};
    return;
  }
  std::string missing;
  OfiApi& api = loaded->api;
  api.verbs_max_region = ask_verbs_max_region;
  constexpr const char* kInfo = info_symbol_version();
  const bool all = resolve(library, "fi_getinfo", kInfo, &api.getinfo, &missing) &&
                   resolve(library, "fi_freeinfo", kInfo, &api.freeinfo, &missing) &&
                   resolve(library, "fi_dupinfo", kInfo, &api.dupinfo, &missing) &&
                   resolve(library, "fi_fabric", "FABRIC_1.1", &api.fabric, &missing) &&
                   resolve(library, "fi_version", "FABRIC_1.0", &api.version, &missing) &&
                   resolve(library, "fi_strerror", "FABRIC_1.0", &api.strerror, &missing);
  if (!all)
    loaded->status = {Code::kUnsupported, "libfabric.so.1 has no symbol " + missing + "; this program was built for " +
                                              std::to_string(FI_MAJOR_VERSION) + "." +
                                              std::to_string(FI_MINOR_VERSION) + ": install that libfabric1 or newer"};
}

}  // namespace

void set_provider_variables(bool gpu) {
  for (const Profile& row : profiles())
    if (!row.variable.empty() && !(gpu && row.variable_without_gpu))
      (void)setenv(std::string(row.variable).c_str(), std::string(row.value).c_str(), 0);
}

Status load_ofi(const OfiApi** out) {
  static Loaded loaded;
  static std::once_flag once;
  std::call_once(once, load, &loaded);
  *out = &loaded.api;
  return loaded.status;
}

uint32_t api_version(const OfiApi& api, uint32_t wanted) noexcept {
  return std::min(api.version(), std::max(kHeaders, wanted));
}

}  // namespace sluice::fabric
