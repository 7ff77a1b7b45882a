#include "fault/queue.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {
constexpr uint64_t kMillion = 1'000'000;
constexpr size_t kNoFault = kFaultCount;

// splitmix64: small, and good enough for chances.
uint64_t next_random(uint64_t* state) noexcept {
  uint64_t z = (*state += 0x9E3779B97F4A7C15);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}
}  // namespace

FaultQueue::FaultQueue(std::unique_ptr<Queue> inner, const FaultPlan& plan)
    : inner_(std::move(inner)), plan_(plan), draws_{plan.seed, 0}, slots_(inner_->depth().tx) {
  for (List* list : {&free_, &held_, &ended_}) list->slots.resize(slots_.size());
  for (auto number = static_cast<uint32_t>(slots_.size()); number != 0; --number) free_.push(number - 1);
}

void FaultQueue::set_plan(const FaultPlan& plan) noexcept {
  plan_ = plan;
  draws_ = {plan.seed, 0};
}

// @return the fault that strikes the next op, or kNoFault.
size_t FaultQueue::draw() noexcept {
  ++draws_.ops;
  size_t struck = kNoFault;
  for (size_t i = 0; i < kFaultCount; ++i) {
    const FaultRule& rule = plan_.rules[i];
    const bool by_chance = rule.per_million != 0 && next_random(&draws_.random) % kMillion < rule.per_million;
    if (struck == kNoFault && (by_chance || rule.at_op == draws_.ops)) struck = i;
  }
  return struck;
}

uint32_t FaultQueue::post(std::span<const Op> ops) noexcept {
  if (shut_) return 0;
  const size_t limit = std::min<size_t>(ops.size(), kMaxBurst);
  uint32_t taken = 0;
  while (taken < limit && free_.size != 0 && take(ops[taken])) ++taken;
  return taken;
}

// @return whether @p op was accepted.
bool FaultQueue::take(const Op& op) noexcept {
  const Draws before = draws_;
  const size_t struck = draw();
  const auto fault = static_cast<Fault>(struck);
  const auto count = [&] {
    if (struck != kNoFault) ++counts_.counts[struck];
    return true;
  };
  if (fault == Fault::kRefuse) return !count();

  const uint32_t number = free_.slots[--free_.size];
  const uint32_t polls = struck == kNoFault ? 0 : plan_.rules[struck].polls;
  Slot& slot = slots_[number];
  slot = {.op = op, .due = 0, .late_polls = 0, .state = State::kSwallowed, .ordered = false, .code = Code::kOk};
  switch (fault) {
    case Fault::kSwallow: return count();
    case Fault::kDrop: end(number, polls_, Code::kOk); return count();
    case Fault::kFail: end(number, polls_, Code::kDeviceError); return count();
    case Fault::kDelay: hold(number, std::max(polls_ + polls, path_held_until(op.path)), true); return count();
    case Fault::kReorder: hold(number, polls_ + polls, false); return count();
    case Fault::kLate: slot.late_polls = polls; break;
    case Fault::kRefuse: break;
  }
  if (const uint64_t until = path_held_until(op.path); until != 0) {
    hold(number, until, true);
    return count();
  }
  if (pass(number)) return count();
  slot.state = State::kFree;
  free_.push(number);
  draws_ = before;
  return false;
}

bool FaultQueue::pass(uint32_t number) noexcept {
  Slot& slot = slots_[number];
  Op op = slot.op;
  op.cookie = number;
  if (inner_->post({&op, 1}) != 1) return false;
  slot.state = State::kInner;
  return true;
}

void FaultQueue::hold(uint32_t number, uint64_t due, bool ordered) noexcept {
  slots_[number].state = State::kHeld;
  slots_[number].due = due;
  slots_[number].ordered = ordered;
  held_.push(number);
}

void FaultQueue::end(uint32_t number, uint64_t due, Code code) noexcept {
  slots_[number].state = State::kEnded;
  slots_[number].due = due;
  slots_[number].code = code;
  ended_.push(number);
}

// @return until when a new op to @p path must be held to keep its place; 0: it need not. A due time is never 0 here,
// since it counts at least the poll that follows.
uint64_t FaultQueue::path_held_until(PathId path) const noexcept {
  for (uint32_t i = held_.size; i != 0; --i) {
    const Slot& slot = slots_[held_.slots[i - 1]];
    if (slot.ordered && slot.op.path == path) return std::max<uint64_t>(slot.due, 1);
  }
  return 0;
}

// Post what is due, in the order of arrival; when the inner queue is full, the rest waits.
void FaultQueue::release_held() noexcept {
  const uint32_t size = std::exchange(held_.size, 0);
  bool room = true;
  bool posted = false;
  for (uint32_t i = 0; i < size; ++i) {
    const uint32_t number = held_.slots[i];
    const bool due = slots_[number].due <= polls_;
    room = room && (!due || pass(number));
    if (due && room)
      posted = true;
    else
      held_.push(number);
  }
  if (posted) inner_->flush();
}

// Half of @p out for what ended here, so that the inner queue is never starved of room.
uint32_t FaultQueue::poll(std::span<Completion> out) noexcept {
  if (out.empty()) return 0;
  ++polls_;
  if (held_.size != 0) release_held();
  const uint32_t n = ended_.size == 0 ? 0 : give_ended(out.first((out.size() + polls_ % 2) / 2));
  return n + give_inner(out.subspan(n));
}

uint32_t FaultQueue::give_ended(std::span<Completion> out) noexcept {
  const uint32_t size = std::exchange(ended_.size, 0);
  uint32_t n = 0;
  for (uint32_t i = 0; i < size; ++i) {
    const uint32_t number = ended_.slots[i];
    Slot& slot = slots_[number];
    if (slot.due > polls_ || n == out.size()) {
      ended_.push(number);
      continue;
    }
    out[n++] = {slot.op.cookie, 0, CompletionKind::kOp, slot.code};
    slot.state = State::kFree;
    free_.push(number);
  }
  return n;
}

uint32_t FaultQueue::give_inner(std::span<Completion> out) noexcept {
  const uint32_t got = inner_->poll(out);
  uint32_t n = 0;
  for (const Completion& completion : out.first(got)) {
    out[n] = completion;
    if (completion.kind == CompletionKind::kOp) {
      const auto number = static_cast<uint32_t>(completion.cookie);
      Slot& slot = slots_[number];
      if (slot.late_polls != 0) {
        end(number, polls_ + slot.late_polls, completion.code);
        continue;
      }
      out[n].cookie = slot.op.cookie;
      slot.state = State::kFree;
      free_.push(number);
    }
    ++n;
  }
  return n;
}

// End what is kept back here, of the ops that match.
template <typename Match>
void FaultQueue::cancel(Match match) noexcept {
  const uint32_t size = std::exchange(held_.size, 0);
  for (uint32_t i = 0; i < size; ++i)
    if (!match(slots_[held_.slots[i]])) held_.push(held_.slots[i]);
  for (uint32_t number = 0; number < slots_.size(); ++number) {
    Slot& slot = slots_[number];
    if (slot.state == State::kFree || !match(slot)) continue;
    slot.late_polls = 0;
    slot.due = polls_;
    if (slot.state == State::kHeld || slot.state == State::kSwallowed) end(number, polls_, Code::kCancelled);
  }
}

Code FaultQueue::close(PathId path) noexcept {
  cancel([path](const Slot& slot) { return slot.op.path == path; });
  return inner_->close(path);
}

void FaultQueue::shutdown() noexcept {
  shut_ = true;
  cancel([](const Slot&) { return true; });
  inner_->shutdown();
}

}  // namespace sluice
