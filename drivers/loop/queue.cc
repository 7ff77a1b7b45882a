#include "loop/queue.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "loop/remote.h"

namespace sluice {
namespace {
constexpr uint32_t kScanPaths = 64;  // rings that one poll looks into
constexpr uint32_t kOpenEvery = 16;  // refusals between two tries to open the peer's ring
// Refusals until the peer's process is looked up: a lookup is some 10 us, so it gets rarer while the peer lives.
constexpr uint32_t kFirstCheck = 256;
constexpr uint32_t kMaxCheckGap = 4096;
constexpr uint64_t kMaxRingBytes = 32u << 20;
constexpr uint32_t kMinCells = 4;

uint32_t cells_for(const QueueParams& params) noexcept {
  const uint64_t cell_bytes = kCellHeadBytes + params.msg_bytes;
  uint32_t cells = std::bit_ceil(std::max(params.rx_depth, kMinCells));
  while (cells > kMinCells && cells * cell_bytes > kMaxRingBytes) cells /= 2;
  return cells;
}

void gather(std::byte* to, const Op& op) noexcept {
  if (op.bytes0 != 0) std::memcpy(to, op.addr0, op.bytes0);
  if (op.bytes1 != 0) std::memcpy(to + op.bytes0, op.addr1, op.bytes1);
}
}  // namespace

LoopQueue::LoopQueue(const QueueParams& params, const LoopAddress& self, bool rma)
    : depth_{params.tx_depth, params.rx_depth},
      self_(self),
      cells_(cells_for(params)),
      rma_(rma),
      paths_(params.max_paths),
      done_(params.tx_depth),
      posted_(params.rx_depth),
      recalled_(params.rx_depth) {
  active_.reserve(params.max_paths);
}

LoopQueue::~LoopQueue() { shutdown(); }

LoopQueue::Path* LoopQueue::find(PathId path) noexcept {
  const uint32_t index = raw(path);
  return index < paths_.size() && paths_[index].connected ? &paths_[index] : nullptr;
}

// ---- sending

uint32_t LoopQueue::post(std::span<const Op> ops) noexcept {
  if (shut_) return 0;
  const size_t limit = std::min<size_t>({ops.size(), kMaxBurst, depth_.tx - done_.size()});
  uint32_t taken = 0;
  while (taken < limit) {
    uint32_t end = taken + 1;
    while (end < limit && ops[end].path == ops[taken].path) ++end;
    taken += send(find(ops[taken].path), ops.subspan(taken, end - taken));
    if (taken != end) break;
  }
  return taken;
}

// Send what fits of @p ops, which all go to @p path; null when it is not connected.
uint32_t LoopQueue::send(Path* path, std::span<const Op> ops) noexcept {
  Code code = path != nullptr ? ready(*path) : Code::kPeerDead;
  uint32_t taken = 0;
  if (code == Code::kOk) [[likely]] {
    taken = fill(*path, ops);
    code = path->broken;
  }
  if (code != Code::kOk && code != Code::kAgain)
    for (; taken < ops.size(); ++taken) done_.push({ops[taken].cookie, code});
  return taken;
}

// Copy into cells until the ring is full, and publish them all at once.
uint32_t LoopQueue::fill(Path& path, std::span<const Op> ops) noexcept {
  uint64_t tail = path.tx_tail;
  uint32_t taken = 0;
  for (const Op& op : ops) {
    const uint64_t bytes = uint64_t{op.bytes0} + op.bytes1;
    if (op.kind != OpKind::kSend || bytes > path.peer_msg_bytes) {
      const bool one_sided = op.kind != OpKind::kSend && rma_;
      done_.push({op.cookie, one_sided ? remote_copy(self_, path.peer, op) : Code::kBadArgument});
      ++taken;
      continue;
    }
    if (tail - path.tx_head == path.tx.cells() && reclaim(path) != Code::kOk) break;
    CellHead& cell = path.tx.cell(tail++);
    cell.bytes.store(static_cast<uint32_t>(bytes), std::memory_order_relaxed);
    gather(payload(cell), op);
    done_.push({op.cookie, Code::kOk});
    ++taken;
  }
  if (tail != path.tx_tail) {
    path.tx_tail = tail;
    path.tx.head().tail.store(tail, std::memory_order_release);
  }
  return taken;
}

Code LoopQueue::ready(Path& path) noexcept {
  if (path.broken != Code::kOk) return path.broken;
  if (path.tx) {
    const RingState state = path.tx.head().state.load(std::memory_order_acquire);
    if (state == RingState::kOpen) [[likely]]
      return Code::kOk;
    path.tx = Ring();
    if (state != RingState::kPathClosed) return path.broken = Code::kPeerDead;
  }
  if (path.refusals % kOpenEvery == 0) open_tx(path);
  if (path.broken != Code::kOk) return path.broken;
  if (path.tx) return Code::kOk;
  ++counters_.peer_not_here;
  return refuse(path);
}

// See what the peer has taken of a full ring. @return kAgain, or what broke the path.
Code LoopQueue::reclaim(Path& path) noexcept {
  const uint64_t head = path.tx.head().head.load(std::memory_order_acquire);
  const uint64_t freed = head - path.tx_head;
  if (freed > path.tx.cells()) [[unlikely]] {
    condemn(path);
    return path.broken;
  }
  if (freed == 0) {
    ++counters_.ring_full;
    return refuse(path);
  }
  path.tx_head = head;
  path.refusals = 0;
  path.next_check = kFirstCheck;
  return Code::kOk;
}

// Count a refusal, and now and then see whether the peer still lives.
Code LoopQueue::refuse(Path& path) noexcept {
  if (++path.refusals < path.next_check) return Code::kAgain;
  path.next_check = path.refusals + std::min(path.refusals, kMaxCheckGap);
  if (process_start_time(path.peer.pid) == path.peer.start_time) return Code::kAgain;
  return path.broken = Code::kPeerDead;
}

void LoopQueue::open_tx(Path& path) noexcept {
  const Code code = Ring::open(path.tx_name, path.peer, &path.tx);
  if (code == Code::kNotFound) return;
  if (code == Code::kOk) {
    // An earlier life of this path may have sent already.
    path.tx_head = path.tx.head().head.load(std::memory_order_acquire);
    path.tx_tail = path.tx.head().tail.load(std::memory_order_relaxed);
    path.refusals = 0;
    path.next_check = kFirstCheck;
  }
  if (code != Code::kOk || path.tx_tail - path.tx_head > path.tx.cells()) condemn(path);
}

// The peer wrote what cannot be: this path is at its end.
void LoopQueue::condemn(Path& path) noexcept {
  ++counters_.bad_peer;
  path.broken = Code::kDeviceError;
  if (path.rx) path.rx.retire(RingState::kQueueGone);
  path.rx = Ring();
}

// ---- receiving

uint32_t LoopQueue::refill(std::span<const RecvBuf> bufs) noexcept {
  if (shut_) return 0;
  const uint32_t room = depth_.rx - posted_.size() - recalled_.size();
  const auto count = static_cast<uint32_t>(std::min<size_t>({bufs.size(), kMaxBurst, room}));
  for (const RecvBuf& buf : bufs.first(count)) posted_.push(buf);
  return count;
}

// Sends and receives take turns at being first, so that neither starves the other of room in @p out.
uint32_t LoopQueue::poll(std::span<Completion> out) noexcept {
  if (out.size() > kMaxBurst) out = out.first(kMaxBurst);
  receive_first_ = !receive_first_;
  uint32_t n = receive_first_ ? receive(out) : reap(out);
  n += receive_first_ ? reap(out.subspan(n)) : receive(out.subspan(n));
  return n;
}

uint32_t LoopQueue::reap(std::span<Completion> out) noexcept {
  uint32_t n = 0;
  for (; n < out.size() && !done_.empty(); ++n) {
    const Done& done = done_.pop();
    out[n] = {done.cookie, 0, CompletionKind::kOp, done.code};
  }
  return n;
}

uint32_t LoopQueue::receive(std::span<Completion> out) noexcept {
  uint32_t n = recalled_.empty() ? 0 : return_recalled(out);
  for (size_t left = std::min<size_t>(active_.size(), kScanPaths); left != 0 && n < out.size(); --left) {
    if (cursor_ >= active_.size()) cursor_ = 0;
    n += receive_from(paths_[active_[cursor_++]], out.subspan(n));
  }
  return n;
}

uint32_t LoopQueue::receive_from(Path& path, std::span<Completion> out) noexcept {
  if (!path.rx) return 0;
  RingHead& ring = path.rx.head();
  const uint64_t waiting = ring.tail.load(std::memory_order_acquire) - path.rx_head;
  if (waiting == 0) return 0;
  if (posted_.empty()) ++counters_.no_receive;
  const uint64_t limit = std::min<uint64_t>({waiting, posted_.size(), out.size()});
  bool sane = waiting <= path.rx.cells();
  uint32_t n = 0;
  for (; sane && n < limit; ++n) {
    const CellHead& cell = path.rx.cell(path.rx_head + n);
    const uint32_t bytes = cell.bytes.load(std::memory_order_relaxed);
    sane = bytes <= self_.msg_bytes;
    if (!sane) break;
    const RecvBuf& buf = posted_.pop();
    const bool fits = bytes <= buf.bytes;
    if (fits && bytes != 0) std::memcpy(buf.addr, payload(cell), bytes);
    out[n] = {buf.cookie, fits ? bytes : 0, CompletionKind::kRecv, fits ? Code::kOk : Code::kBadArgument};
  }
  path.rx_head += n;
  ring.head.store(path.rx_head, std::memory_order_release);
  if (!sane) [[unlikely]]
    condemn(path);
  return n;
}

uint32_t LoopQueue::return_recalled(std::span<Completion> out) noexcept {
  uint32_t n = 0;
  for (; n < out.size() && !recalled_.empty(); ++n)
    out[n] = {recalled_.pop(), 0, CompletionKind::kRecv, Code::kCancelled};
  return n;
}

// ---- slow calls

Status LoopQueue::address(PathId /*path*/, std::vector<std::byte>* out) {
  *out = encode_loop_address(self_);
  return Code::kOk;
}

Status LoopQueue::connect(PathId id, std::span<const std::byte> blob) {
  if (shut_) return {Code::kClosed, "the queue is shut down"};
  const uint32_t index = raw(id);
  if (index >= paths_.size())
    return {Code::kLimit, "path " + std::to_string(index) + " is beyond the " + std::to_string(paths_.size()) +
                              " that the queue was opened for: raise max_paths"};
  Path& path = paths_[index];
  if (path.connected) return {Code::kExists, "path " + std::to_string(index) + " is connected: close it first"};
  Path made;
  if (Status status = parse_loop_address(blob, &made.peer); !status.ok()) return status;
  if (Status status = Ring::create(Ring::name(self_, made.peer), self_, cells_, &made.rx); !status.ok()) return status;
  made.tx_name = Ring::name(made.peer, self_);
  made.peer_msg_bytes = made.peer.msg_bytes;
  made.next_check = kFirstCheck;
  made.connected = true;
  path = std::move(made);
  active_.push_back(index);
  return Code::kOk;
}

Code LoopQueue::close(PathId id) noexcept {
  Path* path = find(id);
  if (path == nullptr) return Code::kNotFound;
  if (path->rx) path->rx.retire(RingState::kPathClosed);
  *path = Path();
  std::erase(active_, raw(id));
  return Code::kOk;
}

uint32_t LoopQueue::recall(std::span<const uint64_t> cookies) noexcept {
  uint32_t found = 0;
  for (uint32_t left = posted_.size(); left != 0; --left) {
    const RecvBuf buf = posted_.pop();
    if (std::ranges::find(cookies, buf.cookie) == cookies.end()) {
      posted_.push(buf);
      continue;
    }
    recalled_.push(buf.cookie);
    ++found;
  }
  return found;
}

void LoopQueue::shutdown() noexcept {
  shut_ = true;
  while (!posted_.empty()) recalled_.push(posted_.pop().cookie);
  for (const uint32_t index : active_) {
    if (paths_[index].rx) paths_[index].rx.retire(RingState::kQueueGone);
    paths_[index] = Path();
  }
  active_.clear();
}

}  // namespace sluice
