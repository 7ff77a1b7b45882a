// Node descriptors: what parses must come back the same through its own text.
#include <cstddef>
#include <cstdint>
#include <string>

#include "meta/descriptor.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::NodeDescriptor node, again;
  if (!sluice::parse_descriptor({reinterpret_cast<const char*>(data), size}, &node).ok()) return 0;
  std::string text;
  if (!sluice::encode_descriptor(node, &text).ok()) return 0;  // numbers written short can be longer in our form
  if (!sluice::parse_descriptor(text, &again).ok() || !(node == again)) __builtin_trap();
  return 0;
}
