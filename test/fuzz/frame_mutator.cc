// A mutator for control frames: it decodes, changes one field, and encodes again, so that what it makes gets past the
// header and reaches the parsers of payloads. Bytes that do not decode are left to libFuzzer's own mutations.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "proto/ctrl_frame.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

using namespace sluice;

namespace {

using Random = std::minstd_rand;

uint64_t edge(Random& random, uint64_t old) {
  constexpr std::array<uint64_t, 8> kEdges = {0, 1, 2, 0xffff, 0x10000, ~uint64_t{0} - 1, ~uint64_t{0}, 1ull << 63};
  switch (random() % 4) {
    case 0: return old + 1;
    case 1: return old - 1;
    case 2: return old ^ 1ull << random() % 64;
    default: return kEdges[random() % kEdges.size()];
  }
}

// A payload of @p type with numbers from the edges, of the right length or nearly.
std::vector<std::byte> payload_of(FrameType type, Random& random) {
  size_t bytes = 0;
  const auto count = static_cast<uint16_t>(random() % 6);
  switch (type) {
    case FrameType::kCreditGrant: bytes = 2 + count * size_t{10}; break;
    case FrameType::kDataAck: bytes = 2 + count * size_t{16}; break;
    case FrameType::kSessionOpen: bytes = 8; break;
    case FrameType::kNotify: bytes = 8 + count * size_t{2}; break;
    case FrameType::kDataNak: bytes = 12; break;
    case FrameType::kCreditRequest: bytes = 16; break;
    case FrameType::kDrainAck: bytes = 32; break;
    default: break;
  }
  if (random() % 8 == 0) bytes += random() % 3;
  std::vector<std::byte> payload(bytes);
  for (size_t at = 0; at + 8 <= bytes; at += 8) store_le(payload.data() + at, edge(random, random()));
  if (type == FrameType::kCreditGrant || type == FrameType::kDataAck) store_le(payload.data(), count);
  for (uint16_t i = 0; type == FrameType::kCreditGrant && i < count; ++i)
    store_le(payload.data() + 2 + i * size_t{10}, static_cast<uint16_t>(1 + (i + random() % 2) % 4));
  if (type == FrameType::kNotify) {
    store_le(payload.data(), uint32_t{count});
    if (bytes >= 8u + count) store_le(payload.data() + 4 + count, static_cast<uint32_t>(bytes - 8 - count));
  }
  return payload;
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  Random random(seed + 1);
  Frame frame;
  if (random() % 4 == 0 || parse_frame(std::as_bytes(std::span(data, size)), kLastType, &frame) != Code::kOk)
    return LLVMFuzzerMutate(data, size, max_size);
  FrameHeader h = frame.header;
  std::vector<std::byte> payload(frame.payload.begin(), frame.payload.end());
  switch (random() % 7) {
    case 0: h.type = static_cast<FrameType>(1 + random() % (kLastType + 1)); break;
    case 1: h.session = SessionId{edge(random, raw(h.session))}; break;
    case 2: h.epoch = Epoch{edge(random, raw(h.epoch))}; break;
    case 3: h.seq = edge(random, h.seq); break;
    case 4: h.ack_seq = edge(random, h.ack_seq); break;
    case 5: {
      payload.resize(payload.size() + 64);
      const size_t bytes =
          LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(payload.data()), payload.size() - 64, payload.size());
      payload.resize(bytes);
      break;
    }
    default: payload = payload_of(h.type, random); break;
  }
  std::vector<std::byte> out(kFrameHeaderBytes + payload.size());
  const size_t bytes = encode_frame(out, h, payload);
  if (bytes == 0 || bytes > max_size) return size;
  std::memcpy(data, out.data(), bytes);
  return bytes;
}
