#include "loop/address.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <limits>
#include <string_view>

#include "base/bytes.h"

namespace sluice {
namespace {
constexpr uint32_t kMagic = 0x504F4F4C;  // "LOOP"
constexpr uint32_t kVersion = 1;

// The statistics line of a process: "pid (name) state ppid ...". The name may hold blanks and parentheses.
constexpr size_t kFieldsFromStateToStart = 19;
}  // namespace

std::vector<std::byte> encode_loop_address(const LoopAddress& address) {
  std::vector<std::byte> blob(kLoopAddressBytes);
  std::byte* at = blob.data();
  store_le(at, kMagic);
  store_le(at + 4, kVersion);
  store_le(at + 8, address.pid);
  store_le(at + 12, address.msg_bytes);
  store_le(at + 16, address.queue_id);
  store_le(at + 24, address.start_time);
  return blob;
}

Status parse_loop_address(std::span<const std::byte> blob, LoopAddress* out) {
  if (blob.size() != kLoopAddressBytes)
    return {Code::kBadArgument, "loop address has " + std::to_string(blob.size()) + " bytes, not " +
                                    std::to_string(kLoopAddressBytes) + ": is the peer's transport loop too?"};
  const std::byte* at = blob.data();
  if (load_le<uint32_t>(at) != kMagic)
    return {Code::kBadArgument, "loop address does not begin with its magic number: is the peer's transport loop too?"};
  const auto version = load_le<uint32_t>(at + 4);
  if (version != kVersion)
    return {Code::kBadArgument, "loop address has version " + std::to_string(version) + ", this build speaks " +
                                    std::to_string(kVersion) + ": use the same build at both ends"};
  const LoopAddress address{.pid = load_le<uint32_t>(at + 8),
                            .msg_bytes = load_le<uint32_t>(at + 12),
                            .queue_id = load_le<uint64_t>(at + 16),
                            .start_time = load_le<uint64_t>(at + 24)};
  if (address.pid == 0 || address.pid > std::numeric_limits<int32_t>::max() || address.msg_bytes == 0 ||
      address.msg_bytes > kLoopMaxMsgBytes || address.queue_id == 0 || address.start_time == 0)
    return {Code::kBadArgument, "loop address names pid " + std::to_string(address.pid) + " with messages of " +
                                    std::to_string(address.msg_bytes) + " bytes: a field is out of range"};
  *out = address;
  return Code::kOk;
}

uint64_t process_start_time(uint32_t pid) noexcept {
  std::array<char, 32> path{"/proc/"};
  char* end = std::to_chars(path.data() + 6, path.data() + 20, pid).ptr;
  std::string_view("/stat").copy(end, 5);
  const int fd = open(path.data(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  std::array<char, 1024> line;
  const ssize_t got = read(fd, line.data(), line.size());
  close(fd);
  if (got <= 0) return 0;

  std::string_view rest(line.data(), static_cast<size_t>(got));
  const size_t name_end = rest.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= rest.size()) return 0;
  rest.remove_prefix(name_end + 2);
  if (rest[0] == 'Z' || rest[0] == 'X') return 0;
  for (size_t i = 0; i < kFieldsFromStateToStart; ++i) {
    const size_t blank = rest.find(' ');
    if (blank == std::string_view::npos) return 0;
    rest.remove_prefix(blank + 1);
  }
  uint64_t start = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), start);
  return start;
}

}  // namespace sluice
