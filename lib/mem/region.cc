#include "mem/region.h"

#include <numaif.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/bytes.h"
#include "base/meminfo.h"
#include "mem/device_memory.h"
#include "mem/page_size.h"

namespace sluice {
namespace {
constexpr uint64_t kHugeBytes = 2ull << 20;
constexpr uint64_t kDevicePageBytes = 64 << 10;  // as GPUs map theirs for others
constexpr uint64_t kMaxBytes = 1ull << 46;       // half of what a process can map
constexpr int kHugeFlags = MAP_HUGETLB | (21 << MAP_HUGE_SHIFT);

Status huge_shortage(uint64_t bytes) {
  const MemInfo now = read_meminfo();
  const uint64_t pages = bytes / kHugeBytes;
  const std::string short_of = std::to_string(pages > now.hugepages_free ? pages - now.hugepages_free : pages);
  return {Code::kNoMemory, "a region of " + std::to_string(bytes) + " bytes needs " + std::to_string(pages) +
                               " hugepages of 2 MiB and " + std::to_string(now.hugepages_free) + " of " +
                               std::to_string(now.hugepages_total) + " are free: raise /proc/sys/vm/nr_hugepages by " +
                               short_of + ", or set hugepages to auto or off"};
}

Status plain_shortage(uint64_t bytes, const std::string& reason) {
  return {Code::kNoMemory, "a region of " + std::to_string(bytes) + " bytes does not fit (" + reason +
                               "): " + std::to_string(read_meminfo().available_bytes) +
                               " bytes are available; use fewer or smaller slots and segments, or add memory"};
}

// Bring every page in now. Asking the kernel gives an error where touching an absent hugepage would be a SIGBUS.
int populate(std::byte* base, uint64_t bytes, uint64_t page) noexcept {
#ifdef MADV_POPULATE_WRITE
  if (::madvise(base, bytes, MADV_POPULATE_WRITE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
#endif
  for (uint64_t at = 0; at < bytes; at += page) *const_cast<volatile std::byte*>(base + at) = std::byte{0};
  return 0;
}

// @return null with errno set.
std::byte* map_pages(uint64_t bytes, int flags) noexcept {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

// Aligned so that the kernel can use large pages where it has them ("transparent hugepages"): they are fewer faults now
// and fewer TLB misses in each copy. What it cannot give is given as small pages.
std::byte* map_plain(uint64_t bytes) noexcept {
  if (bytes < kHugeBytes) return map_pages(bytes, 0);
  std::byte* from = map_pages(bytes + kHugeBytes, 0);
  if (from == nullptr) return nullptr;
  const uint64_t skip = -reinterpret_cast<uintptr_t>(from) % kHugeBytes;
  if (skip != 0) ::munmap(from, skip);
  ::munmap(from + skip + bytes, kHugeBytes - skip);
  (void)::madvise(from + skip, bytes, MADV_HUGEPAGE);
  return from + skip;
}

int numa_of(const void* at) noexcept {
  int node = -1;
  return get_mempolicy(&node, nullptr, 0, const_cast<void*>(at), MPOL_F_NODE | MPOL_F_ADDR) == 0 ? node : -1;
}

// @return null with errno set.
std::byte* map(uint64_t bytes, uint64_t page, int flags) noexcept {
  std::byte* at = flags == 0 ? map_plain(bytes) : map_pages(bytes, flags);
  if (at == nullptr) return nullptr;
  const int error = populate(at, bytes, page);
  if (error == 0) return at;
  ::munmap(at, bytes);
  errno = error;
  return nullptr;
}
}  // namespace

Status Region::create(RegionKind kind, uint64_t bytes, std::unique_ptr<Region>* out) {
  if (bytes == 0 || bytes > kMaxBytes)
    return {Code::kBadArgument, "a region of " + std::to_string(bytes) + " bytes: ask for 1 to 2^46 bytes"};
  if (kind == RegionKind::kImported || kind == RegionKind::kDevice)
    return {Code::kBadArgument, "imported memory is wrapped with Region::import, not created"};
  std::unique_ptr<Region> region(new Region);
  region->bytes_ = bytes;
  if (kind != RegionKind::kPlain) {
    region->mapped_bytes_ = round_up(bytes, kHugeBytes);
    region->kind_ = RegionKind::kHuge;
    region->base_ = map(region->mapped_bytes_, kHugeBytes, kHugeFlags);
    if (region->base_ == nullptr && kind == RegionKind::kHuge) return huge_shortage(region->mapped_bytes_);
  }
  if (region->base_ == nullptr) {
    const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    region->mapped_bytes_ = round_up(bytes, page);
    region->kind_ = RegionKind::kPlain;
    // mmap promises more than there is, and the one who touches the last page is killed: look first.
    const uint64_t available = read_meminfo().available_bytes;
    if (available != 0 && region->mapped_bytes_ > available) return plain_shortage(bytes, "more than is available");
    region->base_ = map(region->mapped_bytes_, page, 0);
    if (region->base_ == nullptr) return plain_shortage(bytes, std::strerror(errno));
  }
  region->numa_ = numa_of(region->base_);
  *out = std::move(region);
  return Code::kOk;
}

Status Region::import(void* base, uint64_t bytes, std::unique_ptr<Region>* out) {
  const auto at = reinterpret_cast<uintptr_t>(base);
  if (base == nullptr || bytes == 0 || bytes > UINTPTR_MAX - at)
    return {Code::kBadArgument, "memory at " + std::to_string(at) + " of " + std::to_string(bytes) +
                                    " bytes: give a mapped address and a length above 0 that does not overflow"};
  out->reset(new Region);
  (*out)->base_ = static_cast<std::byte*>(base);
  (*out)->bytes_ = bytes;
  (*out)->kind_ = RegionKind::kImported;
  (*out)->numa_ = numa_of(base);
  return Code::kOk;
}

Status Region::import_device(const DeviceMemory& memory, void* base, uint64_t bytes, std::unique_ptr<Region>* out) {
  std::unique_ptr<Region> made;
  if (Status s = import(base, bytes, &made); !s.ok()) return s;
  if (Status s = memory.locate(base, bytes, &made->device_); !s.ok()) return s;
  made->kind_ = RegionKind::kDevice;
  made->device_memory_ = &memory;
  *out = std::move(made);
  return Code::kOk;
}

Status Region::in_context(const std::function<Status()>& work) const {
  return device_memory_ == nullptr ? work() : device_memory_->in_context(device_, base_, work);
}

Region::~Region() {
  if (kind_ != RegionKind::kImported && kind_ != RegionKind::kDevice && base_ != nullptr)
    ::munmap(base_, mapped_bytes_);
}

bool Region::contains(const void* addr, uint64_t length) const noexcept {
  const auto at = reinterpret_cast<uintptr_t>(addr);
  const auto from = reinterpret_cast<uintptr_t>(base_);
  return at >= from && range_ok(at - from, length, bytes_);
}

uint64_t Region::page_bytes() const {
  if (kind_ == RegionKind::kHuge) return kHugeBytes;
  if (kind_ == RegionKind::kDevice) return kDevicePageBytes;
  if (kind_ == RegionKind::kImported) return page_bytes_of(base_, bytes_);
  return static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

uint64_t largest_chunk(const Region& region, uint64_t max_region_bytes, uint64_t page_entries) {
  uint64_t most = region.bytes();
  if (max_region_bytes != 0) most = std::min(most, max_region_bytes);
  if (region.chunk_bytes() != 0) most = std::min(most, region.chunk_bytes());
  uint64_t page = 0;
  if (page_entries != 0) {
    page = region.page_bytes();
    // A region that does not begin on a page has one more.
    const bool aligned = reinterpret_cast<uintptr_t>(region.base()) % page == 0;
    const uint64_t pages = std::max<uint64_t>(1, page_entries - (aligned || page_entries == 1 ? 0 : 1));
    if (pages <= UINT64_MAX / page) most = std::min(most, pages * page);
  }
  if (most == region.bytes()) return most;
  if (page == 0) page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return most > page ? most / page * page : most;
}

void Region::set_part(uint16_t device, uint32_t part, uint32_t parts) {
  if (device >= parts_.size()) parts_.resize(device + 1u);
  parts_[device] = {part, parts};
}

bool Region::takes(uint16_t device, uint64_t chunk) const noexcept {
  return device >= parts_.size() || chunk % parts_[device].parts == parts_[device].part;
}

std::vector<ChunkKey>& Region::keys(uint16_t device) {
  if (device >= keys_.size()) keys_.resize(device + 1u);
  return keys_[device];
}

const std::vector<ChunkKey>& Region::keys(uint16_t device) const noexcept {
  static const std::vector<ChunkKey> kNoKeys;
  return device < keys_.size() ? keys_[device] : kNoKeys;
}

}  // namespace sluice
