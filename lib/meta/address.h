/// @file address.h
/// The one parser of out-of-band addresses, and what they resolve to.
///
/// Model    An address is a host and a port. Text forms: `host:port`, `1.2.3.4:port`, `[v6]:port`,
///          `[fe80::1%lo]:port`; without a port where the caller has a default. A v6 literal may stand without
///          brackets only if no reading of its last group as a port is possible. To listen, the host may also be empty
///          (every interface) or the name of an interface.
/// Threads  Pure; resolve() may block on name servers, so it is called on the thread that wants the answer.
/// Memory   Allocates.
/// Errors   Each text names the value and what to write instead.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace sluice {

struct Address {
  std::string host;   ///< A name, a v4 literal, a v6 literal (no brackets, with zone), or empty: every interface.
  uint16_t port = 0;  ///< 0: any free port (to listen only).

  bool operator==(const Address&) const = default;
};

enum class AddressUse : uint8_t { kListen, kConnect };

/// A socket address of either family.
struct SockAddr {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
  int family() const noexcept { return storage.ss_family; }
  uint16_t port() const noexcept;
};

/// Read @p text. @p default_port stands in for a missing port; 0: a missing port is refused.
/// @return kBadArgument.
Status parse_address(std::string_view text, AddressUse use, uint16_t default_port, Address* out);

/// `host:port`, with brackets where the host has colons. parse_address() reads it back to the same value.
std::string format_address(const Address& address);
/// Host (numeric) and port of @p address.
Address address_of(const SockAddr& address);
/// The numeric form of @p address.
std::string format_sockaddr(const SockAddr& address);
/// Whether both name the same machine address, ports aside (a v4 address equals its v6-mapped form).
bool same_host(const SockAddr& a, const SockAddr& b) noexcept;

/// Every socket address that @p address stands for, in the order to try them. May block.
/// @return kNotFound when the name is unknown or the interface has no address.
Status resolve(const Address& address, AddressUse use, std::vector<SockAddr>* out);

}  // namespace sluice
