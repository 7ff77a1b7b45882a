/// @file frame_verdict.h
/// What the codec says of a frame, as a line of test/data/ctrl_frames.txt says it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::test {

/// The bytes of @p hex; "-" stands for none. @return nothing when it is not an even number of hex digits.
std::optional<std::vector<std::byte>> parse_hex(std::string_view hex);
std::string to_hex(std::span<const std::byte> bytes);
/// "header=accept payload=untyped type=FENCE ..." with types up to @p last_type known.
std::string frame_verdict(std::span<const std::byte> bytes, uint8_t last_type);

}  // namespace sluice::test
