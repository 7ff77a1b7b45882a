#include "proto/msg_header.h"

#include <array>
#include <type_traits>

namespace sluice {
namespace {

static_assert(std::is_trivially_copyable_v<MsgHeader>);
static_assert(offsetof(MsgHeader, lane) == 4 && offsetof(MsgHeader, ctrl_ack) == 6 &&
              offsetof(MsgHeader, session) == 8);
static_assert(offsetof(MsgHeader, epoch) == 16 && offsetof(MsgHeader, length) == 20 && offsetof(MsgHeader, task) == 24);
static_assert(offsetof(MsgHeader, offset) == 32 && offsetof(MsgHeader, total) == 40 &&
              offsetof(MsgHeader, buffer) == 48);
static_assert(offsetof(MsgHeader, chunk) == 52 && offsetof(MsgHeader, seq) == 56 && offsetof(MsgHeader, crc) == 60);

constexpr uint32_t kCastagnoli = 0x82F63B78;  // reflected

// Eight tables: table k advances a byte through k more zero bytes, so that eight bytes go in one step.
using CrcTables = std::array<std::array<uint32_t, 256>, 8>;

constexpr CrcTables make_tables() noexcept {
  CrcTables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kCastagnoli : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < tables.size(); ++k)
    for (size_t byte = 0; byte < 256; ++byte)
      tables[k][byte] = (tables[k - 1][byte] >> 8) ^ tables[0][tables[k - 1][byte] & 0xff];
  return tables;
}

constexpr CrcTables kTables = make_tables();

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes) noexcept {
  uint32_t crc = ~uint32_t{0};
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    const uint64_t word = load_le<uint64_t>(at) ^ crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) crc ^= kTables[7 - i][(word >> (8 * i)) & 0xff];
  }
  for (; left != 0; ++at, --left) crc = (crc >> 8) ^ kTables[0][(crc ^ std::to_integer<uint32_t>(*at)) & 0xff];
  return ~crc;
}

}  // namespace sluice
