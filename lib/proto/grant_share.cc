#include "proto/grant_share.h"

#include <algorithm>

namespace sluice {

GrantShare::GrantShare(uint32_t max_sessions) : members_(max_sessions), order_(max_sessions) {}

void GrantShare::set_capacity(uint32_t slots) noexcept { capacity_ = slots; }

Code GrantShare::add(uint32_t session, uint32_t floor_slots, uint32_t ceiling_slots) noexcept {
  if (session >= members_.size() || floor_slots == 0 || ceiling_slots < floor_slots) return Code::kBadArgument;
  Member& m = members_[session];
  if (m.present) return Code::kExists;
  if (promised_ > capacity_ || floor_slots > capacity_ - promised_) return Code::kLimit;
  m = {.floor = floor_slots, .ceiling = ceiling_slots, .present = true};
  order_[count_++] = session;
  promised_ += floor_slots;
  return Code::kOk;
}

Code GrantShare::remove(uint32_t session) noexcept {
  if (session >= members_.size() || !members_[session].present) return Code::kNotFound;
  promised_ -= promise(members_[session]);
  members_[session] = {};
  const auto end = order_.begin() + count_;
  const auto at = std::find(order_.begin(), end, session);
  std::copy(at + 1, end, at);
  --count_;
  if (static_cast<uint32_t>(at - order_.begin()) < next_) --next_;
  if (next_ >= count_) next_ = 0;
  return Code::kOk;
}

void GrantShare::update(uint32_t session, uint32_t held_slots, bool demand) noexcept {
  if (session >= members_.size() || !members_[session].present) return;
  Member& m = members_[session];
  promised_ -= promise(m);
  m.held = held_slots;
  m.demand = demand;
  promised_ += promise(m);
}

uint32_t GrantShare::share(std::span<Window> out) noexcept {
  places_ = static_cast<uint32_t>(std::min<size_t>(out.size(), count_));
  give_floors();
  give_rounds();
  uint32_t filled = 0;
  short_ = false;
  for (uint32_t session : active()) {
    Member& m = members_[session];
    if (m.given != 0) out[filled++] = {session, m.held};
    m.given = 0;
    short_ |= m.demand && m.held < m.ceiling && promised_ >= capacity_;
  }
  return filled;
}

uint32_t GrantShare::room(const Member& m) noexcept { return m.demand && m.held < m.ceiling ? m.ceiling - m.held : 0; }

void GrantShare::give_floors() noexcept {
  for (uint32_t i = 0; i < count_; ++i) {
    Member& m = members_[order_[(next_ + i) % count_]];
    if (m.held < m.floor) give(m, m.floor - m.held);
  }
}

// Rounds of as many slots for each as everybody can have; the last round gives single slots, from next_ on.
void GrantShare::give_rounds() noexcept {
  while (promised_ < capacity_) {
    uint32_t hungry = 0;
    for (uint32_t session : active()) {
      const Member& m = members_[session];
      if (room(m) != 0 && (m.given != 0 || places_ != 0)) ++hungry;
    }
    if (hungry == 0) return;
    const uint32_t turn = std::max((capacity_ - promised_) / hungry, 1u);
    bool gave = false;
    for (uint32_t i = 0, at = next_; i < count_ && promised_ < capacity_; ++i, at = (at + 1) % count_) {
      Member& m = members_[order_[at]];
      if (!give(m, std::min({turn, room(m), capacity_ - promised_}))) continue;
      gave = true;
      next_ = (at + 1) % count_;
    }
    if (!gave) return;
  }
}

bool GrantShare::give(Member& m, uint32_t slots) noexcept {
  if (slots == 0 || (m.given == 0 && places_ == 0)) return false;
  if (m.given == 0) --places_;
  promised_ -= promise(m);
  m.held += slots;
  m.given += slots;
  promised_ += promise(m);
  return true;
}

}  // namespace sluice
