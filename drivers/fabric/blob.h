/// @file blob.h
/// The address blob: what a peer needs to reach a queue.
///
/// Model    Little-endian: magic u32, version u8, provider_len u8, address_len u16, address_format u32, then provider
///          and address, exactly. The address is libfabric's own bytes.
/// Threads  Pure.
/// Memory   parse_blob points into its input.
/// Errors   A blob comes from a peer: kBadArgument says what is wrong with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace sluice::fabric {

struct Blob {
  std::string_view provider;
  uint32_t address_format;
  std::span<const std::byte> address;
};

/// @pre provider and address are at most 255 and 65535 bytes long.
std::vector<std::byte> encode_blob(const Blob& blob);
/// @return kBadArgument.
Status parse_blob(std::span<const std::byte> bytes, Blob* out);

/// Whether @p address is long enough, and terminated where it is text, for libfabric to read it as @p format: it takes
/// a bare pointer.
bool address_fits(uint32_t format, std::span<const std::byte> address) noexcept;

}  // namespace sluice::fabric
