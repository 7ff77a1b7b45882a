/// @file ofi_loader.h
/// libfabric as loaded at run time: the entry points from which everything else hangs.
///
/// Model    The library is opened with dlopen at the first probe, so that a program runs without it. Every other
///          call of libfabric goes through the tables inside the objects that these make; a test hands the driver its
///          own. The seventh asks libibverbs, which knows of a device what libfabric does not tell.
/// Threads  load_ofi: any; it loads once, and first sets the environment variables of the profile table that are not
///          set (no other thread may change the environment meanwhile). The table is constant.
/// Memory   The library stays loaded: its providers leave threads and exit handlers behind.
/// Errors   kUnsupported names the package, or the symbol and version that the library lacks.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include <cstdint>
#include <memory>

#include "base/status.h"

namespace sluice::fabric {

/// Structure layouts changed with symbol versions; these types are those of the headers that we were built with.
struct OfiApi {
  int (*getinfo)(uint32_t version, const char* node, const char* service, uint64_t flags, const fi_info* hints,
                 fi_info** info);
  void (*freeinfo)(fi_info* info);
  fi_info* (*dupinfo)(const fi_info* info);
  int (*fabric)(fi_fabric_attr* attr, fid_fabric** fabric, void* context);
  uint32_t (*version)();
  const char* (*strerror)(int errnum);
  /// The largest region of the RDMA device @p name; 0: not known.
  uint64_t (*verbs_max_region)(const char* name);
};

/// Load the library, once. @return kUnsupported with the reason.
Status load_ofi(const OfiApi** out);

/// Providers take some settings from the environment only, once, when they are loaded: set those of the profile table
/// that the user has not set. @p gpu: device memory can be registered here. Part of load_ofi.
void set_provider_variables(bool gpu);

/// The API version to ask for: what the library has, at most what our headers know or @p wanted. Structures have the
/// layout of the symbols that we load, whatever version is asked for.
uint32_t api_version(const OfiApi& api, uint32_t wanted) noexcept;

/// Ask libibverbs, where it is installed. @return 0 when it does not know the device.
uint64_t ask_verbs_max_region(const char* name);

struct InfoDeleter {
  const OfiApi* api;
  void operator()(fi_info* info) const noexcept { api->freeinfo(info); }
};
using InfoPtr = std::unique_ptr<fi_info, InfoDeleter>;

/// A libfabric object, closed when it goes. What refuses to close is left open rather than freed twice.
struct FidDeleter {
  template <typename Fid>
  void operator()(Fid* object) const noexcept {
    fi_close(&object->fid);
  }
};
template <typename Fid>
using FidPtr = std::unique_ptr<Fid, FidDeleter>;

}  // namespace sluice::fabric
