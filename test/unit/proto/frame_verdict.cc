#include "frame_verdict.h"

#include "proto/ctrl_frame.h"

namespace sluice::test {
namespace {

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

const char* verdict_of(Code code) { return code == Code::kOk ? "accept" : "refuse"; }

const char* payload_verdict(const Frame& frame) {
  switch (frame.header.type) {
    case FrameType::kCreditGrant: {
      CreditGrant grant;
      return verdict_of(parse_grant(frame.payload, &grant));
    }
    case FrameType::kDataAck: {
      uint32_t count;
      return verdict_of(parse_ack(frame.payload, &count));
    }
    case FrameType::kSessionOpen: {
      SessionOpen open;
      return verdict_of(parse_session_open(frame.payload, &open));
    }
    case FrameType::kNotify: {
      Notify notify;
      return verdict_of(parse_notify(frame.payload, &notify));
    }
    case FrameType::kDataNak: {
      DataNak nak;
      return verdict_of(parse_nak(frame.payload, &nak));
    }
    default: return "untyped";
  }
}

}  // namespace

std::optional<std::vector<std::byte>> parse_hex(std::string_view hex) {
  std::vector<std::byte> bytes;
  if (hex == "-") return bytes;
  if (hex.empty() || hex.size() % 2 != 0) return std::nullopt;
  for (size_t i = 0; i < hex.size(); i += 2) {
    const int high = digit(hex[i]), low = digit(hex[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes.push_back(static_cast<std::byte>(high * 16 + low));
  }
  return bytes;
}

std::string to_hex(std::span<const std::byte> bytes) {
  if (bytes.empty()) return "-";
  std::string hex;
  for (std::byte b : bytes) {
    hex += "0123456789abcdef"[std::to_integer<int>(b >> 4)];
    hex += "0123456789abcdef"[std::to_integer<int>(b & std::byte{15})];
  }
  return hex;
}

std::string frame_verdict(std::span<const std::byte> bytes, uint8_t last_type) {
  Frame frame;
  if (parse_frame(bytes, last_type, &frame) != Code::kOk) return "header=refuse payload=-";
  const FrameHeader& h = frame.header;
  std::string line = "header=accept payload=";
  line += payload_verdict(frame);
  line += " type=" + std::string(frame_type_name(h.type)) + " flags=" + std::to_string(h.flags);
  line += " session=" + std::to_string(raw(h.session)) + " epoch=" + std::to_string(raw(h.epoch));
  line += " seq=" + std::to_string(h.seq) + " ack_seq=" + std::to_string(h.ack_seq);
  return line + " payload_len=" + std::to_string(frame.payload.size());
}

}  // namespace sluice::test
