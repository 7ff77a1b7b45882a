// The out-of-band messages: whatever parses must encode to a text that parses to the same text again.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "meta/message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::OobMessage message;
  if (!sluice::parse_message({reinterpret_cast<const char*>(data), size}, &message).ok()) return 0;
  std::string once, twice;
  if (!sluice::encode_message(message, &once).ok()) return 0;  // our form can be longer than what was read
  sluice::OobMessage again;
  if (!sluice::parse_message(once, &again).ok() || again.index() != message.index()) __builtin_trap();
  if (!sluice::encode_message(again, &twice).ok() || once != twice) __builtin_trap();
  return 0;
}
