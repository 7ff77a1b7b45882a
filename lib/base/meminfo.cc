#include "base/meminfo.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <charconv>

namespace sluice {
namespace {
// The number after "key:" at the start of a line; 0 when there is none.
uint64_t field(std::string_view text, std::string_view key) noexcept {
  for (size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    const std::string_view rest = text.substr(at + key.size());
    if ((at != 0 && text[at - 1] != '\n') || !rest.starts_with(':')) continue;
    const size_t digit = rest.find_first_not_of(" \t", 1);
    if (digit == std::string_view::npos) return 0;
    uint64_t value = 0;
    std::from_chars(rest.data() + digit, rest.data() + rest.size(), value);
    return value;
  }
  return 0;
}
}  // namespace

MemInfo parse_meminfo(std::string_view text) noexcept {
  MemInfo info;
  info.available_bytes = field(text, "MemAvailable") * 1024;
  info.hugepages_total = field(text, "HugePages_Total");
  const uint64_t unused = field(text, "HugePages_Free");
  const uint64_t reserved = field(text, "HugePages_Rsvd");
  info.hugepages_free = unused > reserved ? unused - reserved : 0;
  info.hugepage_bytes = field(text, "Hugepagesize") * 1024;
  return info;
}

MemInfo read_meminfo() noexcept {
  std::array<char, 8192> text;
  const int fd = ::open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  size_t used = 0;
  ssize_t got = 0;
  while (used < text.size() && (got = ::read(fd, text.data() + used, text.size() - used)) > 0)
    used += static_cast<size_t>(got);
  ::close(fd);
  return parse_meminfo({text.data(), used});
}

uint64_t memlock_bytes() noexcept {
  rlimit limit{};
  const bool limited = ::geteuid() != 0 && ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return limited ? limit.rlim_cur : UINT64_MAX;
}

}  // namespace sluice
