#include "proto/credit.h"

#include <algorithm>
#include <limits>

namespace sluice {

void CreditLedger::open(Epoch epoch, const Charge& committed) noexcept {
  *this = CreditLedger{};
  epoch_ = epoch;
  committed_ = committed;
}

Code CreditLedger::apply_grant(Epoch epoch, uint64_t seq, const CreditGrant& grant) noexcept {
  if (epoch != epoch_ && !mutant(Mutant::kNoEpochCheck)) return Code::kStale;
  if (grant.count > kMaxGrantEntries) return Code::kBadFrame;
  const bool newer = seq > grant_seq_;
  const auto entries = std::span(grant.entries).first(grant.count);
  for (const GrantEntry& entry : entries) {
    const uint64_t total = entry.total;
    if (total < granted_[entry.resource]) {
      if (newer) return Code::kBadFrame;
    } else if (total - posted_[entry.resource] > committed_[entry.resource]) {  // total >= g >= P: no wrap
      return Code::kBadFrame;
    }
  }
  for (const GrantEntry& entry : entries) {
    if (mutant(Mutant::kIncrementalGrants) && entry.total == granted_[entry.resource]) {
      free_[entry.resource] += entry.total - posted_[entry.resource];
      granted_[entry.resource] += entry.total - posted_[entry.resource];
    }
    if (entry.total <= granted_[entry.resource]) continue;
    free_[entry.resource] += entry.total - granted_[entry.resource];
    granted_[entry.resource] = entry.total;
  }
  if (newer) grant_seq_ = seq;
  return Code::kOk;
}

Charge CreditLedger::reserved() const noexcept {
  Charge reserved;
  for (size_t i = 0; i < kResources; ++i) reserved.v[i] = granted_.v[i] - posted_.v[i] - free_.v[i];
  return reserved;
}

void CreditGranter::open(Epoch epoch, const Charge& committed) noexcept {
  *this = CreditGranter{};
  epoch_ = epoch;
  committed_ = committed;
}

Code CreditGranter::accept(const Charge& charge) noexcept {
  for (size_t i = 0; i < kResources; ++i)
    if (charge.v[i] > granted_.v[i] - accepted_.v[i]) return Code::kBadFrame;
  for (size_t i = 0; i < kResources; ++i) accepted_.v[i] += charge.v[i];
  return Code::kOk;
}

Code CreditGranter::release(const Charge& charge) noexcept {
  for (size_t i = 0; i < kResources; ++i)
    if (charge.v[i] > accepted_.v[i] - released_.v[i]) return Code::kInternal;
  for (size_t i = 0; i < kResources; ++i) released_.v[i] += charge.v[i];
  return Code::kOk;
}

bool CreditGranter::raise_to(const Charge& window) noexcept {
  bool rose = false;
  for (size_t i = 0; i < kResources; ++i) {
    const uint64_t room = std::numeric_limits<uint64_t>::max() - released_.v[i];  // the total never wraps
    const uint64_t total = released_.v[i] + std::min({window.v[i], committed_.v[i], room});
    if (total <= granted_.v[i]) continue;  // a smaller window takes effect by not growing (law 14)
    granted_.v[i] = total;
    rose = true;
  }
  return rose;
}

CreditGrant CreditGranter::totals() const noexcept {
  CreditGrant grant{kMaxGrantEntries, {}};
  for (size_t i = 0; i < kResources; ++i) grant.entries[i] = {static_cast<Resource>(i + 1), granted_.v[i]};
  return grant;
}

}  // namespace sluice
