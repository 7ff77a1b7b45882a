#include "gid.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "xport/pair_options.h"

namespace sluice::verbs {
namespace {

// In the order of preference.
enum class Scope : uint8_t { kIpv4, kGlobal, kUniqueLocal, kLinkLocal, kNone };

Scope scope_of(const Gid& gid) noexcept {
  if (std::ranges::all_of(gid, [](uint8_t byte) { return byte == 0; })) return Scope::kNone;
  if (is_ipv4(gid)) {
    if (gid[12] == 0 || gid[12] == 127) return Scope::kNone;
    return gid[12] == 169 && gid[13] == 254 ? Scope::kLinkLocal : Scope::kIpv4;
  }
  if (gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80) return Scope::kLinkLocal;
  if ((gid[0] & 0xfe) == 0xfc) return Scope::kUniqueLocal;
  return (gid[0] & 0xe0) == 0x20 ? Scope::kGlobal : Scope::kNone;
}

const char* scope_text(Scope scope) noexcept {
  switch (scope) {
    case Scope::kIpv4: return "IPv4";
    case Scope::kGlobal: return "global IPv6";
    case Scope::kUniqueLocal: return "unique local IPv6";
    case Scope::kLinkLocal: return "link-local, not routed";
    case Scope::kNone: break;
  }
  return "of no known scope";
}

const char* kind_text(GidKind kind) noexcept {
  switch (kind) {
    case GidKind::kInfiniBand: return "InfiniBand";
    case GidKind::kRoceV1: return "RoCE v1";
    case GidKind::kRoceV2: break;
  }
  return "RoCE v2";
}

// Less is better. A link-local address of RoCE v2 still reaches a peer on the same wire, as one of v1 does.
uint32_t rank(const GidEntry& entry) noexcept {
  const uint32_t version = entry.kind == GidKind::kRoceV2 ? 0 : 8;
  return (entry.has_netdev ? 0u : 16u) + version + static_cast<uint32_t>(scope_of(entry.gid));
}

std::string describe(const GidEntry& entry) {
  return "GID " + std::to_string(entry.index) + " (" + gid_text(entry.gid) + ", " + kind_text(entry.kind) + ", " +
         scope_text(scope_of(entry.gid)) + (entry.has_netdev ? ")" : ", without network device)");
}

Status take_wanted(std::span<const GidEntry> table, uint16_t wanted, GidChoice* out) {
  for (const GidEntry& entry : table) {
    if (entry.index != wanted) continue;
    *out = {entry, describe(entry) + ", as gid-index says", !entry.has_netdev};
    return Code::kOk;
  }
  std::string there;
  for (const GidEntry& entry : table) there += (there.empty() ? "" : ", ") + std::to_string(entry.index);
  return {Code::kNotFound, "gid-index " + std::to_string(wanted) + " is not in the port's table, which has " +
                               (there.empty() ? "nothing" : there)};
}

}  // namespace

bool is_ipv4(const Gid& gid) noexcept {
  static constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.data(), kMapped, sizeof kMapped) == 0;
}

std::string gid_text(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = {};
  if (is_ipv4(gid)) {
    (void)inet_ntop(AF_INET, gid.data() + 12, text, sizeof text);
  } else {
    (void)inet_ntop(AF_INET6, gid.data(), text, sizeof text);
  }
  return text;
}

Status choose_gid(std::span<const GidEntry> table, uint16_t wanted, bool by_lid, GidChoice* out) {
  if (wanted != PairOptions::kAnyGid) return take_wanted(table, wanted, out);
  if (by_lid) {
    out->entry = table.empty() ? GidEntry{0, GidKind::kInfiniBand, {}, false} : table.front();
    out->reason = "by LID, as InfiniBand is";
    return Code::kOk;
  }
  std::vector<GidEntry> usable;
  for (const GidEntry& entry : table)
    if (scope_of(entry.gid) != Scope::kNone) usable.push_back(entry);
  if (usable.empty())
    return {Code::kNotFound, "the port has no usable GID: give its network device an address, and bring it up"};
  const auto best = std::ranges::min_element(usable, {}, [](const GidEntry& e) { return std::pair(rank(e), e.index); });
  const auto equal = std::ranges::count(usable, rank(*best), rank);
  *out = {*best, describe(*best), !best->has_netdev || scope_of(best->gid) == Scope::kLinkLocal};
  if (equal > 1) out->reason += ", the first of " + std::to_string(equal) + " such";
  if (usable.size() > 1) out->reason += ", of " + std::to_string(usable.size()) + " in the table";
  return Code::kOk;
}

}  // namespace sluice::verbs
