// Counts what this program takes from the heap by new. In a file of its own, so that the compiler does not see through.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

std::atomic<uint64_t> g_heap_calls{0};

// The sanitizers' runtimes have these: TSan's takes no others, and ASan's misses those that throw nothing. In those
// flavours nothing is counted.
#if defined(__SANITIZE_ADDRESS__)
#define SLUICE_OWN_NEW
#endif
#ifdef __has_feature
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SLUICE_OWN_NEW
#endif
#endif
#ifndef SLUICE_OWN_NEW
void* operator new(size_t bytes) {
  ++g_heap_calls;
  void* at = std::malloc(bytes == 0 ? 1 : bytes);
  if (at == nullptr) std::abort();
  return at;
}
void operator delete(void* at) noexcept { std::free(at); }
void operator delete(void* at, size_t) noexcept { std::free(at); }
#endif
