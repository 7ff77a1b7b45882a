/// @file ctrl_frame.h
/// Control frames: the version-1 layout, byte for byte as the Mooncake project published it (doc/wire.md).
///
/// Model    A frame is a 44-byte little-endian header and exactly payload_len bytes. parse_frame checks the header and
///          the length and leaves a view of the payload; the parse_ calls judge the payload of one type.
/// Threads  Pure functions.
/// Memory   No heap; a parsed frame points into the caller's bytes. Nothing is allocated from a peer's number.
/// Errors   Strict and all-or-nothing: kBadFrame leaves the output untouched. encode_ calls return 0 when the frame
///          does not fit the buffer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/ids.h"
#include "base/status.h"

namespace sluice {

inline constexpr uint32_t kFrameMagic = 0x434B434D;
inline constexpr uint8_t kFrameVersion = 1;
inline constexpr size_t kFrameHeaderBytes = 44;
inline constexpr uint16_t kFlagNeedsAck = 1;
inline constexpr uint32_t kMaxGrantEntries = 4;

enum class FrameType : uint8_t {
  kCreditGrant = 1,
  kCreditProgress = 2,
  kCreditRequest = 3,
  kDataAck = 4,
  kSessionOpen = 5,
  kSessionClose = 6,
  kFence = 7,
  kDrainAck = 8,
  kCtrlAck = 9,
  kNotify = 10,   ///< NOTIFY_COMPAT
  kDataNak = 11,  ///< Ours: only to a peer that offered the feature.
};
/// Highest type of the published layout, and the highest of ours.
inline constexpr uint8_t kLastPublishedType = 10;
inline constexpr uint8_t kLastType = 11;

/// "CREDIT_GRANT"; "UNKNOWN" for a number that is none.
std::string_view frame_type_name(FrameType type) noexcept;

struct FrameHeader {
  FrameType type;
  uint16_t flags;
  SessionId session;
  Epoch epoch;
  uint64_t seq;
  uint64_t ack_seq;
};

struct Frame {
  FrameHeader header;
  std::span<const std::byte> payload;
};

enum class Resource : uint16_t { kDataBytes = 1, kRequestSlots = 2, kBounceBytes = 3, kBounceSlots = 4 };

struct GrantEntry {
  Resource resource;
  uint64_t total;
};
struct CreditGrant {
  uint32_t count;
  std::array<GrantEntry, kMaxGrantEntries> entries;
};
struct AckEntry {
  uint64_t task;
  uint64_t acked_bytes;
};
struct SessionOpen {
  uint32_t bounce_slots;
  uint32_t bounce_slot_bytes;
};
struct Notify {
  std::string_view name;     ///< Into the caller's bytes.
  std::string_view message;  ///< Into the caller's bytes.
};
struct DataNak {
  uint64_t task;
  uint32_t code;
};
/// What we put into the two types that the published layout leaves untyped. A peer may leave it out: then told is
/// false, and the rest 0.
struct CreditRequest {
  bool told;
  uint64_t data_bytes;  ///< Wanted.
  uint64_t slots;       ///< Wanted.
};
struct DrainAck {
  bool told;
  std::array<uint64_t, kMaxGrantEntries> posted;  ///< P of each resource, in the order of Resource.
};

/// Check header and length of the whole frame @p bytes. @p last_type is the highest type accepted.
/// @return kOk, kBadFrame (length, magic, version, type, flags, payload_len).
Code parse_frame(std::span<const std::byte> bytes, uint8_t last_type, Frame* out) noexcept;

/// @return kOk, kBadFrame (count, length, resource id, the same resource twice).
Code parse_grant(std::span<const std::byte> payload, CreditGrant* out) noexcept;
/// The number of entries of a DATA_ACK; read them with ack_entry(). @return kOk, kBadFrame.
Code parse_ack(std::span<const std::byte> payload, uint32_t* count) noexcept;
/// @pre i < the count that parse_ack gave.
AckEntry ack_entry(std::span<const std::byte> payload, uint32_t i) noexcept;
Code parse_session_open(std::span<const std::byte> payload, SessionOpen* out) noexcept;
Code parse_notify(std::span<const std::byte> payload, Notify* out) noexcept;
Code parse_nak(std::span<const std::byte> payload, DataNak* out) noexcept;
/// Ours or empty. @return kOk, kBadFrame (any other length).
Code parse_request(std::span<const std::byte> payload, CreditRequest* out) noexcept;
Code parse_drain_ack(std::span<const std::byte> payload, DrainAck* out) noexcept;

/// Whole frames into @p out. @return bytes written, 0 when they do not fit.
size_t encode_frame(std::span<std::byte> out, const FrameHeader& header, std::span<const std::byte> payload) noexcept;
size_t encode_grant(std::span<std::byte> out, const FrameHeader& header, const CreditGrant& grant) noexcept;
size_t encode_ack(std::span<std::byte> out, const FrameHeader& header, std::span<const AckEntry> entries) noexcept;
size_t encode_session_open(std::span<std::byte> out, const FrameHeader& header, const SessionOpen& open) noexcept;
size_t encode_notify(std::span<std::byte> out, const FrameHeader& header, const Notify& notify) noexcept;
size_t encode_nak(std::span<std::byte> out, const FrameHeader& header, const DataNak& nak) noexcept;
size_t encode_request(std::span<std::byte> out, const FrameHeader& header, const CreditRequest& request) noexcept;
size_t encode_drain_ack(std::span<std::byte> out, const FrameHeader& header, const DrainAck& ack) noexcept;
/// Rewrite the ack_seq of an encoded frame (a repeat carries the newest). @pre the frame is whole.
void set_ack_seq(std::span<std::byte> frame, uint64_t ack_seq) noexcept;

/// The most DATA_ACK entries that a frame of @p frame_bytes holds.
constexpr uint32_t ack_entries_in(size_t frame_bytes) noexcept {
  return frame_bytes < kFrameHeaderBytes + 2 ? 0 : static_cast<uint32_t>((frame_bytes - kFrameHeaderBytes - 2) / 16);
}

}  // namespace sluice
