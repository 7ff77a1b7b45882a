#include "blob.h"

#include <string>

#include "base/bytes.h"

namespace sluice::verbs {
namespace {
constexpr uint32_t kMagic = 0x42525653;  // "SVRB"
constexpr uint8_t kVersion = 1;
constexpr size_t kBytes = 52;
constexpr uint8_t kMaxMtuCode = 5;

Status bad(const std::string& what) { return {Code::kBadArgument, "the address of the peer's queue pair " + what}; }
}  // namespace

std::vector<std::byte> encode_address(const EndAddress& end) {
  std::vector<std::byte> out(kBytes);
  std::byte* to = out.data();
  store_le<uint32_t>(to, kMagic);
  store_le<uint8_t>(to + 4, kVersion);
  store_le<uint8_t>(to + 5, static_cast<uint8_t>(end.kind));
  store_le<uint8_t>(to + 6, end.mtu_code);
  store_le<uint8_t>(to + 7, end.port);
  store_le<uint16_t>(to + 8, end.lid);
  store_le<uint8_t>(to + 10, end.reads);
  store_le<uint32_t>(to + 12, end.qp_number);
  store_le<uint32_t>(to + 16, end.psn);
  store_le<uint32_t>(to + 20, end.msg_bytes);
  store_le<uint32_t>(to + 24, end.rx_depth);
  std::memcpy(to + 36, end.gid.data(), end.gid.size());
  return out;
}

Status parse_address(std::span<const std::byte> bytes, EndAddress* out) {
  if (bytes.size() != kBytes) return bad("has " + std::to_string(bytes.size()) + " bytes, not 52");
  const std::byte* from = bytes.data();
  if (load_le<uint32_t>(from) != kMagic) return bad("begins otherwise: its queue is of another driver");
  if (load_le<uint8_t>(from + 4) != kVersion)
    return bad("has version " + std::to_string(load_le<uint8_t>(from + 4)) + ", known is 1: run the same release");
  EndAddress end;
  const auto kind = load_le<uint8_t>(from + 5);
  end.kind = static_cast<GidKind>(kind);
  end.mtu_code = load_le<uint8_t>(from + 6);
  end.port = load_le<uint8_t>(from + 7);
  end.lid = load_le<uint16_t>(from + 8);
  end.reads = load_le<uint8_t>(from + 10);
  end.qp_number = load_le<uint32_t>(from + 12);
  end.psn = load_le<uint32_t>(from + 16);
  end.msg_bytes = load_le<uint32_t>(from + 20);
  end.rx_depth = load_le<uint32_t>(from + 24);
  std::memcpy(end.gid.data(), from + 36, end.gid.size());
  if (kind < 1 || kind > 3) return bad("is of kind " + std::to_string(kind));
  if (end.mtu_code < 1 || end.mtu_code > kMaxMtuCode) return bad("has MTU code " + std::to_string(end.mtu_code));
  if (end.qp_number > kMax24Bits || end.psn > kMax24Bits) return bad("has numbers of more than 24 bits");
  if (end.port == 0) return bad("has port 0");
  if (load_le<uint8_t>(from + 11) != 0 || load_le<uint64_t>(from + 28) != 0) return bad("has bytes that must be 0");
  *out = end;
  return Code::kOk;
}

}  // namespace sluice::verbs
