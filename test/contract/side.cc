#include "side.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <ostream>

#include "base/bytes.h"
#include "fault/fault.h"
#include "xport/registry.h"

namespace sluice::contract {
namespace {
constexpr uint16_t kDeviceIndex = 0;
constexpr uint32_t kSendSlots = 2048;  // more than any depth asked for here, so that the queue refuses first
}  // namespace

std::span<const Row> rows() {
  static constexpr Row kRows[] = {
      {"loop", "loop", "", false, true},
      {"fault_loop", "loop", "", true, true},
      {"fabric_tcp_rxm", "fabric", "tcp;ofi_rxm", false, true},
      {"fabric_net", "fabric", "net", false, false},
      {"fabric_shm", "fabric", "shm", false, false},
      {"verbs", "verbs", "", false, true},
      {"verbs_plain", "verbs", "", false, true, false},
      {"fault_verbs", "verbs", "", true, true},
  };
  return kRows;
}

void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }
std::string row_name(const testing::TestParamInfo<Row>& test) { return test.param.name; }

Status open_row(const Row& row, const DeviceUse& asked, std::unique_ptr<Driver>* driver,
                std::unique_ptr<Device>* device) {
  DeviceUse use = asked;
  use.pair.shared_receives = row.shared_receives;
  if (Status status = make_driver(row.driver, driver); !status.ok()) return status;
  std::vector<DeviceInfo> infos;
  if (Status status = (*driver)->probe(row.provider, &infos); !status.ok()) return status;
  if (infos.empty()) return {Code::kInternal, "probe() answered ok and found nothing"};
  const auto local = std::ranges::find(infos, true, &DeviceInfo::loopback);
  std::unique_ptr<Device> opened;
  if (Status status = (*driver)->open(local == infos.end() ? infos.front() : *local, use, &opened); !status.ok())
    return status;
  *device = row.through_fault ? make_fault_device(std::move(opened), FaultPlan{}) : std::move(opened);
  return Code::kOk;
}

Bytes pattern(size_t bytes, uint64_t seed) {
  Bytes out(bytes);
  uint64_t state = seed * 0x9E3779B97F4A7C15 + 1;
  for (std::byte& byte : out) {
    state = state * 6364136223846793005 + 1442695040888963407;
    byte = static_cast<std::byte>(state >> 56);
  }
  return out;
}

Side::Side(Device& device, const SideParams& params)
    : device_(device), params_(params), slot_bytes_(round_up(params.msg_bytes, 64)), receives_(params.receives) {
  QueueParams wanted;
  wanted.tx_depth = params.tx_depth;
  wanted.rx_depth = params.rx_depth;
  wanted.max_paths = 16;
  wanted.msg_bytes = params.msg_bytes;
  const Status opened = device.open_queue(wanted, &queue_);
  EXPECT_TRUE(opened.ok()) << opened.describe();
  if (!queue_) return;
  const uint32_t rx_slots = queue_->depth().rx;
  const uint32_t tx_slots = std::clamp<uint32_t>(static_cast<uint32_t>((64u << 20) / slot_bytes_), 8, kSendSlots);
  const Status made = Region::create(RegionKind::kPlain, slot_bytes_ * (rx_slots + tx_slots), &region_);
  EXPECT_TRUE(made.ok()) << made.describe();
  const Status registered = device.reg(*region_, kDeviceIndex, false);
  EXPECT_TRUE(registered.ok()) << registered.describe();
  free_rx_.resize(rx_slots);
  std::iota(free_rx_.rbegin(), free_rx_.rend(), 0u);
  free_tx_.resize(tx_slots);
  std::iota(free_tx_.rbegin(), free_tx_.rend(), rx_slots);
  if (receives_) post_receives();
}

Side::~Side() {
  queue_.reset();
  if (!region_) return;
  const Status status = device_.dereg(*region_, kDeviceIndex);
  EXPECT_TRUE(status.ok()) << status.describe();
}

Bytes Side::address(PathId path) const {
  Bytes blob;
  const Status status = queue_->address(path, &blob);
  EXPECT_TRUE(status.ok()) << status.describe();
  return blob;
}

void Side::connect(PathId path, const Bytes& peer) {
  const Status status = queue_->connect(path, peer);
  EXPECT_TRUE(status.ok()) << status.describe();
}

uint64_t Side::desc(const std::byte* at) const {
  const auto offset = static_cast<uint64_t>(at - region_->base());
  for (const ChunkKey& key : region_->keys(kDeviceIndex))
    if (range_ok(offset - key.offset, 1, key.length)) return key.local_desc;
  return 0;
}

Op Side::make_op(PathId path, uint32_t index, const Bytes& message, size_t first_piece) {
  std::byte* at = slot(index);
  if (!message.empty()) std::memcpy(at, message.data(), message.size());
  const size_t first = std::min(first_piece, message.size());
  Op op{};
  op.kind = OpKind::kSend;
  op.path = path;
  op.cookie = next_cookie_;
  next_cookie_ += 0x0101'0101'0101'0100;  // every byte changes, and none repeats for long
  op.addr0 = at;
  op.desc0 = desc(at);
  op.bytes0 = static_cast<uint32_t>(first);
  if (first != message.size()) {
    op.addr1 = at + first;
    op.desc1 = desc(at + first);
    op.bytes1 = static_cast<uint32_t>(message.size() - first);
  }
  return op;
}

// Post, and open the books on what was accepted.
uint32_t Side::offer(std::span<const Op> ops, std::span<const uint32_t> slots) {
  const uint32_t taken = queue_->post(ops);
  EXPECT_LE(taken, ops.size());
  for (uint32_t i = 0; i < taken; ++i)
    EXPECT_TRUE(
        ops_.emplace(ops[i].cookie, Posted{slots[i], ops[i].kind == OpKind::kRead ? ops[i].bytes0 : size_t{0}}).second)
        << "the test itself used a cookie twice";
  for (size_t i = slots.size(); i > taken; --i) free_tx_.push_back(slots[i - 1]);
  accepted_ += taken;
  queue_->flush();
  return taken;
}

bool Side::send(PathId path, const Bytes& message, size_t first_piece) {
  if (free_tx_.empty()) return false;
  const uint32_t index = free_tx_.back();
  free_tx_.pop_back();
  const Op op = make_op(path, index, message, first_piece);
  return offer({&op, 1}, {&index, 1}) == 1;
}

bool Side::write(PathId path, const Bytes& bytes, const ChunkKey& to, uint64_t offset, size_t first_piece) {
  if (free_tx_.empty()) return false;
  const uint32_t index = free_tx_.back();
  free_tx_.pop_back();
  Op op = make_op(path, index, bytes, first_piece);
  op.kind = OpKind::kWrite;
  op.remote_addr = to.remote_addr + offset;
  op.remote_key = to.remote_key;
  return offer({&op, 1}, {&index, 1}) == 1;
}

bool Side::read(PathId path, size_t count, const ChunkKey& from, uint64_t offset) {
  if (free_tx_.empty()) return false;
  const uint32_t index = free_tx_.back();
  free_tx_.pop_back();
  Op op = make_op(path, index, Bytes(count), SIZE_MAX);
  op.kind = OpKind::kRead;
  op.remote_addr = from.remote_addr + offset;
  op.remote_key = from.remote_key;
  return offer({&op, 1}, {&index, 1}) == 1;
}

uint32_t Side::send_burst(PathId path, uint32_t count, size_t bytes, uint64_t seed) {
  std::array<Op, kMaxBurst> ops;
  std::array<uint32_t, kMaxBurst> slots;
  count = std::min({count, kMaxBurst, static_cast<uint32_t>(free_tx_.size())});
  for (uint32_t i = 0; i < count; ++i) {
    slots[i] = free_tx_.back();
    free_tx_.pop_back();
    ops[i] = make_op(path, slots[i], pattern(bytes, seed + i), SIZE_MAX);
  }
  return offer(std::span(ops).first(count), std::span(slots).first(count));
}

void Side::post_receives() {
  while (!free_rx_.empty() && posted_.size() < queue_->depth().rx) {
    const uint32_t index = free_rx_.back();
    const RecvBuf buf{
        .addr = slot(index), .desc = desc(slot(index)), .cookie = ~uint64_t{index}, .bytes = params_.msg_bytes};
    if (queue_->refill({&buf, 1}) != 1) return;
    free_rx_.pop_back();
    EXPECT_TRUE(posted_.emplace(buf.cookie, index).second);
  }
}

void Side::turn() {
  std::array<Completion, kMaxBurst> completions;
  const uint32_t n = queue_->poll(completions);
  ASSERT_LE(n, completions.size());
  for (const Completion& completion : std::span(completions).first(n)) {
    if (completion.kind == CompletionKind::kOp)
      on_op(completion);
    else
      on_receive(completion);
  }
  if (receives_) post_receives();
  queue_->flush();
}

void Side::on_op(const Completion& completion) {
  const auto op = ops_.find(completion.cookie);
  ASSERT_NE(op, ops_.end()) << "a completion for an op that is not outstanding, cookie " << completion.cookie;
  const auto [index, fetch] = op->second;
  if (fetch != 0 && completion.code == Code::kOk) fetched_.emplace_back(slot(index), slot(index) + fetch);
  free_tx_.push_back(index);
  ops_.erase(op);
  ++completed_;
  ++ends_[completion.code];
}

void Side::on_receive(const Completion& completion) {
  const auto receive = posted_.find(completion.cookie);
  ASSERT_NE(receive, posted_.end()) << "a receive that was not posted, cookie " << completion.cookie;
  const uint32_t index = receive->second;
  posted_.erase(receive);
  free_rx_.push_back(index);
  if (completion.code != Code::kOk) return;
  ASSERT_LE(completion.bytes, params_.msg_bytes);
  inbox_.emplace_back(slot(index), slot(index) + completion.bytes);
}

size_t Side::ended(Code code) const {
  const auto found = ends_.find(code);
  return found == ends_.end() ? 0 : found->second;
}

bool wait_for(std::initializer_list<Side*> sides, const std::function<bool()>& done,
              std::chrono::milliseconds patience) {
  const char* slow = std::getenv("SLUICE_TEST_PATIENCE");  // in an emulated machine everything takes longer
  const auto deadline = std::chrono::steady_clock::now() + patience * (slow == nullptr ? 1 : std::atoi(slow));
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    for (Side* side : sides) side->turn();
  }
  return true;
}

bool send_soon(Side& from, PathId path, const Bytes& message, std::initializer_list<Side*> sides, size_t first_piece) {
  return wait_for(sides, [&] { return from.send(path, message, first_piece); });
}

void Contract::SetUp() {
  const Status status = open_row(GetParam(), use_, &driver_, &device_);
  if (status.code() == Code::kNotFound || status.code() == Code::kUnsupported) GTEST_SKIP() << status.describe();
  ASSERT_TRUE(status.ok()) << status.describe();
}

void Contract::join(Side& a, Side& b, PathId path) {
  a.connect(path, b.address(path));
  b.connect(path, a.address(path));
}

}  // namespace sluice::contract
