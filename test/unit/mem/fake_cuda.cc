// A GPU driver library without a GPU: the calls that we use, over one state.
#include "fake_cuda.h"

namespace {
FakeCuda state;
void* context_of(int device) { return reinterpret_cast<void*>(static_cast<uintptr_t>(device) + 100); }
}  // namespace

extern "C" {
FakeCuda* fake_cuda();
int cuInit(unsigned);
int cuDeviceGet(int* device, int ordinal);
int cuDevicePrimaryCtxRetain(void** context, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuCtxPushCurrent_v2(void* context);
int cuCtxPopCurrent_v2(void** context);
int cuPointerGetAttribute(void* out, int attribute, uint64_t addr);
int cuMemGetAddressRange_v2(uint64_t* base, size_t* bytes, uint64_t addr);
int cuGetErrorName(int result, const char** name);

FakeCuda* fake_cuda() { return &state; }
int cuInit(unsigned) { return state.devices == 0 ? 100 : 0; }
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal + 10;  // a handle is no ordinal
  return ordinal < state.devices ? 0 : 101;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  if (state.fail_retain != 0) return state.fail_retain;
  ++state.retains;
  *context = context_of(device - 10);
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int) {
  ++state.releases;
  return 0;
}
int cuCtxPushCurrent_v2(void* context) {
  if (state.fail_push != 0) return state.fail_push;
  state.stack.push_back(static_cast<int>(reinterpret_cast<uintptr_t>(context)) - 100);
  return 0;
}
int cuCtxPopCurrent_v2(void** context) {
  *context = context_of(state.stack.back());
  state.stack.pop_back();
  return state.fail_pop;
}
int cuPointerGetAttribute(void* out, int attribute, uint64_t addr) {
  if (addr < state.base || addr >= state.base + state.bytes) return 1;
  *static_cast<int*>(out) = attribute == 2 ? (state.on_device ? 2 : 1) : state.owner;
  return 0;
}
int cuMemGetAddressRange_v2(uint64_t* base, size_t* bytes, uint64_t) {
  *base = state.base;
  *bytes = state.bytes;
  return 0;
}
int cuGetErrorName(int result, const char** name) {
  *name = result == 100 ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_FAKE";
  return 0;
}
}
