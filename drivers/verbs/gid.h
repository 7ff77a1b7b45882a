/// @file gid.h
/// Which entry of a port's GID table peers shall use.
///
/// Model    Over Ethernet RoCE v2 comes before v1; among those IPv4 that is routed, then IPv6 that is, then unique
///          local IPv6, then link-local; an entry without a network device comes after all that have one; the
///          lowest index wins among equals. An index that is asked for is taken as it is. InfiniBand is addressed
///          by LID and needs none.
/// Threads  Pure.
/// Memory   The reason is text.
/// Errors   kNotFound when there is nothing to choose from.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"

namespace sluice::verbs {

using Gid = std::array<uint8_t, 16>;

enum class GidKind : uint8_t { kInfiniBand = 1, kRoceV1 = 2, kRoceV2 = 3 };

struct GidEntry {
  uint32_t index;
  GidKind kind;
  Gid gid;
  bool has_netdev;
};

struct GidChoice {
  GidEntry entry{};
  std::string reason;     ///< For the log: what was taken, and why.
  bool doubtful = false;  ///< The reason is worth a warning.
};

/// Choose from @p table. @p wanted: an index, or PairOptions::kAnyGid. @p by_lid: the port is of InfiniBand.
/// @return kNotFound.
Status choose_gid(std::span<const GidEntry> table, uint16_t wanted, bool by_lid, GidChoice* out);

/// "10.0.1.1" where it is an IPv4 address, else as IPv6.
std::string gid_text(const Gid& gid);
bool is_ipv4(const Gid& gid) noexcept;

}  // namespace sluice::verbs
