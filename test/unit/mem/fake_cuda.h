/// What the fake GPU driver (fake_cuda.cc, a library of its own) keeps: found with dlsym("fake_cuda").
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

struct FakeCuda {
  int devices = 2;
  int fail_retain = 0, fail_push = 0, fail_pop = 0;  // what the call returns
  uint64_t base = 0;                                 // the one allocation
  size_t bytes = 0;
  int owner = 1;          // the device that it is on
  bool on_device = true;  // else memory of the host that the driver knows
  int retains = 0, releases = 0;
  std::vector<int> stack;  // of contexts, which are named as their devices; of the calling thread
  std::string calls;
};
