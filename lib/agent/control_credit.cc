// hot: sharing the receives among sessions, and growing and shrinking them
#include <algorithm>

#include "agent/control.h"
#include "proto/msg_header.h"

namespace sluice {
namespace {
constexpr uint32_t kShareBurst = 64;
constexpr uint64_t kManageParts = 8;  // looks per shrink-idle time
}  // namespace

Charge Control::window(const Session& s, uint32_t slots) const noexcept {
  // The peer takes the slots of SESSION_OPEN as the ceiling of requests too.
  const uint32_t requests = std::min(s.params.requests, s.params.ceiling_slots);
  Charge charge = window_charge(slots, requests, s.params.slot_bytes, kMsgHeaderBytes);
  if (mutant(Mutant::kShrinkTooFar) && raw(s.rx_epoch) > 1) charge[Resource::kDataBytes] = 0;
  return charge;
}

// The same less the requests that an earlier epoch left.
Charge Control::free_window(const Session& s, uint32_t slots) const noexcept {
  Charge free = window(s, slots);
  free[Resource::kRequestSlots] -= std::min(free[Resource::kRequestSlots], s.carried_requests);
  return free;
}

void Control::start_granting(Session& s) noexcept {
  const Charge ceiling = window(s, s.params.ceiling_slots);
  s.granter.open(s.rx_epoch, ceiling);
  Pool& pool = *pools_[raw(s.params.worker)];
  s.want_credit = true;
  pool.dirty = true;
  s.shared = pool.share.add(raw(s.params.peer), p_.session_floor, s.params.ceiling_slots) == Code::kOk;
  if (!s.shared) {  // not even the floor fits: grow first, then try again
    s.share_due = true;
    pool.starved = true;
    return;
  }
  pool.share.update(raw(s.params.peer), 0, true);
}

// Request slots are each session's own, not shared: they come back as responses are sent, while slots may stand still.
void Control::raise_requests(Session& s) noexcept {
  if (s.rx.state() != RxState::kOpen || s.granter.unused(Resource::kRequestSlots) * 2 > s.params.requests) return;
  if (s.granter.raise_to(free_window(s, 0))) s.grant_due = true;
}

// New windows for sessions that want credit, as far as receives are posted.
void Control::share(Pool& pool) noexcept {
  pool.dirty = false;
  if (pool.starved) retry_shares(pool);
  std::array<GrantShare::Window, kShareBurst> windows;
  const uint32_t n = pool.share.share(windows);
  for (uint32_t i = 0; i < n; ++i) {
    Peer* peer = peers_[windows[i].session];
    if (peer == nullptr || peer->failed) continue;
    Session& s = *peer->sessions[pool.worker];
    if (s.rx.state() != RxState::kOpen || s.acks.count > Session::kAckBacklog / 2 || s.naks.count > Session::kNakStop)
      continue;
    if (s.granter.raise_to(free_window(s, windows[i].slots))) s.grant_due = true;
    s.window_slots = windows[i].slots;
    s.want_credit = false;
    pool.share.update(windows[i].session, static_cast<uint32_t>(s.granter.outstanding(Resource::kBounceSlots)), false);
    list(s);
  }
}

// After DRAIN_ACK: when every message that it counts was placed, and said so, the next epoch begins with nothing
// granted. Requests need not be answered: if both sides fence at once, each answer would wait for the other's epoch.
void Control::check_home(Session& s) noexcept {
  Charge home = s.granter.released();
  home[Resource::kRequestSlots] = s.granter.accepted()[Resource::kRequestSlots];
  if (home != s.drain_totals || s.acks.count != 0 || s.naks.count != 0) return;
  if (s.rx.apply(RxEvent::kAllHome) != RxAction::kNextEpoch) return;
  s.rx_epoch = Epoch{raw(s.rx_epoch) + 1};
  s.carried_requests += s.granter.accepted()[Resource::kRequestSlots] - s.granter.released()[Resource::kRequestSlots];
  s.granter.open(s.rx_epoch, window(s, s.params.ceiling_slots));
  s.window_slots = 0;
  ToWorker m{};
  m.kind = ToWorker::Kind::kNextRxEpoch;
  m.values.a = raw(s.rx_epoch);
  tell_worker(s, m);
  Pool& pool = *pools_[raw(s.params.worker)];
  pool.share.update(raw(s.params.peer), 0, false);  // it was idle: its floor, until it asks for more
  pool.dirty = true;
  s.grant_due = true;  // even of nothing: it opens the epoch for the peer
  list(s);
}

void Control::manage(uint64_t now) noexcept {
  next_manage_ = now + std::max<uint64_t>(1, p_.shrink_idle / kManageParts);
  for (uint32_t w = 0; w < pools_.size(); ++w) grow_or_shrink(w);
  if (!draining_) return;
  bool done = now >= drain_until_;
  if (!done) {
    done = true;
    for (Peer* peer : peers_)
      for (size_t i = 0; peer != nullptr && i < peer->sessions.size(); ++i) {
        const Session& s = *peer->sessions[i];
        if (!s.closed && (!s.close_sent || s.channel.unacked() != 0)) done = false;
      }
  }
  if (!done) {
    next_manage_ = now + p_.ctrl_ack_delay;
    return;
  }
  draining_ = false;
  ToService out{};
  out.kind = ToService::Kind::kDrained;
  tell_service(out);
}

void Control::grow_or_shrink(uint32_t worker) noexcept {
  Pool& pool = *pools_[worker];
  if (pool.starved) retry_shares(pool);
  if (pool.starved) fence_idle(worker);
  // In use is memory that was filled once since the last look; a trickle does not keep it.
  if (pool.accepted >= pool.capacity) pool.last_used = now_;
  pool.accepted = 0;
  const bool idle = now_ - pool.last_used >= p_.shrink_idle;
  // Demand alone does not grow the pool: a small one lives in the cache. A peer that waits does. One that has not even
  // its floor does not wait for an extent to come home: where receives cannot be recalled, only messages bring it.
  if (((pool.share.short_of_slots() && pool.hungry && !pool.shrinking) || pool.starved) && !pool.growing &&
      now_ >= pool.next_try && pool.capacity + p_.extent_slots <= p_.rx_slots_max) {
    pool.growing = true;
    pool.hungry = false;
    ToService out{};
    out.kind = ToService::Kind::kWantExtent;
    out.worker = WorkerId{static_cast<uint16_t>(worker)};
    tell_service(out);
    ControlStats::add(stats_.grows, 1);
  } else if (idle && !pool.starved && !pool.growing && !pool.shrinking &&
             pool.capacity >= p_.rx_slots_min + p_.extent_slots) {
    // First stop promising, then reclaim what idle peers hold, and only then give the extent up (law 14).
    const uint32_t smaller = pool.capacity - p_.extent_slots;
    pool.share.set_capacity(smaller);
    if (pool.share.promised() > smaller) return fence_idle(worker);
    pool.capacity = smaller;
    pool.shrinking = true;
    pool.extents = smaller / p_.extent_slots;
    count_extents();
    ToWorker retire{};
    retire.kind = ToWorker::Kind::kRetireExtent;
    (void)p_.to_worker[worker]->put(retire);
    ControlStats::add(stats_.shrinks, 1);
  } else if ((!idle || pool.starved) && !pool.shrinking) {
    limit_share(pool);
  }
}

// What waits for its floor is kept from those that hold more than theirs: they use it up, and get no more.
void Control::limit_share(Pool& pool) noexcept { pool.share.set_capacity(pool.capacity - pool.reserved); }

// Sessions that did not fit when they opened. Room is made for those whose floor fits beside the floors of the others.
void Control::retry_shares(Pool& pool) noexcept {
  uint32_t shared = 0, waiting = 0;
  pool.share.set_capacity(pool.capacity);
  for (Peer* peer : peers_) {
    if (peer == nullptr || peer->failed || pool.worker >= peer->sessions.size()) continue;  // it may have fewer workers
    Session& s = *peer->sessions[pool.worker];
    if (s.share_due) {
      s.shared = pool.share.add(raw(s.params.peer), p_.session_floor, s.params.ceiling_slots) == Code::kOk;
      s.share_due = !s.shared;
      if (s.shared) pool.share.update(raw(s.params.peer), 0, true);
    }
    shared += s.shared ? 1 : 0;
    waiting += s.share_due ? 1 : 0;
  }
  pool.starved = waiting != 0;
  const uint32_t floors = pool.capacity / p_.session_floor;
  pool.reserved = floors <= shared ? 0 : std::min(waiting, floors - shared) * p_.session_floor;
  limit_share(pool);
}

void Control::fence_idle(uint32_t worker) noexcept {
  for (Peer* peer : peers_) {
    if (peer == nullptr || peer->failed || worker >= peer->sessions.size()) continue;
    Session& s = *peer->sessions[worker];
    if (now_ - s.last_message < p_.fence_idle || s.granter.outstanding(Resource::kBounceSlots) <= p_.session_floor)
      continue;
    if (s.rx.apply(RxEvent::kFence) != RxAction::kSendFence) continue;
    s.fence_due = true;
    ControlStats::add(stats_.fences, 1);
    list(s);
  }
}

void Control::count_extents() noexcept {
  uint64_t total = 0;
  for (const auto& pool : pools_) total += pool->extents;
  stats_.extents.store(total, std::memory_order_relaxed);
  if (total > stats_.extents_max.load(std::memory_order_relaxed))
    stats_.extents_max.store(total, std::memory_order_relaxed);
  if (total < stats_.extents_min.load(std::memory_order_relaxed))
    stats_.extents_min.store(total, std::memory_order_relaxed);
}

}  // namespace sluice
