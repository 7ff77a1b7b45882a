#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "meta/oob_impl.h"

namespace sluice {
namespace {
constexpr uint64_t kAcceptBackoffMs = 100;
constexpr int kAcceptsPerTurn = 64;
constexpr int kBacklog = 512;

bool short_of_descriptors(int error) noexcept {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

void no_delay(int fd) noexcept {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Status listen_error(int error, const SockAddr& target, const Address& shown) {
  const std::string what = "cannot listen on '" + format_address(shown) + "' (" + format_sockaddr(target) + "): ";
  switch (error) {
    case EADDRINUSE: return Status(Code::kBusy, what + "the port is in use; choose another port, or 0 for any");
    case EADDRNOTAVAIL:
      return Status(Code::kNotFound, what + "no interface of this machine has that address; choose one that has");
    case EACCES:
      return Status(Code::kBadArgument, what + "ports below 1024 need a privilege; choose a port from 1024 up");
    default: return Status(Code::kSystemError, what + strerror(error));
  }
}
}  // namespace

Status OobNode::Impl::bind_one(const SockAddr& target, const Address& shown, int* out) {
  const int fd = ::socket(target.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return listen_error(errno, target, shown);
  const int on = 1, off = 0;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (target.family() == AF_INET6) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  SockAddr bound;
  bound.length = sizeof bound.storage;
  if (::bind(fd, target.get(), target.length) != 0 || ::listen(fd, kBacklog) != 0 ||
      ::getsockname(fd, bound.get(), &bound.length) != 0) {
    const int error = errno;
    ::close(fd);
    return listen_error(error, target, shown);
  }
  listening_ = address_of(bound);
  *out = fd;
  return {};
}

Status OobNode::Impl::listen(const Address& address) {
  if (listen_fd_ >= 0)
    return Status(Code::kExists, "this node listens on '" + format_address(listening_) + "' already");
  std::vector<SockAddr> targets;
  if (Status bad = resolve(address, AddressUse::kListen, &targets); !bad.ok()) return bad;
  Status first;
  for (const SockAddr& target : targets) {
    Status status = bind_one(target, address, &listen_fd_);
    if (status.ok() || status.code() == Code::kBusy) return status;  // another family would only hide a busy port
    if (first.ok()) first = std::move(status);
  }
  return first;
}

void OobNode::Impl::drop_oldest_stranger() {
  uint32_t strangers = 0;
  Link* oldest = nullptr;
  for (const auto& link : links_) {
    if (link->dialer || (link->state != LinkState::kHello && link->state != LinkState::kWelcome)) continue;
    if (oldest == nullptr) oldest = link.get();
    ++strangers;
  }
  if (strangers < config_.max_strangers || oldest == nullptr) return;
  ++counters_.timeouts;
  lost(*oldest, {Code::kLimit, "too many connections wait for their hello; the oldest is dropped"});
}

void OobNode::Impl::accept_some() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    SockAddr remote;
    remote.length = sizeof remote.storage;
    const int fd = ::accept4(listen_fd_, remote.get(), &remote.length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && short_of_descriptors(errno)) {
      ++counters_.accept_backoffs;
      accept_after_ns_ = now() + ms(kAcceptBackoffMs);
      warn("cannot accept a connection on " + format_address(listening_) + ": " + strerror(errno) +
           "; retrying; raise the limit of open files (ulimit -n)");
    }
    if (fd < 0) return;
    ++counters_.accepted;
    ++work_;
    drop_oldest_stranger();
    no_delay(fd);
    Link& link = *links_.emplace_back(std::make_unique<Link>(fd, config_.max_output_bytes));
    link.remote = remote;
    link.deadline_ns = now() + ms(config_.hello_ms);
    if (make_hello(link).ok()) link.stream.put(link.our_hello);
  }
}

DialId OobNode::Impl::dial(const Address& shown, std::vector<SockAddr> targets) {
  Dial& made = dials_.emplace_back();
  made.id = static_cast<DialId>(++last_dial_);
  made.shown = shown;
  made.targets = std::move(targets);
  made.deadline_ns = now() + ms(config_.connect_ms);
  made.last_error = Status(Code::kNotFound, "the address stands for no socket address");
  return made.id;
}

Dial* OobNode::Impl::find_dial(DialId id) noexcept {
  const auto it = std::find_if(dials_.begin(), dials_.end(), [id](const Dial& dial) { return dial.id == id; });
  return it == dials_.end() ? nullptr : &*it;
}

void OobNode::Impl::run_dials(uint64_t now_ns) {
  for (size_t i = 0; i < dials_.size();) {
    Dial& dial = dials_[i];
    const bool due = !dial.trying && now_ns >= dial.retry_ns;
    const bool over = now_ns >= dial.deadline_ns && !dial.trying;
    const DialId id = dial.id;
    if (over || (due && !try_next(dial, now_ns))) {
      dial_done(id, dial.last_error, OobPeer{});  // takes the entry out
    } else {
      ++i;
    }
  }
}

/// Begin with the next target that a socket can be made for. @return false when there is none left.
bool OobNode::Impl::try_next(Dial& dial, uint64_t now_ns) {
  while (dial.next < dial.targets.size()) {
    const SockAddr& target = dial.targets[dial.next];
    const uint64_t rest_ns = dial.deadline_ns - std::min(now_ns, dial.deadline_ns);
    const uint64_t share_ns = rest_ns / (dial.targets.size() - dial.next);
    ++dial.next;
    ++counters_.dialed;
    const int fd = ::socket(target.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      const bool limit = short_of_descriptors(errno);
      note(dial, {limit ? Code::kLimit : Code::kSystemError,
                  format_sockaddr(target) + ": cannot make a socket: " + strerror(errno) +
                      (limit ? "; raise the limit of open files (ulimit -n)" : "")});
      continue;
    }
    no_delay(fd);
    if (::connect(fd, target.get(), target.length) != 0 && errno != EINPROGRESS) {
      note(dial, {Code::kPeerDead, format_sockaddr(target) + ": " + strerror(errno)});
      ::close(fd);
      continue;
    }
    ++work_;
    dial.trying = true;
    Link& link = *links_.emplace_back(std::make_unique<Link>(fd, config_.max_output_bytes));
    link.state = LinkState::kConnecting;
    link.dialer = true;
    link.dial = dial.id;
    link.remote = target;
    link.deadline_ns = now_ns + share_ns;
    return true;
  }
  return false;
}

void OobNode::Impl::on_connected(Link& link) {
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(link.stream.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error == EINPROGRESS || error == EAGAIN) return;
  ++work_;
  if (error != 0) return lost(link, {Code::kPeerDead, strerror(error)});
  link.state = LinkState::kHello;
  if (make_hello(link).ok()) link.stream.put(link.our_hello);
}

/// Keep what went wrong, beside what went wrong with earlier targets.
void OobNode::Impl::note(Dial& dial, const Status& why) {
  const bool first = dial.next <= 1;
  dial.last_error = Status(why.code(), first ? why.text() : dial.last_error.text() + "; " + why.text());
}

/// One target did not work: the next one's turn.
void OobNode::Impl::dial_failed(DialId id, const Status& why) {
  Dial* dial = find_dial(id);
  if (dial == nullptr) return;
  dial->trying = false;
  dial->retry_ns = 0;
  note(*dial, why);
}

/// The pair has another connection. If it is up here, done; else it is coming up, or its end has not been noticed over
/// there.
void OobNode::Impl::dial_duplicate(DialId id, Incarnation incarnation) {
  Dial* dial = find_dial(id);
  if (dial == nullptr) return;
  if (const OobPeer peer = find(incarnation); peer != OobPeer{}) return dial_done(id, Code::kOk, peer);
  dial->duplicate_of = incarnation;
  dial->last_error = Status(Code::kAgain, "the peer still holds an earlier connection of this node");
  dial->trying = false;
  dial->next = 0;
  dial->retry_ns = now() + ms(config_.heartbeat_ms);
}

void OobNode::Impl::dial_done(DialId id, const Status& status, OobPeer peer) {
  const Dial* dial = find_dial(id);
  if (dial == nullptr) return;
  Status told = status;
  if (!status.ok()) {
    std::string text = "cannot connect to '" + format_address(dial->shown) + "': " + status.text();
    if (status.code() == Code::kPeerDead || status.code() == Code::kTimeout)
      text += "; check that the node runs and listens there";
    told = Status(status.code(), std::move(text));
  }
  dials_.erase(dials_.begin() + (dial - dials_.data()));
  events_->on_dialed(id, told, peer);
}

/// @p link came up: it serves its own dial, and those that were told that there is another connection.
void OobNode::Impl::dials_up(const Link& link, OobPeer peer) {
  const Incarnation incarnation = link.hello.incarnation;
  std::vector<DialId> served;
  for (const Dial& dial : dials_)
    if (dial.id == link.dial || (dial.duplicate_of == incarnation && !dial.trying)) served.push_back(dial.id);
  for (const DialId id : served) {
    const bool up = link_of(peer) != nullptr;  // a callback may have closed it
    dial_done(id, up ? Status() : Status(Code::kClosed, "it was closed as soon as it was up"), peer);
  }
}

}  // namespace sluice
