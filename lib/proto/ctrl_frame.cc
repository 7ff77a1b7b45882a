#include "proto/ctrl_frame.h"

#include <cstring>
#include <limits>

#include "base/bytes.h"

namespace sluice {
namespace {

constexpr size_t kVersionAt = 4, kTypeAt = 5, kFlagsAt = 6, kSessionAt = 8, kEpochAt = 16, kSeqAt = 24, kAckSeqAt = 32,
                 kPayloadLenAt = 40;
constexpr size_t kGrantEntryBytes = 10, kAckEntryBytes = 16, kCountBytes = 2;
constexpr size_t kRequestBytes = 16, kDrainAckBytes = size_t{8} * kMaxGrantEntries;

// Writes the header. The place for the payload, or nullptr when the frame does not fit.
std::byte* begin_frame(std::span<std::byte> out, const FrameHeader& header, size_t payload_bytes) noexcept {
  if (payload_bytes > std::numeric_limits<uint32_t>::max() || out.size() < kFrameHeaderBytes ||
      out.size() - kFrameHeaderBytes < payload_bytes)
    return nullptr;
  std::byte* at = out.data();
  store_le(at, kFrameMagic);
  store_le(at + kVersionAt, kFrameVersion);
  store_le(at + kTypeAt, raw(header.type));
  store_le(at + kFlagsAt, header.flags);
  store_le(at + kSessionAt, raw(header.session));
  store_le(at + kEpochAt, raw(header.epoch));
  store_le(at + kSeqAt, header.seq);
  store_le(at + kAckSeqAt, header.ack_seq);
  store_le(at + kPayloadLenAt, static_cast<uint32_t>(payload_bytes));
  return at + kFrameHeaderBytes;
}

// A length-prefixed string at *at; moves *at behind it.
bool take_string(std::span<const std::byte> payload, size_t* at, std::string_view* out) noexcept {
  if (payload.size() - *at < 4) return false;
  const uint32_t length = load_le<uint32_t>(payload.data() + *at);
  if (length > payload.size() - *at - 4) return false;
  *out = {reinterpret_cast<const char*>(payload.data() + *at + 4), length};
  *at += 4 + size_t{length};
  return true;
}

std::byte* put_string(std::byte* at, std::string_view text) noexcept {
  store_le(at, static_cast<uint32_t>(text.size()));
  if (!text.empty()) std::memcpy(at + 4, text.data(), text.size());
  return at + 4 + text.size();
}

}  // namespace

std::string_view frame_type_name(FrameType type) noexcept {
  constexpr std::array<std::string_view, kLastType + 1> kNames = {
      "UNKNOWN",       "CREDIT_GRANT", "CREDIT_PROGRESS", "CREDIT_REQUEST", "DATA_ACK",      "SESSION_OPEN",
      "SESSION_CLOSE", "FENCE",        "DRAIN_ACK",       "CTRL_ACK",       "NOTIFY_COMPAT", "DATA_NAK"};
  return raw(type) < kNames.size() ? kNames[raw(type)] : kNames[0];
}

Code parse_frame(std::span<const std::byte> bytes, uint8_t last_type, Frame* out) noexcept {
  if (bytes.size() < kFrameHeaderBytes) return Code::kBadFrame;
  const std::byte* at = bytes.data();
  const auto type = load_le<uint8_t>(at + kTypeAt);
  const auto flags = load_le<uint16_t>(at + kFlagsAt);
  if (load_le<uint32_t>(at) != kFrameMagic || load_le<uint8_t>(at + kVersionAt) != kFrameVersion)
    return Code::kBadFrame;
  if (type == 0 || type > last_type || (flags & ~kFlagNeedsAck) != 0) return Code::kBadFrame;
  if (load_le<uint32_t>(at + kPayloadLenAt) != bytes.size() - kFrameHeaderBytes) return Code::kBadFrame;
  out->header = {static_cast<FrameType>(type),
                 flags,
                 static_cast<SessionId>(load_le<uint64_t>(at + kSessionAt)),
                 static_cast<Epoch>(load_le<uint64_t>(at + kEpochAt)),
                 load_le<uint64_t>(at + kSeqAt),
                 load_le<uint64_t>(at + kAckSeqAt)};
  out->payload = bytes.subspan(kFrameHeaderBytes);
  return Code::kOk;
}

Code parse_grant(std::span<const std::byte> payload, CreditGrant* out) noexcept {
  if (payload.size() < kCountBytes) return Code::kBadFrame;
  CreditGrant grant{load_le<uint16_t>(payload.data()), {}};
  if (grant.count > kMaxGrantEntries || payload.size() != kCountBytes + grant.count * kGrantEntryBytes)
    return Code::kBadFrame;
  uint32_t seen = 0;
  for (uint32_t i = 0; i < grant.count; ++i) {
    const std::byte* at = payload.data() + kCountBytes + i * kGrantEntryBytes;
    const auto id = load_le<uint16_t>(at);
    if (id == 0 || id > kMaxGrantEntries || (seen & 1u << id) != 0) return Code::kBadFrame;
    seen |= 1u << id;
    grant.entries[i] = {static_cast<Resource>(id), load_le<uint64_t>(at + 2)};
  }
  *out = grant;
  return Code::kOk;
}

Code parse_ack(std::span<const std::byte> payload, uint32_t* count) noexcept {
  if (payload.size() < kCountBytes) return Code::kBadFrame;
  const uint32_t n = load_le<uint16_t>(payload.data());
  if (payload.size() != kCountBytes + n * kAckEntryBytes) return Code::kBadFrame;
  *count = n;
  return Code::kOk;
}

AckEntry ack_entry(std::span<const std::byte> payload, uint32_t i) noexcept {
  const std::byte* at = payload.data() + kCountBytes + i * kAckEntryBytes;
  return {load_le<uint64_t>(at), load_le<uint64_t>(at + 8)};
}

Code parse_session_open(std::span<const std::byte> payload, SessionOpen* out) noexcept {
  if (payload.size() != 8) return Code::kBadFrame;
  *out = {load_le<uint32_t>(payload.data()), load_le<uint32_t>(payload.data() + 4)};
  return Code::kOk;
}

Code parse_notify(std::span<const std::byte> payload, Notify* out) noexcept {
  Notify notify;
  size_t at = 0;
  if (!take_string(payload, &at, &notify.name) || !take_string(payload, &at, &notify.message)) return Code::kBadFrame;
  if (at != payload.size()) return Code::kBadFrame;
  *out = notify;
  return Code::kOk;
}

Code parse_nak(std::span<const std::byte> payload, DataNak* out) noexcept {
  if (payload.size() != 12) return Code::kBadFrame;
  *out = {load_le<uint64_t>(payload.data()), load_le<uint32_t>(payload.data() + 8)};
  return Code::kOk;
}

Code parse_request(std::span<const std::byte> payload, CreditRequest* out) noexcept {
  if (!payload.empty() && payload.size() != kRequestBytes) return Code::kBadFrame;
  *out = {};
  if (!payload.empty()) *out = {true, load_le<uint64_t>(payload.data()), load_le<uint64_t>(payload.data() + 8)};
  return Code::kOk;
}

Code parse_drain_ack(std::span<const std::byte> payload, DrainAck* out) noexcept {
  if (!payload.empty() && payload.size() != kDrainAckBytes) return Code::kBadFrame;
  *out = {};
  out->told = !payload.empty();
  for (size_t i = 0; i < payload.size() / 8; ++i) out->posted[i] = load_le<uint64_t>(payload.data() + 8 * i);
  return Code::kOk;
}

size_t encode_frame(std::span<std::byte> out, const FrameHeader& header, std::span<const std::byte> payload) noexcept {
  std::byte* at = begin_frame(out, header, payload.size());
  if (at == nullptr) return 0;
  if (!payload.empty()) std::memcpy(at, payload.data(), payload.size());
  return kFrameHeaderBytes + payload.size();
}

size_t encode_grant(std::span<std::byte> out, const FrameHeader& header, const CreditGrant& grant) noexcept {
  if (grant.count > kMaxGrantEntries) return 0;
  const size_t payload_bytes = kCountBytes + grant.count * kGrantEntryBytes;
  std::byte* at = begin_frame(out, header, payload_bytes);
  if (at == nullptr) return 0;
  store_le(at, static_cast<uint16_t>(grant.count));
  at += kCountBytes;
  for (uint32_t i = 0; i < grant.count; ++i, at += kGrantEntryBytes) {
    store_le(at, raw(grant.entries[i].resource));
    store_le(at + 2, grant.entries[i].total);
  }
  return kFrameHeaderBytes + payload_bytes;
}

size_t encode_ack(std::span<std::byte> out, const FrameHeader& header, std::span<const AckEntry> entries) noexcept {
  if (entries.size() > std::numeric_limits<uint16_t>::max()) return 0;
  const size_t payload_bytes = kCountBytes + entries.size() * kAckEntryBytes;
  std::byte* at = begin_frame(out, header, payload_bytes);
  if (at == nullptr) return 0;
  store_le(at, static_cast<uint16_t>(entries.size()));
  at += kCountBytes;
  for (const AckEntry& entry : entries) {
    store_le(at, entry.task);
    store_le(at + 8, entry.acked_bytes);
    at += kAckEntryBytes;
  }
  return kFrameHeaderBytes + payload_bytes;
}

size_t encode_session_open(std::span<std::byte> out, const FrameHeader& header, const SessionOpen& open) noexcept {
  std::byte* at = begin_frame(out, header, 8);
  if (at == nullptr) return 0;
  store_le(at, open.bounce_slots);
  store_le(at + 4, open.bounce_slot_bytes);
  return kFrameHeaderBytes + 8;
}

size_t encode_notify(std::span<std::byte> out, const FrameHeader& header, const Notify& notify) noexcept {
  if (notify.name.size() > out.size() || notify.message.size() > out.size()) return 0;  // so that the sum cannot wrap
  const size_t payload_bytes = 8 + notify.name.size() + notify.message.size();
  std::byte* at = begin_frame(out, header, payload_bytes);
  if (at == nullptr) return 0;
  put_string(put_string(at, notify.name), notify.message);
  return kFrameHeaderBytes + payload_bytes;
}

size_t encode_nak(std::span<std::byte> out, const FrameHeader& header, const DataNak& nak) noexcept {
  std::byte* at = begin_frame(out, header, 12);
  if (at == nullptr) return 0;
  store_le(at, nak.task);
  store_le(at + 8, nak.code);
  return kFrameHeaderBytes + 12;
}

size_t encode_request(std::span<std::byte> out, const FrameHeader& header, const CreditRequest& request) noexcept {
  const size_t payload_bytes = request.told ? kRequestBytes : 0;
  std::byte* at = begin_frame(out, header, payload_bytes);
  if (at == nullptr) return 0;
  if (request.told) {
    store_le(at, request.data_bytes);
    store_le(at + 8, request.slots);
  }
  return kFrameHeaderBytes + payload_bytes;
}

size_t encode_drain_ack(std::span<std::byte> out, const FrameHeader& header, const DrainAck& ack) noexcept {
  const size_t payload_bytes = ack.told ? kDrainAckBytes : 0;
  std::byte* at = begin_frame(out, header, payload_bytes);
  if (at == nullptr) return 0;
  if (ack.told)
    for (size_t i = 0; i < ack.posted.size(); ++i) store_le(at + 8 * i, ack.posted[i]);
  return kFrameHeaderBytes + payload_bytes;
}

void set_ack_seq(std::span<std::byte> frame, uint64_t ack_seq) noexcept { store_le(frame.data() + kAckSeqAt, ack_seq); }

}  // namespace sluice
