#include "mem/page_size.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

namespace sluice {
namespace {

// "from-to perms ...": false for any other line.
bool parse_range(std::string_view line, uint64_t* from, uint64_t* to) {
  const char* const end = line.data() + line.size();
  const auto first = std::from_chars(line.data(), end, *from, 16);
  if (first.ec != std::errc{} || first.ptr == end || *first.ptr != '-') return false;
  const auto second = std::from_chars(first.ptr + 1, end, *to, 16);
  return second.ec == std::errc{} && second.ptr != end && *second.ptr == ' ';
}

// "KernelPageSize:        4 kB"; 0 for any other line.
uint64_t parse_kilobytes(std::string_view line) {
  constexpr std::string_view kKey = "KernelPageSize:";
  if (!line.starts_with(kKey)) return 0;
  line.remove_prefix(std::min(line.find_first_not_of(' ', kKey.size()), line.size()));
  uint64_t kilobytes = 0;
  const auto parsed = std::from_chars(line.data(), line.data() + line.size(), kilobytes);
  return parsed.ec == std::errc{} ? kilobytes * 1024 : 0;
}

}  // namespace

uint64_t parse_page_bytes(std::istream& smaps, uint64_t addr, uint64_t bytes) {
  uint64_t smallest = 0, from = 0, to = 0;
  for (std::string line; std::getline(smaps, line);) {
    if (parse_range(line, &from, &to)) {
      if (from >= addr + bytes) break;
      continue;
    }
    if (to <= addr) continue;
    const uint64_t page = parse_kilobytes(line);
    if (page != 0 && (smallest == 0 || page < smallest)) smallest = page;
  }
  return smallest;
}

uint64_t page_bytes_of(const void* addr, uint64_t bytes) {
  std::ifstream smaps("/proc/self/smaps");
  const uint64_t told = parse_page_bytes(smaps, reinterpret_cast<uintptr_t>(addr), bytes);
  return told != 0 ? told : static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace sluice
