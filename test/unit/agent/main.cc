// Pools need EAL: the least of it, without hugepages. And the heap is counted, for the law that a turn does not use it.
#include <gtest/gtest.h>
#include <rte_eal.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "heap.h"

namespace {
std::atomic<uint64_t> calls{0};
}

uint64_t sluice::test::heap_calls() noexcept { return calls.load(std::memory_order_relaxed); }

extern "C" {
void* __real_malloc(size_t);
void* __real_calloc(size_t, size_t);
void* __real_realloc(void*, size_t);
void* __real_aligned_alloc(size_t, size_t);
void __real_free(void*);
void* __wrap_malloc(size_t bytes) {
  ++calls;
  return __real_malloc(bytes);
}
void* __wrap_calloc(size_t count, size_t bytes) {
  ++calls;
  return __real_calloc(count, bytes);
}
void* __wrap_realloc(void* at, size_t bytes) {
  ++calls;
  return __real_realloc(at, bytes);
}
void* __wrap_aligned_alloc(size_t alignment, size_t bytes) {
  ++calls;
  return __real_aligned_alloc(alignment, bytes);
}
void __wrap_free(void* at) {
  ++calls;
  __real_free(at);
}
}

#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if !defined(__SANITIZE_THREAD__) && !__has_feature(thread_sanitizer)  // TSan has its own, and allows no second
void* operator new(size_t bytes) {
  if (void* at = std::malloc(bytes == 0 ? 1 : bytes)) return at;
  std::abort();
}
void operator delete(void* at) noexcept { std::free(at); }
void operator delete(void* at, size_t) noexcept { std::free(at); }
#endif

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::array<const char*, 8> args{"unit_agent",     "--no-huge", "--no-shconf", "--no-pci",
                                  "--no-telemetry", "-m",        "64",          "--log-level=critical"};
  if (rte_eal_init(static_cast<int>(args.size()), const_cast<char**>(args.data())) < 0) {
    std::fputs("EAL does not start\n", stderr);
    return 1;
  }
  const int result = RUN_ALL_TESTS();
  rte_eal_cleanup();
  return result;
}
