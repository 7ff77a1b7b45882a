/// @file blob.h
/// The address blob of one end of a path: what the other end needs to connect to it.
///
/// Model    Little-endian, 52 bytes: magic u32, version u8, kind u8 (gid.h), mtu_code u8 (1: 256 bytes .. 5: 4096),
///          port u8, lid u16, reads u8 (READs that it serves at once), zero u8, qp_number u32, psn u32, msg_bytes u32
///          (largest message that it takes), rx_depth u32, zero u64, gid.
/// Threads  Pure.
/// Memory   Plain data.
/// Errors   A blob comes from a peer: kBadArgument says what is wrong with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "gid.h"

namespace sluice::verbs {

inline constexpr uint32_t kMax24Bits = 0xffffff;

struct EndAddress {
  GidKind kind = GidKind::kRoceV2;
  uint8_t mtu_code = 0;
  uint8_t port = 0;
  uint16_t lid = 0;
  uint8_t reads = 0;
  uint32_t qp_number = 0;
  uint32_t psn = 0;
  uint32_t msg_bytes = 0;
  uint32_t rx_depth = 0;
  Gid gid{};
};

std::vector<std::byte> encode_address(const EndAddress& end);
/// @return kBadArgument.
Status parse_address(std::span<const std::byte> bytes, EndAddress* out);

}  // namespace sluice::verbs
