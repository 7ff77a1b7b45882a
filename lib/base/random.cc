#include "base/random.h"

#include <sys/random.h>

namespace sluice {

uint64_t random_u64() noexcept {
  uint64_t value = 0;
  while (value == 0)
    if (getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) value = 0;
  return value;
}

}  // namespace sluice
