// Addresses: what parses must come back the same through format_address().
#include <cstddef>
#include <cstdint>

#include "meta/address.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using sluice::AddressUse;
  if (size == 0) return 0;
  const auto use = (data[0] & 1) != 0 ? AddressUse::kListen : AddressUse::kConnect;
  const uint16_t default_port = (data[0] & 2) != 0 ? 7000 : 0;
  sluice::Address address, again;
  if (!sluice::parse_address({reinterpret_cast<const char*>(data) + 1, size - 1}, use, default_port, &address).ok())
    return 0;
  if (!sluice::parse_address(sluice::format_address(address), use, 0, &again).ok()) __builtin_trap();
  if (!(again == address)) __builtin_trap();
  return 0;
}
