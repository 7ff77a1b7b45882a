#include "target.h"

#include <atomic>
#include <cstring>

#include "base/bytes.h"
#include "pattern.h"

namespace sluice::bench {
namespace {
constexpr size_t kTake = 256;
constexpr uint32_t kTurnsPerLook = 8;  // a look takes a lock

// Areas of one generator are whole pages, and a pad.
uint64_t stride_of(const Order& order) noexcept { return round_up(order.area_bytes, 4096) + kShiftPad; }
}  // namespace

Status Target::open(Engine* engine, uint64_t bytes) {
  engine_ = engine;
  if (Status s = engine->allocate_buffer(bytes, &memory_); !s.ok()) return s;
  notifies_.reserve(kTake);
  if (Status s = engine->export_memory(kSegmentName, memory_.memory); !s.ok()) return s;
  held_.store(false, std::memory_order_release);
  return Code::kOk;
}

void Target::serve() {
  if (!ordered_.load(std::memory_order_acquire)) return;
  carry_out();
  ordered_.store(false, std::memory_order_relaxed);
  held_.store(false, std::memory_order_release);
}

uint32_t Target::turn(uint64_t) noexcept {
  if (++turns_ % kTurnsPerLook != 0 || held_.load(std::memory_order_acquire)) return 0;
  notifies_.clear();
  (void)engine_->take_notifies(kTake, &notifies_).ok();
  bool order = false;
  for (const NotifyMessage& notify : notifies_) {
    if (notify.name == kCountedNotify) count(notify);
    order = order || notify.name == kOrderNotify;
  }
  if (order) {
    held_.store(true, std::memory_order_relaxed);
    ordered_.store(true, std::memory_order_release);
  }
  return static_cast<uint32_t>(notifies_.size());
}

bool Target::fits(const Order& o) const noexcept {
  if (o.generators > kMaxGenerators || o.ranges > kMaxRanges || o.generators * o.ranges > kMaxRanges) return false;
  if (o.area_bytes > memory_.bytes || o.writes > 1 || o.reads > 1) return false;
  if (o.range_bytes > o.area_bytes || o.range_bytes * o.ranges != o.area_bytes) return false;
  const uint64_t bytes = stride_of(o) * o.generators;
  const auto inside = [&](uint64_t there, uint64_t from) {
    return there == 0 || (from >= kDataAt && range_ok(from, bytes, memory_.bytes));
  };
  return inside(o.writes, o.write_at) && inside(o.reads, o.read_at);
}

void Target::carry_out() {
  Order order;  // a copy: the peer may write again
  std::memcpy(&order, at(kOrderAt), sizeof order);
  Outcome outcome{};
  outcome.nonce = order.nonce;
  outcome.bad_at = kNoBadByte;
  if (!fits(order)) {
    outcome.refused = 1;
  } else if (order.kind == OrderKind::kPrepare) {
    prepare(order);
  } else if (order.kind == OrderKind::kCheck) {
    check(order, &outcome);
  } else if (order.kind != OrderKind::kCounted) {
    outcome.refused = 1;
  }
  outcome.received = received_;
  outcome.repeated = repeated_;
  outcome.missing = missing_;
  outcome.garbled = garbled_;
  const NodeStats stats = engine_->stats();
  outcome.extents_min = stats.extents_min;
  outcome.extents_max = stats.extents_max;
  outcome.extents = stats.extents;
  auto* to = reinterpret_cast<Outcome*>(at(kOutcomeAt));
  std::memcpy(to, &outcome, sizeof outcome);  // its number is 0 as yet
  std::atomic_ref<uint64_t>(to->number).store(order.number, std::memory_order_release);
}

void Target::prepare(const Order& order) {
  const uint64_t stride = stride_of(order);
  for (uint64_t g = 0; g < order.generators; ++g) {
    if (order.writes != 0) std::memset(at(order.write_at + g * stride), 0, order.area_bytes);
    if (order.reads != 0)
      fill_pattern(at(order.read_at + g * stride), order.area_bytes + kShiftPad, seed_of(order.seed, g, true));
  }
  engine_->restart_peaks();
  nonce_ = order.nonce;
  next_.fill(0);
  received_ = repeated_ = missing_ = garbled_ = 0;
}

void Target::check(const Order& order, Outcome* outcome) const {
  const uint64_t stride = stride_of(order);
  for (uint64_t g = 0; g < order.generators; ++g) {
    for (uint64_t i = 0; i < order.ranges; ++i) {
      const uint64_t round = order.rounds[g * order.ranges + i];
      if (round == 0) continue;
      const uint64_t from = i * order.range_bytes;
      const uint64_t bad = check_pattern(at(order.write_at + g * stride + from), order.range_bytes,
                                         seed_of(order.seed, g, false), from + shift_of(round));
      outcome->checked_bytes += order.range_bytes;
      if (bad == kNoBadByte) continue;
      outcome->bad_at = from + bad;
      outcome->bad_generator = g;
      return;
    }
  }
}

// Notifies of one generator come in its order: a number from before is a repeat, a jump is a loss.
void Target::count(const NotifyMessage& notify) noexcept {
  CountedNotify head;
  if (notify.message.size() < sizeof head) {
    ++garbled_;
    return;
  }
  std::memcpy(&head, notify.message.data(), sizeof head);
  if (head.nonce != nonce_) return;  // of an earlier run
  ++received_;
  const auto* rest = reinterpret_cast<const std::byte*>(notify.message.data()) + sizeof head;
  if (head.generator >= kMaxGenerators ||
      check_pattern(rest, notify.message.size() - sizeof head, head.nonce + head.number, 0) != kNoBadByte) {
    ++garbled_;
    return;
  }
  uint64_t& next = next_[head.generator];
  if (head.number < next) {
    ++repeated_;
    return;
  }
  missing_ += head.number - next;
  next = head.number + 1;
}

}  // namespace sluice::bench
