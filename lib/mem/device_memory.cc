#include "mem/device_memory.h"

#include <dlfcn.h>

#include <cstdio>
#include <mutex>
#include <string>

#include "base/bytes.h"

namespace sluice {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";
// Of CUDA's ABI.
constexpr int kMemoryType = 2, kDeviceOrdinal = 9, kTypeDevice = 2;

template <typename Fn>
bool resolve(void* library, const char* name, Fn* out, std::string* missing) {
  void* found = dlsym(library, name);
  if (found == nullptr && missing->empty()) *missing = name;
  *out = reinterpret_cast<Fn>(found);
  return found != nullptr;
}

std::string address_text(const void* addr) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", addr);
  return text;
}

struct Process {
  Status status;
  std::unique_ptr<DeviceMemory> memory;
};

}  // namespace

Status DeviceMemory::load(const char* library, std::unique_ptr<DeviceMemory>* out) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr)
    return {Code::kUnsupported,
            std::string("no device memory here: the GPU driver's ") + library + " is not installed"};
  std::unique_ptr<DeviceMemory> made(new DeviceMemory);
  std::string missing;
  const bool all = resolve(handle, "cuInit", &made->init_, &missing) &&
                   resolve(handle, "cuDeviceGet", &made->device_get_, &missing) &&
                   resolve(handle, "cuDevicePrimaryCtxRetain", &made->retain_, &missing) &&
                   resolve(handle, "cuDevicePrimaryCtxRelease_v2", &made->release_, &missing) &&
                   resolve(handle, "cuCtxPushCurrent_v2", &made->push_, &missing) &&
                   resolve(handle, "cuCtxPopCurrent_v2", &made->pop_, &missing) &&
                   resolve(handle, "cuPointerGetAttribute", &made->attribute_, &missing) &&
                   resolve(handle, "cuMemGetAddressRange_v2", &made->range_, &missing) &&
                   resolve(handle, "cuGetErrorName", &made->error_name_, &missing);
  if (!all)
    return {Code::kUnsupported,
            std::string("no device memory here: ") + library + " has no " + missing + "; install a newer GPU driver"};
  if (const Result result = made->init_(0); result != 0)
    return {Code::kUnsupported, "no device memory here: " + made->failed("cuInit", result, -1, nullptr).text()};
  *out = std::move(made);
  return Code::kOk;
}

Status DeviceMemory::process(const DeviceMemory** out) {
  static Process own;
  static std::once_flag once;
  std::call_once(once, [] { own.status = load(kLibrary, &own.memory); });
  *out = own.memory.get();
  return own.status;
}

bool DeviceMemory::installed() noexcept {
  void* handle = dlopen(kLibrary, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
  return handle != nullptr;
}

Status DeviceMemory::failed(const char* call, Result result, int device, const void* addr) const {
  const char* name = nullptr;
  if (error_name_(result, &name) != 0 || name == nullptr) name = "unknown";
  std::string text = std::string(call) + " failed: " + name + " (" + std::to_string(result) + ")";
  if (device >= 0) text += ", device " + std::to_string(device);
  if (addr != nullptr) text += ", memory at " + address_text(addr);
  return {Code::kDeviceError, std::move(text)};
}

Status DeviceMemory::locate(const void* addr, uint64_t bytes, int* device) const {
  const auto at = reinterpret_cast<uintptr_t>(addr);
  unsigned type = 0;
  uint64_t base = 0;
  size_t length = 0;
  if (attribute_(&type, kMemoryType, at) != 0 || type != kTypeDevice || range_(&base, &length, at) != 0)
    return {Code::kBadArgument, "memory at " + address_text(addr) + " is not a device's"};
  if (at < base || !range_ok(at - base, bytes, length))
    return {Code::kBadArgument, "memory at " + address_text(addr) + " of " + std::to_string(bytes) +
                                    " bytes: its allocation ends after " + std::to_string(base + length - at)};
  const Result result = attribute_(device, kDeviceOrdinal, at);
  return result == 0 ? Status{} : failed("cuPointerGetAttribute", result, -1, addr);
}

Status DeviceMemory::in_context(int device, const void* addr, const std::function<Status()>& work) const {
  int handle = 0;
  void* context = nullptr;
  if (const Result r = device_get_(&handle, device); r != 0) return failed("cuDeviceGet", r, device, addr);
  if (const Result r = retain_(&context, handle); r != 0) return failed("cuDevicePrimaryCtxRetain", r, device, addr);
  Status status;
  if (const Result r = push_(context); r != 0) {
    status = failed("cuCtxPushCurrent", r, device, addr);
  } else {
    status = work();
    const Result popped = pop_(&context);
    if (popped != 0 && status.ok()) status = failed("cuCtxPopCurrent", popped, device, addr);
  }
  (void)release_(handle);
  return status;
}

}  // namespace sluice
