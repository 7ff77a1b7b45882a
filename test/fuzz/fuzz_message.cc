// Messages: what is accepted encodes to the same header and stays inside its numbers; what is refused leaves the
// output untouched.
#include <cstdint>
#include <cstring>
#include <span>

#include "proto/msg_header.h"

using namespace sluice;

namespace {

void require(bool good) {
  if (!good) __builtin_trap();
}

void judge(std::span<const std::byte> bytes) {
  std::byte before[sizeof(MsgHeader)];
  std::memset(before, 0xA5, sizeof before);
  MsgHeader header;
  std::memcpy(&header, before, sizeof header);
  const Code code = parse_message(bytes, &header);
  if (code != Code::kOk) {
    require(code == Code::kBadFrame && std::memcmp(&header, before, sizeof header) == 0);
    return;
  }
  std::byte again[kMsgHeaderBytes];
  encode_message(again, header);
  require(std::memcmp(again, bytes.data(), sizeof again) == 0);
  require(kMsgHeaderBytes + header.length == bytes.size());
  require(header.offset + header.length >= header.offset);
  require(header.type == MsgType::kAbort || header.length <= header.total);
  require(header.type != MsgType::kReadResp || header.offset + header.length <= header.total);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  judge(bytes);
  if (size < kMsgHeaderBytes || size > 4096) return 0;
  // The same with the CRC that belongs to the payload, which random bytes would hardly ever meet.
  std::byte copy[4096];
  std::memcpy(copy, data, size);
  MsgHeader header;
  std::memcpy(&header, copy, sizeof header);
  header.flags |= kMsgHasCrc;
  header.crc = crc32c(bytes.subspan(kMsgHeaderBytes));
  encode_message(copy, header);
  judge(std::span(copy).first(size));
  return 0;
}
