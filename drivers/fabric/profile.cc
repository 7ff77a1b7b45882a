#include "profile.h"

#include <rdma/fi_domain.h>

#include <array>

namespace sluice::fabric {
namespace {

constexpr int kEfaMr = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
constexpr int kCxiMr = FI_MR_ENDPOINT | FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
constexpr int kAnyMr = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

// Best first. Hardware before sockets; of the two over sockets, tcp;ofi_rxm first: it has the same name and wire in
// every release, so that two hosts with different releases agree, and it says "again" when it is full, which native
// RDM of 1.17 ("net") never does. net is faster (2.4 times at 64 B, 1.9 times at 64 KiB, 1.3 times at 1 MiB) and is
// there for the asking. shm reaches this host only and sends to a dead peer "succeed": never picked by itself.
constexpr auto kRows = std::to_array<Profile>({
    // name         also   mr_mode  auto   costly placed closes leave  pid
    {"efa", "", kEfaMr, true, false, true, false, false, false},
    {"cxi", "", kCxiMr, true, false, true, false, false, false},
    // By default it keeps 128 receives of its own below a connection, 100 MB of a process; 32 are as fast.
    {"tcp;ofi_rxm", "", kAnyMr, true, true, true, false, true, false, "FI_OFI_RXM_MSG_RX_SIZE", "32"},
    {"tcp", "net", kAnyMr, true, true, false, false, false, false},
    {"shm", "", kAnyMr, false, false, true, false, false, true},
});

}  // namespace

std::span<const Profile> profiles() noexcept { return kRows; }

const Profile* find_profile(std::string_view provider) noexcept {
  for (const Profile& row : kRows)
    if (provider == row.name || (!row.also.empty() && provider == row.also)) return &row;
  return nullptr;
}

std::string profile_names() {
  std::string out;
  for (const Profile& row : kRows) {
    out.append(out.empty() ? "" : ", ").append(row.name);
    if (!row.also.empty()) out.append(" (or ").append(row.also).append(")");
  }
  return out;
}

}  // namespace sluice::fabric
