#include "blob.h"

#include <netinet/in.h>
#include <rdma/fabric.h>

#include <algorithm>
#include <string>

#include "base/bytes.h"

namespace sluice::fabric {
namespace {
constexpr uint32_t kMagic = 0x424F4653;  // "SFOB"
constexpr uint8_t kVersion = 1;
constexpr size_t kHeadBytes = 12;
}  // namespace

std::vector<std::byte> encode_blob(const Blob& blob) {
  std::vector<std::byte> out(kHeadBytes + blob.provider.size() + blob.address.size());
  std::byte* to = out.data();
  store_le<uint32_t>(to, kMagic);
  store_le<uint8_t>(to + 4, kVersion);
  store_le<uint8_t>(to + 5, static_cast<uint8_t>(blob.provider.size()));
  store_le<uint16_t>(to + 6, static_cast<uint16_t>(blob.address.size()));
  store_le<uint32_t>(to + 8, blob.address_format);
  std::memcpy(to + kHeadBytes, blob.provider.data(), blob.provider.size());
  if (!blob.address.empty())
    std::memcpy(to + kHeadBytes + blob.provider.size(), blob.address.data(), blob.address.size());
  return out;
}

Status parse_blob(std::span<const std::byte> bytes, Blob* out) {
  const std::string size = std::to_string(bytes.size());
  if (bytes.size() < kHeadBytes)
    return {Code::kBadArgument, "fabric address of " + size + " bytes is shorter than its header of 12"};
  if (load_le<uint32_t>(bytes.data()) != kMagic)
    return {Code::kBadArgument, "not a fabric address (first four bytes); the peer's queue is of another driver"};
  const auto version = load_le<uint8_t>(bytes.data() + 4);
  if (version != kVersion)
    return {Code::kBadArgument, "fabric address has version " + std::to_string(version) +
                                    ", known is 1: run the same release at both ends"};
  const size_t provider_len = load_le<uint8_t>(bytes.data() + 5);
  const size_t address_len = load_le<uint16_t>(bytes.data() + 6);
  if (provider_len == 0 || address_len == 0 || bytes.size() != kHeadBytes + provider_len + address_len)
    return {Code::kBadArgument, "fabric address of " + size + " bytes says it has 12 + " +
                                    std::to_string(provider_len) + " + " + std::to_string(address_len)};
  const auto* text = reinterpret_cast<const char*>(bytes.data() + kHeadBytes);
  *out = {{text, provider_len}, load_le<uint32_t>(bytes.data() + 8), bytes.subspan(kHeadBytes + provider_len)};
  return Code::kOk;
}

bool address_fits(uint32_t format, std::span<const std::byte> address) noexcept {
  const auto family = [&] { return address.size() >= 2 ? load_le<uint16_t>(address.data()) : uint16_t{0}; };
  switch (format) {
    case FI_SOCKADDR_IN: return address.size() == sizeof(sockaddr_in) && family() == AF_INET;
    case FI_SOCKADDR_IN6: return address.size() == sizeof(sockaddr_in6) && family() == AF_INET6;
    case FI_SOCKADDR:
      return (address.size() == sizeof(sockaddr_in) && family() == AF_INET) ||
             (address.size() == sizeof(sockaddr_in6) && family() == AF_INET6);
    case FI_ADDR_STR: return std::find(address.begin(), address.end(), std::byte{0}) == address.end() - 1;
    default: return true;  // fixed-size binary of the provider's own; the blob's exact length is all that can be judged
  }
}

}  // namespace sluice::fabric
