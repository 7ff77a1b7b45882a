// What libfabric does not tell of an RDMA device: the largest region. libibverbs is loaded for it, where it is.
#include <dlfcn.h>

#include <cstddef>
#include <cstring>

#include "ofi_loader.h"

namespace sluice::fabric {
namespace {

// The beginning of struct ibv_device_attr, and room for the rest of it; the layout is ABI.
struct DeviceAttr {
  char firmware[64];
  uint64_t node_guid, system_guid;
  uint64_t max_region;
  std::byte rest[1024];
};

struct Verbs {
  void** (*get_device_list)(int* count);
  void (*free_device_list)(void** list);
  const char* (*get_device_name)(void* device);
  void* (*open_device)(void* device);
  int (*close_device)(void* context);
  int (*query_device)(void* context, DeviceAttr* attr);
};

template <typename Fn>
bool resolve(void* library, const char* name, Fn* out) {
  *out = reinterpret_cast<Fn>(dlsym(library, name));
  return *out != nullptr;
}

bool load_verbs(Verbs* out) {
  void* library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  return library != nullptr && resolve(library, "ibv_get_device_list", &out->get_device_list) &&
         resolve(library, "ibv_free_device_list", &out->free_device_list) &&
         resolve(library, "ibv_get_device_name", &out->get_device_name) &&
         resolve(library, "ibv_open_device", &out->open_device) &&
         resolve(library, "ibv_close_device", &out->close_device) &&
         resolve(library, "ibv_query_device", &out->query_device);
}

}  // namespace

uint64_t ask_verbs_max_region(const char* name) {
  Verbs verbs;
  if (!load_verbs(&verbs)) return 0;
  int count = 0;
  void** list = verbs.get_device_list(&count);
  if (list == nullptr) return 0;
  uint64_t found = 0;
  for (int i = 0; i < count; ++i) {
    if (std::strcmp(verbs.get_device_name(list[i]), name) != 0) continue;
    void* context = verbs.open_device(list[i]);
    if (context == nullptr) continue;
    DeviceAttr attr{};
    if (verbs.query_device(context, &attr) == 0) found = attr.max_region;
    (void)verbs.close_device(context);
  }
  verbs.free_device_list(list);
  return found;
}

}  // namespace sluice::fabric
