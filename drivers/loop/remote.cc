#include "loop/remote.h"

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/bytes.h"
#include "base/random.h"

namespace sluice {
namespace {
constexpr uint64_t kPlaces = 4096;  // a power of two: the lower bits of a key are its place

struct Place {
  std::atomic<uint64_t> key{0};  // 0: free; stored last
  std::atomic<bool> taken{false};
  std::byte* base = nullptr;
  uint64_t bytes = 0;
};
std::array<Place, kPlaces> places;

Code copy_here(const Op& op) noexcept {
  const Place& place = places[op.remote_key % kPlaces];
  if (op.remote_key == 0 || place.key.load(std::memory_order_acquire) != op.remote_key) return Code::kBadArgument;
  const uint64_t offset = op.remote_addr - reinterpret_cast<uintptr_t>(place.base);
  if (!range_ok(offset, uint64_t{op.bytes0} + op.bytes1, place.bytes)) return Code::kBadArgument;
  std::byte* at = place.base + offset;
  auto* local0 = const_cast<std::byte*>(op.addr0);
  auto* local1 = const_cast<std::byte*>(op.addr1);
  const bool write = op.kind == OpKind::kWrite;
  if (op.bytes0 != 0) std::memcpy(write ? at : local0, write ? local0 : at, op.bytes0);
  if (op.bytes1 != 0) std::memcpy(write ? at + op.bytes0 : local1, write ? local1 : at + op.bytes0, op.bytes1);
  return Code::kOk;
}

Code copy_there(const LoopAddress& peer, const Op& op) noexcept {
  const iovec local[2] = {{const_cast<std::byte*>(op.addr0), op.bytes0}, {const_cast<std::byte*>(op.addr1), op.bytes1}};
  const size_t bytes = size_t{op.bytes0} + op.bytes1;
  const iovec remote{reinterpret_cast<void*>(op.remote_addr), bytes};
  const auto pid = static_cast<pid_t>(peer.pid);
  const ssize_t moved = op.kind == OpKind::kWrite ? ::process_vm_writev(pid, local, 2, &remote, 1, 0)
                                                  : ::process_vm_readv(pid, local, 2, &remote, 1, 0);
  if (moved == static_cast<ssize_t>(bytes)) return Code::kOk;
  if (moved < 0 && errno == ESRCH) return Code::kPeerDead;
  if (moved < 0 && errno != EFAULT) return Code::kDeviceError;
  return Code::kBadArgument;  // part of the range is not there
}
}  // namespace

uint64_t remote_add(std::byte* base, uint64_t bytes) noexcept {
  for (uint64_t i = 0; i < kPlaces; ++i) {
    Place& place = places[i];
    if (place.taken.exchange(true)) continue;
    place.base = base;
    place.bytes = bytes;
    const uint64_t key = (random_u64() | kPlaces) / kPlaces * kPlaces + i;  // never 0
    place.key.store(key, std::memory_order_release);
    return key;
  }
  return 0;
}

void remote_remove(uint64_t key) noexcept {
  Place& place = places[key % kPlaces];
  if (place.key.load() != key) return;
  place.key.store(0);
  place.taken.store(false, std::memory_order_release);
}

Code remote_copy(const LoopAddress& self, const LoopAddress& peer, const Op& op) noexcept {
  return self.pid == peer.pid ? copy_here(op) : copy_there(peer, op);
}

}  // namespace sluice
