/// @file msg_header.h
/// The 64-byte header in front of each data message (ours; doc/wire.md has the layout and golden bytes).
///
/// Model    WRITE carries payload for a buffer of the receiver's; READ_REQ asks for bytes of one; READ_RESP carries
///          them back. ABORT ends a WRITE that was partly sent: its total is what was sent, and the receiver
///          acknowledges the task when that much is here, so that nothing of it can still move. PACK carries several
///          small WRITEs, since a message costs the wire and both ends far more than the few bytes it moves. A buffer
///          is named by its id and an offset, never by a pointer. A message has a number (seq) that counts up in its
///          epoch, by which the receiver drops what it has already.
/// Threads  Pure functions.
/// Memory   No heap.
/// Errors   parse_message checks everything that can be judged without tables; kBadFrame leaves the output untouched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/status.h"

namespace sluice {

inline constexpr size_t kMsgHeaderBytes = 64;
inline constexpr uint8_t kMsgMagic = 0x5C;
inline constexpr uint8_t kMsgVersion = 1;

enum class MsgType : uint8_t { kWrite = 1, kReadReq = 2, kReadResp = 3, kAbort = 4, kPack = 5 };

/// PACK: the payload begins with chunk records, and the bytes of the tasks follow in the same order. Each is a
/// whole WRITE. The header's task stands for them all: it is what is acknowledged (acked_bytes: the header's length).
struct PackRecord {
  TaskId task;
  uint64_t offset;  ///< In the buffer.
  uint32_t buffer;
  uint32_t length;
};
static_assert(sizeof(PackRecord) == 24);
inline constexpr uint32_t kMaxPack = 256;  ///< Records in one message.

inline constexpr uint8_t kMsgAckNow = 1;     ///< Nothing follows for now: acknowledge at once.
inline constexpr uint8_t kMsgLowCredit = 2;  ///< The sender is about to wait for credit.
inline constexpr uint8_t kMsgHasCrc = 4;     ///< crc is the CRC32C of the payload.
inline constexpr uint8_t kMsgFlags = 7;

/// As in memory and, little-endian, on the wire.
struct MsgHeader {
  uint8_t magic;
  uint8_t version;
  MsgType type;
  uint8_t flags;
  uint16_t lane;      ///< The receiver's lane, as it offered it.
  uint16_t ctrl_ack;  ///< Low 16 bits of the highest control seq received in order.
  SessionId session;
  uint32_t epoch;   ///< Low 32 bits; an epoch ends long before they wrap.
  uint32_t length;  ///< Payload bytes of this message; 0 for READ_REQ and ABORT.
  TaskId task;      ///< Of the node that submitted the task.
  uint64_t offset;  ///< WRITE, READ_REQ: in the buffer. READ_RESP: in the task.
  uint64_t total;   ///< Bytes of the whole task (ABORT: that were sent); READ_RESP: offset + length stay inside.
  uint32_t buffer;  ///< WRITE, READ_REQ: the receiver's BufferId. READ_RESP: 0.
  uint32_t chunk;   ///< Index of this message in its task.
  uint32_t seq;     ///< Number of this message in its epoch, from 1, modulo 2^32.
  uint32_t crc;     ///< With kMsgHasCrc, else 0.
};
static_assert(sizeof(MsgHeader) == kMsgHeaderBytes);

/// CRC32C (Castagnoli) of @p bytes.
uint32_t crc32c(std::span<const std::byte> bytes) noexcept;

/// @pre out has kMsgHeaderBytes.
inline void encode_message(std::byte* out, const MsgHeader& header) noexcept {
  std::memcpy(out, &header, sizeof header);
}

/// Whether the fields of @p h agree with each other and with @p payload_bytes.
inline bool message_fields_ok(const MsgHeader& h, size_t payload_bytes) noexcept {
  if (h.length != payload_bytes) return false;
  switch (h.type) {
    case MsgType::kWrite: return h.length != 0 && h.length <= h.total && range_ok(h.offset, h.length, ~uint64_t{0});
    case MsgType::kReadReq: return h.length == 0 && h.total != 0 && range_ok(h.offset, h.total, ~uint64_t{0});
    case MsgType::kReadResp: return h.length != 0 && h.buffer == 0 && range_ok(h.offset, h.length, h.total);
    case MsgType::kAbort: return h.length == 0 && h.buffer == 0 && h.offset == 0;
    case MsgType::kPack:
      return h.chunk != 0 && h.chunk <= kMaxPack && h.length >= h.chunk * (sizeof(PackRecord) + 1) &&
             h.total == h.length && h.buffer == 0 && h.offset == 0;
  }
  return false;
}

/// Judge a received message: @p bytes is all of it, header and payload; a CRC that it carries is checked.
/// @return kOk, kBadFrame (size, magic, version, type, flags, a length or range that does not add up, CRC).
inline Code parse_message(std::span<const std::byte> bytes, MsgHeader* out) noexcept {
  if (bytes.size() < kMsgHeaderBytes) return Code::kBadFrame;
  MsgHeader h;
  std::memcpy(&h, bytes.data(), sizeof h);
  if (h.magic != kMsgMagic || h.version != kMsgVersion || (h.flags & ~kMsgFlags) != 0) return Code::kBadFrame;
  if (!message_fields_ok(h, bytes.size() - kMsgHeaderBytes)) return Code::kBadFrame;
  const uint32_t crc = (h.flags & kMsgHasCrc) != 0 ? crc32c(bytes.subspan(kMsgHeaderBytes)) : 0;
  if (h.crc != crc) return Code::kBadFrame;
  *out = h;
  return Code::kOk;
}

/// Record @p i of a PACK. @pre i < chunk of a header that parse_message accepted.
inline PackRecord pack_record(const std::byte* payload, uint32_t i) noexcept {
  PackRecord r;
  std::memcpy(&r, payload + i * sizeof r, sizeof r);
  return r;
}

/// Whether the records of a PACK account for its payload exactly. @pre parse_message accepted @p h.
inline bool pack_adds_up(const MsgHeader& h, const std::byte* payload) noexcept {
  uint64_t bytes = h.chunk * sizeof(PackRecord);
  for (uint32_t i = 0; i < h.chunk; ++i) {
    const uint32_t length = pack_record(payload, i).length;
    if (length == 0) return false;
    bytes += length;
  }
  return bytes == h.length;
}

}  // namespace sluice
