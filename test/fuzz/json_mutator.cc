// A mutator for out-of-band messages: it changes one value of the JSON text, so that what it makes is JSON still. What
// is not JSON is left to libFuzzer's own mutations.
#include <array>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using Random = std::minstd_rand;
using Json = nlohmann::json;

Json value(Random& random) {
  static const std::array<Json, 18> kValues = {0,
                                               1,
                                               -1,
                                               65536,
                                               4294967296,
                                               18446744073709551615ull,
                                               1.5,
                                               1e300,
                                               true,
                                               nullptr,
                                               "",
                                               "0",
                                               "18446744073709551615",
                                               "18446744073709551616",
                                               "-1",
                                               "zz",
                                               Json::array(),
                                               Json::object()};
  return kValues[random() % kValues.size()];
}

void change(Json& node, Random& random) {
  if ((node.is_object() || node.is_array()) && !node.empty() && random() % 8 != 0) {
    auto at = node.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(random() % node.size()));
    if (random() % 8 == 0) {
      node.erase(at);
    } else if (node.is_array() && random() % 4 == 0) {
      node.push_back(*at);
    } else {
      change(*at, random);
    }
    return;
  }
  if (node.is_string() && random() % 2 == 0) {
    auto text = node.get<std::string>();
    node = random() % 2 == 0 ? text + text : text.substr(0, text.size() / 2);
  } else {
    node = value(random);
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  Random random(seed + 1);
  Json json = Json::parse(data, data + size, nullptr, false);
  if (random() % 4 == 0 || json.is_discarded()) return LLVMFuzzerMutate(data, size, max_size);
  change(json, random);
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.empty() || text.size() > max_size) return size;
  std::memcpy(data, text.data(), text.size());
  return text.size();
}
