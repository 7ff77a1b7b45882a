// A pool needs EAL; this is the least of it, without hugepages. It also counts heap calls, for the law that a turn
// makes none.
#include "main.h"

#include <gtest/gtest.h>
#include <rte_eal.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace {
uint64_t heap_calls_made = 0;
}

uint64_t heap_calls() noexcept { return heap_calls_made; }

void* operator new(size_t bytes) {
  ++heap_calls_made;
  if (void* at = std::malloc(bytes)) return at;
  std::abort();
}
void operator delete(void* at) noexcept {
  ++heap_calls_made;
  std::free(at);
}
void operator delete(void* at, size_t) noexcept { operator delete(at); }

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::array<const char*, 8> args{"unit_mem",       "--no-huge", "--no-shconf", "--no-pci",
                                  "--no-telemetry", "-m",        "64",          "--log-level=error"};
  if (rte_eal_init(static_cast<int>(args.size()), const_cast<char**>(args.data())) < 0) {
    std::fputs("EAL does not start\n", stderr);
    return 1;
  }
  const int result = RUN_ALL_TESTS();
  rte_eal_cleanup();
  return result;
}
