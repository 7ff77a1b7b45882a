/// @file grant_share.h
/// Sharing the posted receives of one queue among its sessions (law 15).
///
/// Model    Each session has a floor (always granted) and a demand. What the floors leave is shared round robin among
///          sessions with demand, up to each one's ceiling. The slots of a queue are of one size, so a turn of one slot
///          is a turn of so many bytes, and no deficit is left over; who misses a turn is first in the next call.
///          Promised slots never exceed the posted ones (law 1).
/// Threads  The control core.
/// Memory   Fixed tables, sized at construction; share() never allocates.
/// Errors   add refuses a session when even its floor would not fit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace sluice {

class GrantShare {
 public:
  struct Window {
    uint32_t session;  ///< The index given to add().
    uint32_t slots;    ///< The window the session shall have (G - F), never below what it holds.
  };

  explicit GrantShare(uint32_t max_sessions);

  /// The receives that are posted now. Lowering it never revokes: windows only stop growing (law 14), floors excepted;
  /// whoever shrinks the pool keeps promised() receives posted until that has fallen to the new capacity.
  void set_capacity(uint32_t slots) noexcept;
  uint32_t capacity() const noexcept { return capacity_; }
  /// Promised over all sessions: sum of max(held, floor).
  uint32_t promised() const noexcept { return promised_; }

  /// @return kLimit when the floor does not fit beside what is promised, kExists, kBadArgument (floor 0, ceiling <
  /// floor, session not below max_sessions).
  Code add(uint32_t session, uint32_t floor_slots, uint32_t ceiling_slots) noexcept;
  /// Its promise ends at once. @pre what it holds can no longer arrive. @return kNotFound.
  Code remove(uint32_t session) noexcept;
  /// The session holds @p held_slots now (G - F), and uses its credit (@p demand) or is idle.
  void update(uint32_t session, uint32_t held_slots, bool demand) noexcept;
  /// Decide new windows. @return how many of @p out were filled: sessions whose window rises. Call update() with what
  /// was granted.
  uint32_t share(std::span<Window> out) noexcept;
  /// Whether a session with demand got less than its ceiling for want of receives: the pool should grow.
  bool short_of_slots() const noexcept { return short_; }

 private:
  std::span<const uint32_t> active() const noexcept { return {order_.data(), count_}; }

  struct Member {
    uint32_t floor = 0, ceiling = 0, held = 0, given = 0;  // given: by the share() that runs
    bool present = false, demand = false;
  };
  static uint32_t promise(const Member& m) noexcept { return m.held > m.floor ? m.held : m.floor; }
  static uint32_t room(const Member& m) noexcept;
  void give_floors() noexcept;
  void give_rounds() noexcept;
  bool give(Member& m, uint32_t slots) noexcept;

  std::vector<Member> members_;
  std::vector<uint32_t> order_;  // the first count_: present sessions, in round-robin order
  uint32_t count_ = 0, capacity_ = 0, promised_ = 0, next_ = 0;
  uint32_t places_ = 0;  // sessions that the running share() can still begin to raise
  bool short_ = false;
};

}  // namespace sluice
