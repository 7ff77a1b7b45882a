#include "loop/ring.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

namespace sluice {
namespace {
constexpr char kFolder[] = "/dev/shm/";
constexpr std::string_view kPrefix = "sluice-loop-";
constexpr uint32_t kRingMagic = 0x31474E52;  // "RNG1"

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);
static_assert(sizeof(RingHead) == 3 * kCacheLine && sizeof(RingHead) <= kRingHeadBytes);

uint64_t cell_bytes_for(const LoopAddress& reader) noexcept {
  return kCellHeadBytes + round_up(reader.msg_bytes, kCacheLine);
}

void append_hex(std::string* to, uint64_t value) {
  char digits[16];
  to->append(digits, std::to_chars(digits, digits + sizeof digits, value, 16).ptr);
}

Status system_error(Code code, const std::string& name, const char* what) {
  return {code, std::string(what) + " " + name + ": " + std::strerror(errno)};
}

// Whether the file's owner has ended. A reused pid shows by its start time; a file that is being made has none yet.
bool owner_ended(const char* path, uint32_t pid) noexcept {
  const uint64_t lives_since = process_start_time(pid);
  if (lives_since == 0) return true;
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  uint64_t start = 0;
  const bool known = pread(fd, &start, sizeof start, offsetof(RingHead, owner_start_time)) == sizeof start;
  close(fd);
  return known && start != 0 && start != lives_since;
}
}  // namespace

Ring::~Ring() {
  if (head_ == nullptr) return;
  munmap(head_, mapped_bytes_);
  if (!owned_name_.empty()) unlink(owned_name_.c_str());
}

void Ring::swap(Ring& other) noexcept {
  std::swap(head_, other.head_);
  std::swap(cells_, other.cells_);
  std::swap(mask_, other.mask_);
  std::swap(cell_bytes_, other.cell_bytes_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  owned_name_.swap(other.owned_name_);
}

std::string Ring::name(const LoopAddress& reader, const LoopAddress& writer) {
  std::string name(kFolder);
  name.append(kPrefix).append(std::to_string(reader.pid)).append("-");
  append_hex(&name, reader.queue_id);
  name.append("-");
  append_hex(&name, writer.queue_id);
  return name;
}

bool Ring::map(int fd, uint64_t bytes) noexcept {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return false;
  head_ = static_cast<RingHead*>(at);
  cells_ = static_cast<std::byte*>(at) + kRingHeadBytes;
  mapped_bytes_ = bytes;
  return true;
}

Status Ring::create(const std::string& name, const LoopAddress& reader, uint32_t cells, Ring* out) {
  const uint64_t cell_bytes = cell_bytes_for(reader);
  const uint64_t bytes = kRingHeadBytes + cells * cell_bytes;
  struct statvfs room;
  if (statvfs(kFolder, &room) != 0) return system_error(Code::kSystemError, kFolder, "cannot look at");
  // The file is sparse, and a page that is missing later would end the process.
  if (room.f_blocks != 0 && room.f_bavail * room.f_frsize < bytes)
    return {Code::kNoMemory, "/dev/shm has " + std::to_string(room.f_bavail * room.f_frsize) +
                                 " bytes free, a path needs " + std::to_string(bytes) +
                                 ": enlarge it (mount -o remount,size=...) or lower the receive depth"};

  const int fd = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) {
    if (errno == EEXIST) return {Code::kExists, "another path of this queue leads to that peer queue already"};
    return system_error(Code::kSystemError, name, "cannot create");
  }
  Ring ring;
  const bool mapped = ftruncate(fd, static_cast<off_t>(bytes)) == 0 && ring.map(fd, bytes);
  close(fd);
  if (!mapped) {
    Status status = system_error(Code::kNoMemory, name, "cannot map");
    unlink(name.c_str());
    return status;
  }
  ring.owned_name_ = name;
  ring.mask_ = cells - 1;
  ring.cell_bytes_ = cell_bytes;
  auto* head = new (ring.head_) RingHead{};
  head->cells = cells;
  head->cell_bytes = static_cast<uint32_t>(cell_bytes);
  head->owner_start_time = reader.start_time;
  head->magic.store(kRingMagic, std::memory_order_release);
  *out = std::move(ring);
  return Code::kOk;
}

Code Ring::open(const std::string& name, const LoopAddress& reader, Ring* out) noexcept {
  const int fd = ::open(name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return errno == ENOENT ? Code::kNotFound : Code::kDeviceError;
  struct stat info;
  if (fstat(fd, &info) != 0 || info.st_size < static_cast<off_t>(kRingHeadBytes)) {
    close(fd);
    return Code::kNotFound;
  }
  Ring ring;
  const auto bytes = static_cast<uint64_t>(info.st_size);
  const bool mapped = ring.map(fd, bytes);
  close(fd);
  if (!mapped) return Code::kDeviceError;
  if (ring.head_->magic.load(std::memory_order_acquire) != kRingMagic) return Code::kNotFound;

  const uint64_t cells = ring.head_->cells;
  ring.cell_bytes_ = cell_bytes_for(reader);
  if (!std::has_single_bit(cells) || ring.head_->cell_bytes != ring.cell_bytes_ ||
      bytes != kRingHeadBytes + cells * ring.cell_bytes_)
    return Code::kDeviceError;
  ring.mask_ = cells - 1;
  *out = std::move(ring);
  return Code::kOk;
}

void Ring::sweep() noexcept {
  DIR* folder = opendir(kFolder);
  if (folder == nullptr) return;
  while (const dirent* entry = readdir(folder)) {
    const std::string_view file = entry->d_name;
    if (!file.starts_with(kPrefix)) continue;
    uint32_t pid = 0;
    const std::string_view rest = file.substr(kPrefix.size());
    const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), pid);
    if (parsed.ec != std::errc{} || *parsed.ptr != '-') continue;
    char path[sizeof kFolder + sizeof entry->d_name];
    std::memcpy(path, kFolder, sizeof kFolder - 1);
    std::memcpy(path + sizeof kFolder - 1, entry->d_name, file.size() + 1);
    if (owner_ended(path, pid)) unlink(path);
  }
  closedir(folder);
}

}  // namespace sluice
