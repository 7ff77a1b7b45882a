/// @file device_memory.h
/// Memory of a GPU: which device an address belongs to, and that device's context around calls that need one.
///
/// Model    CUDA's driver library, opened with dlopen when it is first asked for, so that a program runs without it.
///          A call on behalf of a buffer runs with the primary context of the buffer's own device current, whatever the
///          thread had before, and leaves the thread as it was. Retains and releases are balanced.
/// Threads  Slow calls, any thread. The object is constant.
/// Memory   The library stays loaded. No byte of the memory itself is touched.
/// Errors   Without a GPU one line says so (kUnsupported). Errors of the library name call, device and address.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/status.h"

namespace sluice {

class DeviceMemory {
 public:
  /// From @p library. @return kUnsupported: it cannot be loaded, lacks a symbol, or finds no GPU.
  static Status load(const char* library, std::unique_ptr<DeviceMemory>* out);
  /// The process's own. @return as load(), the same each time.
  static Status process(const DeviceMemory** out);
  /// Whether the library is installed, without starting it.
  static bool installed() noexcept;

  /// The device that [@p addr, @p addr + @p bytes) lies on. @return kBadArgument: not, or not wholly, memory of one
  /// allocation of a device.
  Status locate(const void* addr, uint64_t bytes, int* device) const;
  /// Run @p work on this thread with the context of @p device. @return kDeviceError, or what @p work returns.
  Status in_context(int device, const void* addr, const std::function<Status()>& work) const;

 private:
  using Result = int;
  DeviceMemory() = default;
  Status failed(const char* call, Result result, int device, const void* addr) const;

  Result (*init_)(unsigned flags) = nullptr;
  Result (*device_get_)(int* device, int ordinal) = nullptr;
  Result (*retain_)(void** context, int device) = nullptr;
  Result (*release_)(int device) = nullptr;
  Result (*push_)(void* context) = nullptr;
  Result (*pop_)(void** context) = nullptr;
  Result (*attribute_)(void* out, int attribute, uint64_t addr) = nullptr;
  Result (*range_)(uint64_t* base, size_t* bytes, uint64_t addr) = nullptr;
  Result (*error_name_)(Result result, const char** name) = nullptr;
};

}  // namespace sluice
