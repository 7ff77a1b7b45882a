#include "meta/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>

namespace sluice {
namespace {

constexpr size_t kMaxHostBytes = 253;  // of a DNS name
constexpr uint16_t kAnyPort = 0;

bool all_digits(std::string_view text) noexcept {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// inet_pton() reads up to a NUL, and what stands behind one must not pass for an address.
bool has_nul(std::string_view text) noexcept { return text.find('\0') != std::string_view::npos; }

bool is_v4(std::string_view host) {
  in_addr scratch;
  return !has_nul(host) && inet_pton(AF_INET, std::string(host).c_str(), &scratch) == 1;
}

/// Without its zone.
bool is_v6(std::string_view host) {
  in6_addr scratch;
  return !has_nul(host) && inet_pton(AF_INET6, std::string(host).c_str(), &scratch) == 1;
}

bool name_char(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

Status refuse(std::string_view text, std::string_view why) {
  std::string shown;
  for (const char c : text.substr(0, kMaxHostBytes)) shown += c >= ' ' && c <= '~' ? c : '?';
  return Status(Code::kBadArgument, "address '" + shown + "' " + std::string(why));
}

Status parse_port(std::string_view whole, std::string_view digits, AddressUse use, uint16_t* out) {
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, *out);
  if (!all_digits(digits) || error != std::errc{} || stop != end)
    return refuse(whole, "has no valid port: write a number from 1 to 65535 after the last colon");
  if (*out == kAnyPort && use == AddressUse::kConnect)
    return refuse(whole, "has port 0, which only a listener can ask for: write the port that the peer listens on");
  return {};
}

Status check_v6(std::string_view whole, std::string_view literal) {
  const size_t percent = literal.find('%');
  if (!is_v6(literal.substr(0, percent))) return refuse(whole, "is no IPv6 literal: write [2001:db8::1]:PORT");
  if (percent == std::string_view::npos) return {};
  const std::string_view zone = literal.substr(percent + 1);
  if (zone.empty() || zone.size() >= IF_NAMESIZE || !std::all_of(zone.begin(), zone.end(), name_char))
    return refuse(whole, "has no valid zone: write the interface after the %, as in [fe80::1%eth0]:PORT");
  return {};
}

Status check_name(std::string_view whole, std::string_view host, AddressUse use) {
  if (host.empty()) {
    if (use == AddressUse::kListen) return {};
    return refuse(whole, "has no host: write HOST:PORT");
  }
  if (host.size() > kMaxHostBytes || !std::all_of(host.begin(), host.end(), name_char))
    return refuse(whole, "has no valid host: write a name, an IPv4 literal, or an IPv6 literal in brackets");
  const size_t dot = host.rfind('.');
  if (all_digits(dot == std::string_view::npos ? host : host.substr(dot + 1)) && !is_v4(host))
    return refuse(whole, "is no IPv4 literal: write four numbers from 0 to 255, as in 192.0.2.1:PORT");
  return {};
}

Status need_port(std::string_view whole, std::string_view remedy, uint16_t default_port, uint16_t* out) {
  if (default_port == kAnyPort) return refuse(whole, "has no port: write " + std::string(remedy) + ":PORT");
  *out = default_port;
  return {};
}

/// Two colons or more and no brackets: a v6 literal, if its last group cannot be taken for a port.
Status parse_bare_v6(std::string_view text, uint16_t default_port, Address* out) {
  const size_t last = text.rfind(':');
  const std::string_view front = text.substr(0, last), back = text.substr(last + 1);
  const size_t percent = text.find('%');
  if (percent != std::string_view::npos && percent < last)
    return refuse(text, "needs brackets: write [" + std::string(front) + "]:" + std::string(back));
  if (is_v6(front) && all_digits(back)) {
    std::string choice = "needs brackets: write [" + std::string(front) + "]:" + std::string(back);
    if (is_v6(text)) choice += ", or [" + std::string(text) + "]:PORT";
    return refuse(text, choice);
  }
  if (Status bad = check_v6(text, text); !bad.ok()) return bad;
  out->host = text;
  return need_port(text, "[" + std::string(text) + "]", default_port, &out->port);
}

Status parse_bracketed(std::string_view text, AddressUse use, uint16_t default_port, Address* out) {
  const size_t close = text.find(']');
  if (close == std::string_view::npos) return refuse(text, "has no closing bracket: write [2001:db8::1]:PORT");
  const std::string_view literal = text.substr(1, close - 1), rest = text.substr(close + 1);
  if (Status bad = check_v6(text, literal); !bad.ok()) return bad;
  out->host = literal;
  if (rest.empty()) return need_port(text, text, default_port, &out->port);
  if (rest.front() != ':') return refuse(text, "has something other than :PORT after the bracket");
  return parse_port(text, rest.substr(1), use, &out->port);
}

/// The addresses of the interface called @p name, the routable before the link-local ones.
std::vector<SockAddr> interface_addresses(const std::string& name, uint16_t port) {
  std::vector<SockAddr> routable, local;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return routable;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || name != entry->ifa_name) continue;
    SockAddr made;
    if (entry->ifa_addr->sa_family == AF_INET) {
      sockaddr_in v4;
      std::memcpy(&v4, entry->ifa_addr, sizeof v4);
      v4.sin_port = htons(port);
      std::memcpy(&made.storage, &v4, made.length = sizeof v4);
      routable.push_back(made);
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      sockaddr_in6 v6;
      std::memcpy(&v6, entry->ifa_addr, sizeof v6);
      v6.sin6_port = htons(port);
      std::memcpy(&made.storage, &v6, made.length = sizeof v6);
      (IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr) ? local : routable).push_back(made);
    }
  }
  freeifaddrs(list);
  routable.insert(routable.end(), local.begin(), local.end());
  return routable;
}

/// A v6 socket takes v4 too, so it stands first; a machine without IPv6 has only the second.
std::vector<SockAddr> every_interface(uint16_t port) {
  std::vector<SockAddr> out(2);
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_addr = IN6ADDR_ANY_INIT;
  v6.sin6_port = htons(port);
  std::memcpy(&out[0].storage, &v6, out[0].length = sizeof v6);
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  std::memcpy(&out[1].storage, &v4, out[1].length = sizeof v4);
  return out;
}

/// The 16 bytes of @p address, v4 in its v6-mapped form.
in6_addr mapped(const SockAddr& address) noexcept {
  in6_addr out{};
  if (address.family() == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, &address.storage, sizeof v6);
    return v6.sin6_addr;
  }
  sockaddr_in v4;
  std::memcpy(&v4, &address.storage, sizeof v4);
  out.s6_addr[10] = out.s6_addr[11] = 0xff;
  std::memcpy(&out.s6_addr[12], &v4.sin_addr, sizeof v4.sin_addr);
  return out;
}
}  // namespace

uint16_t SockAddr::port() const noexcept {
  in_port_t port = 0;
  const size_t offset = family() == AF_INET6 ? offsetof(sockaddr_in6, sin6_port) : offsetof(sockaddr_in, sin_port);
  std::memcpy(&port, reinterpret_cast<const char*>(&storage) + offset, sizeof port);
  return ntohs(port);
}

Status parse_address(std::string_view text, AddressUse use, uint16_t default_port, Address* out) {
  *out = Address{};
  if (text.empty()) return refuse(text, "is empty: write HOST:PORT");
  if (text.front() == '[') return parse_bracketed(text, use, default_port, out);
  const size_t colon = text.find(':');
  if (colon != text.rfind(':')) return parse_bare_v6(text, default_port, out);
  const std::string_view host = text.substr(0, colon);
  if (Status bad = check_name(text, host, use); !bad.ok()) return bad;
  out->host = host;
  if (colon == std::string_view::npos) return need_port(text, host, default_port, &out->port);
  return parse_port(text, text.substr(colon + 1), use, &out->port);
}

std::string format_address(const Address& address) {
  const bool brackets = address.host.find(':') != std::string::npos;
  return (brackets ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

Address address_of(const SockAddr& address) {
  char host[NI_MAXHOST] = "unknown";
  getnameinfo(address.get(), address.length, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return {host, address.port()};
}

std::string format_sockaddr(const SockAddr& address) { return format_address(address_of(address)); }

bool same_host(const SockAddr& a, const SockAddr& b) noexcept {
  const in6_addr left = mapped(a), right = mapped(b);
  return std::memcmp(&left, &right, sizeof left) == 0;
}

Status resolve(const Address& address, AddressUse use, std::vector<SockAddr>* out) {
  out->clear();
  if (use == AddressUse::kListen) {
    *out = address.host.empty() ? every_interface(address.port) : interface_addresses(address.host, address.port);
    if (!out->empty()) return {};
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &list);
  if (error != 0) {
    const std::string_view remedy = use == AddressUse::kListen ? "give an address or an interface of this machine"
                                                               : "check the name, or give an address";
    return Status(Code::kNotFound, "cannot resolve '" + format_address(address) +
                                       "': " + (error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error)) + "; " +
                                       std::string(remedy));
  }
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_addrlen > sizeof(sockaddr_storage)) continue;
    SockAddr made;
    std::memcpy(&made.storage, entry->ai_addr, entry->ai_addrlen);
    made.length = entry->ai_addrlen;
    out->push_back(made);
  }
  freeaddrinfo(list);
  return {};
}

}  // namespace sluice
