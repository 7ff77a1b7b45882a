// Control frames: what is accepted encodes to the same bytes; what is refused leaves the output untouched.
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "proto/ctrl_frame.h"

using namespace sluice;

namespace {

void require(bool good) {
  if (!good) __builtin_trap();
}

// Parses into a place full of a pattern, which must still be there after a refusal.
template <typename Out, typename Parse>
bool parses(Parse parse, Out* out) {
  std::vector<std::byte> before(sizeof *out, std::byte{0xA5});
  std::memcpy(static_cast<void*>(out), before.data(), sizeof *out);
  const Code code = parse(out);
  require(code == Code::kOk || code == Code::kBadFrame);
  if (code == Code::kOk) return true;
  require(std::memcmp(static_cast<const void*>(out), before.data(), sizeof *out) == 0);
  return false;
}

class Again {
 public:
  explicit Again(std::span<const std::byte> bytes) : bytes_(bytes), out_(bytes.size()) {}
  template <typename Encode>
  void check(Encode encode) {
    require(encode(std::span(out_).first(out_.size() - 1)) == 0);
    require(encode(std::span(out_)) == bytes_.size());
    require(std::memcmp(out_.data(), bytes_.data(), bytes_.size()) == 0);
  }

 private:
  std::span<const std::byte> bytes_;
  std::vector<std::byte> out_;
};

// Every payload parser sees every payload, whatever the type of its frame.
void judge_payload(const Frame& frame, Again again) {
  const auto payload = frame.payload;
  const FrameHeader& header = frame.header;
  CreditGrant grant;
  if (parses([&](auto* out) { return parse_grant(payload, out); }, &grant))
    again.check([&](auto out) { return encode_grant(out, header, grant); });
  uint32_t count;
  if (parses([&](auto* out) { return parse_ack(payload, out); }, &count)) {
    std::vector<AckEntry> entries;
    for (uint32_t i = 0; i < count; ++i) entries.push_back(ack_entry(payload, i));
    again.check([&](auto out) { return encode_ack(out, header, entries); });
  }
  SessionOpen open;
  if (parses([&](auto* out) { return parse_session_open(payload, out); }, &open))
    again.check([&](auto out) { return encode_session_open(out, header, open); });
  Notify notify;
  if (parses([&](auto* out) { return parse_notify(payload, out); }, &notify))
    again.check([&](auto out) { return encode_notify(out, header, notify); });
  DataNak nak;
  if (parses([&](auto* out) { return parse_nak(payload, out); }, &nak))
    again.check([&](auto out) { return encode_nak(out, header, nak); });
  CreditRequest request;
  if (parses([&](auto* out) { return parse_request(payload, out); }, &request))
    again.check([&](auto out) { return encode_request(out, header, request); });
  DrainAck ack;
  if (parses([&](auto* out) { return parse_drain_ack(payload, out); }, &ack))
    again.check([&](auto out) { return encode_drain_ack(out, header, ack); });
  again.check([&](auto out) { return encode_frame(out, header, payload); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  Frame published, ours;
  const bool in_published = parses([&](auto* out) { return parse_frame(bytes, kLastPublishedType, out); }, &published);
  const bool in_ours = parses([&](auto* out) { return parse_frame(bytes, kLastType, out); }, &ours);
  require(in_ours || !in_published);
  require(!in_ours || in_published == (raw(ours.header.type) <= kLastPublishedType));
  if (in_ours) judge_payload(ours, Again(bytes));
  return 0;
}
