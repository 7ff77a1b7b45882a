/// @file credit.h
/// Credit, both ends of it: what a sender may still post, and what a receiver has promised.
///
/// Model    Four resources, each a cumulative u64 total per session and epoch. The receiver's grant G, the sender's
///          view of it g, posted P, reserved R, accepted X, released F, committed C. Laws 1 to 5 of doc/design.md:
///          P + R <= g <= G <= F + C, and F <= X <= P. Repeating or reordering a grant changes nothing.
/// Threads  The ledger: its lane's worker. The granter: the control core. No locks, no atomics.
/// Memory   Plain data; nothing allocates.
/// Errors   reserve takes a charge in all four resources or in none. Grants and messages come from a peer: a refused
///          one leaves everything as it was.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/ids.h"
#include "base/mutant.h"
#include "base/status.h"
#include "proto/ctrl_frame.h"

namespace sluice {

inline constexpr size_t kResources = kMaxGrantEntries;

/// An amount of each resource: of one message, or a total.
struct Charge {
  std::array<uint64_t, kResources> v{};  ///< Index = Resource - 1.

  uint64_t& operator[](Resource r) noexcept { return v[static_cast<size_t>(r) - 1]; }
  uint64_t operator[](Resource r) const noexcept { return v[static_cast<size_t>(r) - 1]; }
  bool operator==(const Charge&) const = default;
};

/// What one message of @p payload_bytes consumes.
constexpr Charge message_charge(uint64_t payload_bytes, bool request, uint64_t slot_bytes) noexcept {
  return Charge{{payload_bytes, request ? 1u : 0u, slot_bytes, 1u}};
}
/// A window of @p slots messages and @p requests requests, of slots that hold @p slot_bytes with their header.
constexpr Charge window_charge(uint64_t slots, uint64_t requests, uint64_t slot_bytes, uint64_t header_bytes) noexcept {
  return Charge{{slots * (slot_bytes - header_bytes), requests, slots * slot_bytes, slots}};
}

/// Sender side, one per lane.
///
/// Kept as g, P and what is free (g - P - R), so that a reservation is four comparisons and one subtraction.
class CreditLedger {
 public:
  /// Begin @p epoch with nothing granted and a ceiling of @p committed. @pre all work of the last epoch has drained.
  void open(Epoch epoch, const Charge& committed) noexcept;
  /// Reserve @p charge in all four resources, or nothing. @return false means WAITING, not an error.
  [[nodiscard]] bool reserve(const Charge& charge) noexcept {
    for (size_t i = 0; i < kResources; ++i) {
      if (mutant(Mutant::kOneByOne) && charge.v[i] <= free_.v[i])
        free_.v[i] -= charge.v[i];
      else if (charge.v[i] > free_.v[i])
        return false;
    }
    if (mutant(Mutant::kOneByOne)) return true;
    for (size_t i = 0; i < kResources; ++i) free_.v[i] -= charge.v[i];
    return true;
  }
  /// The post of a reserved @p charge was accepted: it returns only as a new grant.
  void posted(const Charge& charge) noexcept {
    for (size_t i = 0; i < kResources; ++i) posted_.v[i] += charge.v[i];
  }
  /// The post of a reserved @p charge was refused: give it back.
  void unreserve(const Charge& charge) noexcept {
    for (size_t i = 0; i < kResources; ++i) free_.v[i] += charge.v[i];
  }
  /// Raise the totals; a resource that the grant does not name keeps its own. A total below g with a seq that is not
  /// newer is a late or repeated frame and harmless. @return kOk; kStale (another epoch; nothing changes); kBadFrame
  /// (beyond P + C, or a newer seq with less than g: the session is to be fenced; nothing changes).
  [[nodiscard]] Code apply_grant(Epoch epoch, uint64_t seq, const CreditGrant& grant) noexcept;

  Epoch epoch() const noexcept { return epoch_; }
  const Charge& granted() const noexcept { return granted_; }
  const Charge& posted_total() const noexcept { return posted_; }
  const Charge& committed() const noexcept { return committed_; }
  Charge reserved() const noexcept;
  /// What reserve could still take of @p r.
  uint64_t available(Resource r) const noexcept { return free_[r]; }

 private:
  Charge granted_, posted_, free_, committed_;
  Epoch epoch_{};
  uint64_t grant_seq_ = 0;
};

/// Receiver side, one per session.
class CreditGranter {
 public:
  /// Begin @p epoch with nothing granted; at most @p committed may be out at a time.
  void open(Epoch epoch, const Charge& committed) noexcept;
  /// A message (or several) arrived. @return kOk, kBadFrame when the peer never had that credit; nothing changes then.
  [[nodiscard]] Code accept(const Charge& charge) noexcept;
  /// Copied and its receive posted again (law 5). @return kInternal when more would be released than accepted.
  [[nodiscard]] Code release(const Charge& charge) noexcept;
  /// Raise the grant so that G - F becomes @p window, never beyond C, never below what G is. @return whether G rose.
  bool raise_to(const Charge& window) noexcept;

  /// The current totals, as a frame carries them: always all four.
  CreditGrant totals() const noexcept;
  Epoch epoch() const noexcept { return epoch_; }
  const Charge& granted() const noexcept { return granted_; }
  const Charge& accepted() const noexcept { return accepted_; }
  const Charge& released() const noexcept { return released_; }
  const Charge& committed() const noexcept { return committed_; }
  /// G - F: what the peer holds or has in flight, and what must be kept posted for it.
  uint64_t outstanding(Resource r) const noexcept { return granted_[r] - released_[r]; }
  /// G - X: what the peer can still send.
  uint64_t unused(Resource r) const noexcept { return granted_[r] - accepted_[r]; }

 private:
  Charge granted_, accepted_, released_, committed_;
  Epoch epoch_{};
};

}  // namespace sluice
