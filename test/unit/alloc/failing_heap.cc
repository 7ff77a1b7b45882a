#include "failing_heap.h"

#include <cerrno>
#include <cstdlib>
#include <new>

namespace {
thread_local bool armed = false;
thread_local uint64_t fails_at = 0;
thread_local sluice::test::Tally tally{};

// Whether this allocation is to succeed.
bool granted() noexcept {
  if (!armed) return true;
  if (++tally.allocations == fails_at) {
    tally.failed = true;
    return false;
  }
  ++tally.left;
  return true;
}
void gone(const void* at) noexcept {
  if (armed && at != nullptr) --tally.left;
}
}  // namespace

void sluice::test::arm(uint64_t n) noexcept {
  tally = {};
  fails_at = n;
  armed = true;
}
sluice::test::Tally sluice::test::disarm() noexcept {
  armed = false;
  return tally;
}

extern "C" {
void* __real_malloc(size_t);
void* __real_calloc(size_t, size_t);
void* __real_aligned_alloc(size_t, size_t);
void __real_free(void*);
void* __wrap_malloc(size_t bytes) { return granted() ? __real_malloc(bytes) : (errno = ENOMEM, nullptr); }
void* __wrap_calloc(size_t n, size_t bytes) { return granted() ? __real_calloc(n, bytes) : (errno = ENOMEM, nullptr); }
void* __wrap_aligned_alloc(size_t alignment, size_t bytes) {
  return granted() ? __real_aligned_alloc(alignment, bytes) : (errno = ENOMEM, nullptr);
}
void __wrap_free(void* at) {
  gone(at);
  __real_free(at);
}
}

void* operator new(size_t bytes) {
  void* at = granted() ? __real_malloc(bytes == 0 ? 1 : bytes) : nullptr;
  if (at == nullptr) throw std::bad_alloc();
  return at;
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return granted() ? __real_malloc(bytes == 0 ? 1 : bytes) : nullptr;
}
void operator delete(void* at) noexcept {
  gone(at);
  __real_free(at);
}
void operator delete(void* at, size_t) noexcept { operator delete(at); }
