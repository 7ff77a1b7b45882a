#include "profile.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_ext.h>

#include <array>

namespace sluice::fabric {
namespace {

constexpr int kAnyMr = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
constexpr int kEfaMr = kAnyMr;
// FI_OPT_EFA_EMULATED_READ and _WRITE of libfabric 1.18: numbers of its ABI.
constexpr int kEfaEmulatedRead = -FI_PROV_SPECIFIC_EFA + 1, kEfaEmulatedWrite = -FI_PROV_SPECIFIC_EFA + 2;
constexpr int kCxiMr = FI_MR_ENDPOINT | FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

// Best first. Hardware before sockets; of the two over sockets, tcp;ofi_rxm first: it has the same name and wire in
// every release, so that two hosts with different releases agree, and it says "again" when it is full, which native
// RDM of 1.17 ("net") never does. net is faster (2.4 times at 64 B, 1.9 times at 64 KiB, 1.3 times at 1 MiB) and is
// there for the asking. shm reaches this host only and sends to a dead peer "succeed": never picked by itself.
constexpr auto kRows = std::to_array<Profile>({
    // Asked for an API below 1.18 it emulates one-sided operations on devices that can do them. "efa-direct" lists the
    // same domains without delivery complete. A NIC maps 22 to 24 million pages: 84 GiB in small ones. Without a GPU
    // it would still start the libraries of all kinds of device memory that libfabric was built for.
    {.name = "efa",
     .mr_mode = kEfaMr,
     .api = FI_VERSION(1, 18),
     .fabric = "efa",
     .suffix = "-rdm",
     .auto_pick = true,
     .hmem = true,
     .places_first = true,
     .verbs_cap = true,
     .emulated_read = kEfaEmulatedRead,
     .emulated_write = kEfaEmulatedWrite,
     .page_entries = 22'000'000,
     .variable = "FI_HMEM",
     .value = "system",
     .variable_without_gpu = true},
    {.name = "cxi", .mr_mode = kCxiMr, .auto_pick = true, .hmem = true, .places_first = true},
    // By default it keeps 128 receives of its own below a connection, 100 MB of a process; 32 are as fast.
    {.name = "tcp;ofi_rxm",
     .mr_mode = kAnyMr,
     .auto_pick = true,
     .idle_poll_costly = true,
     .places_first = true,
     .leave_busy = true,
     .variable = "FI_OFI_RXM_MSG_RX_SIZE",
     .value = "32"},
    {.name = "tcp", .also = "net", .mr_mode = kAnyMr, .auto_pick = true, .idle_poll_costly = true},
    {.name = "shm", .mr_mode = kAnyMr, .places_first = true, .named_by_pid = true},
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
