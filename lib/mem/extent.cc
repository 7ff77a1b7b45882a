#include <rte_errno.h>
#include <rte_mempool.h>

#include <cstring>
#include <string>

#include "base/bytes.h"
#include "mem/bounce_pool.h"

namespace sluice {
namespace {
// No spreading over memory channels: header and payload start on a cache line either way, and the 64 bytes of header
// per object already keep slots of 2^n bytes out of one cache set. The memory has no IOVA, so it need not be
// contiguous. SP and SC choose ring_sp_sc: a pool has one owner, so plain stores do; its first-in first-out order is
// hidden by the pool's hot stack. (The stack ops would take a spinlock for each call.)
constexpr unsigned kFlags =
    RTE_MEMPOOL_F_NO_SPREAD | RTE_MEMPOOL_F_NO_IOVA_CONTIG | RTE_MEMPOOL_F_SP_PUT | RTE_MEMPOOL_F_SC_GET;
constexpr size_t kMaxName = 20;

Status mempool_error(const char* name, uint32_t slots, int error) {
  const std::string what = "extent " + std::string(name) + " of " + std::to_string(slots) + " slots: ";
  switch (error) {
    case EEXIST: return {Code::kBadArgument, what + "the name is in use; give each extent its own"};
    case ENOSPC: return {Code::kLimit, what + "EAL has no memzone left; use fewer and larger extents"};
    case ENOMEM: return {Code::kNoMemory, what + "EAL's own memory is used up; raise it with the EAL option -m"};
    default: return {Code::kInternal, what + "mempool: " + rte_strerror(error)};
  }
}
}  // namespace

Status Extent::make(RegionKind kind, const char* name, uint32_t slots, uint32_t slot_bytes,
                    std::unique_ptr<Extent>* out) {
  if (std::strlen(name) > kMaxName || slots == 0 || slots > kMaxSlots || slot_bytes == 0 || slot_bytes > kMaxSlotBytes)
    return {Code::kBadArgument, "extent " + std::string(name) + " of " + std::to_string(slots) + " slots of " +
                                    std::to_string(slot_bytes) + " bytes: give a name of at most 20 characters, 1 to " +
                                    std::to_string(kMaxSlots) + " slots, 1 to " + std::to_string(kMaxSlotBytes) +
                                    " bytes"};
  rte_mempool_objsz size{};
  const uint32_t stride = rte_mempool_calc_obj_size(slot_bytes, kFlags, &size);
  static_assert(RTE_MEMPOOL_ALIGN % kCacheLine == 0);

  std::unique_ptr<Extent> extent(new Extent);
  Status status = Region::create(kind, uint64_t{stride} * slots, &extent->region_);
  if (!status.ok()) return status;
  extent->mempool_ = rte_mempool_create_empty(name, slots, slot_bytes, 0, 0, SOCKET_ID_ANY, kFlags);
  if (extent->mempool_ == nullptr) return mempool_error(name, slots, rte_errno);
  Region& region = *extent->region_;
  const int made = rte_mempool_populate_iova(extent->mempool_, reinterpret_cast<char*>(region.base()), RTE_BAD_IOVA,
                                             region.bytes(), nullptr, nullptr);
  if (made != static_cast<int>(slots)) return mempool_error(name, slots, made < 0 ? -made : EINVAL);

  extent->first_ = region.base() + size.header_size;
  extent->stride_ = stride;
  extent->slots_ = slots;
  extent->slot_bytes_ = slot_bytes;
  extent->out_ = std::make_unique<uint8_t[]>(slots);
  *out = std::move(extent);
  return Code::kOk;
}

Extent::~Extent() { rte_mempool_free(mempool_); }  // walks object headers, so before the region goes

}  // namespace sluice
