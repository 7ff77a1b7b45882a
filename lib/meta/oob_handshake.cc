#include <algorithm>

#include "base/random.h"
#include "meta/oob_impl.h"

namespace sluice {
namespace {
constexpr uint64_t kLingerMs = 1000;  // for a bye to be taken

std::string who(const Hello& hello, const SockAddr& remote) {
  return "node '" + hello.name + "' at " + format_sockaddr(remote);
}
}  // namespace

/// The hello of @p link, as it will be sent. @return kLimit when the configuration does not fit.
Status OobNode::Impl::make_hello(Link& link) {
  Hello hello = config_.hello;
  hello.version = kOobVersion;
  hello.nonce = link.our_nonce = random_u64();
  hello.port = listening_.port;
  hello.secret = !config_.secret.empty();
  if (Status bad = encode_message(hello, &link.our_hello); !bad.ok()) return bad;
  if (link.our_hello.size() > kMaxHelloBytes)
    return Status(Code::kLimit, "the hello has " + std::to_string(link.our_hello.size()) + " bytes, at most " +
                                    std::to_string(kMaxHelloBytes) + " are allowed: name fewer features");
  link.hello_ns = now();
  return {};
}

Status OobNode::Impl::check_hello(const Hello& hello) const {
  if (hello.version != kOobVersion)
    return Status(Code::kPeerRefused, "it speaks out-of-band version " + std::to_string(hello.version) +
                                          ", this node version " + std::to_string(kOobVersion) +
                                          ": run the same release on both");
  if (hello.secret == config_.secret.empty())
    return Status(Code::kPeerRefused, std::string(hello.secret ? "it demands a shared secret and this node has none"
                                                               : "it has no shared secret and this node demands one") +
                                          ": set the same secret on both nodes");
  if (hello.incarnation == config_.hello.incarnation)
    return Status(Code::kPeerRefused, "that is this node itself: give the address of another");
  if (hello.lease_ms < 2 * config_.heartbeat_ms)
    return Status(Code::kPeerRefused, "it asks for a lease of " + std::to_string(hello.lease_ms) +
                                          " ms, which is less than two heartbeats of " +
                                          std::to_string(config_.heartbeat_ms) + " ms: raise its lease");
  return {};
}

void OobNode::Impl::on_hello(Link& link, const Hello& hello, std::string_view text) {
  link.hello = hello;
  if (hello.secret && !config_.secret.empty()) {
    const std::string_view ours = link.our_hello;
    link.stream.auth().open(config_.secret, link.dialer ? ours : text, link.dialer ? text : ours, link.dialer);
    if (!link.stream.auth().is_open()) return refuse(link, {Code::kInternal, "HMAC-SHA256 is not available"});
  }
  if (Status bad = check_hello(hello); !bad.ok()) return refuse(link, bad);
  if (find(hello.incarnation) != OobPeer{})
    return refuse(link, {Code::kExists, "this pair of nodes has a connection"}, true);
  link.state = LinkState::kWelcome;
  if (raw(config_.hello.incarnation) < raw(hello.incarnation)) return;  // we decide, when their welcome has come
  put(link, Welcome{hello.nonce});
  link.last_echo_ns = now();
}

void OobNode::Impl::on_welcome(Link& link, const Welcome& welcome) {
  if (welcome.nonce != link.our_nonce)
    return refuse(link, {Code::kBadFrame, "its welcome answers another hello than ours"});
  if (raw(config_.hello.incarnation) < raw(link.hello.incarnation)) {
    if (find(link.hello.incarnation) != OobPeer{})
      return refuse(link, {Code::kExists, "this pair of nodes has a connection"}, true);
    if (up_.size() >= config_.max_peers) return refuse(link, {Code::kLimit, "this node has all the peers it may have"});
    put(link, Welcome{link.hello.nonce});
    link.last_echo_ns = now();
  } else if (up_.size() >= config_.max_peers) {
    return refuse(link, {Code::kLimit, "this node has all the peers it may have"});
  }
  make_up(link);
}

/// An earlier life of the node behind @p fresh: the same name at the same address, or (when the decider lost the
/// earlier connection and we have not heard of it yet) the same incarnation.
void OobNode::Impl::replace_stale(const Link& fresh) {
  for (const auto& old : links_) {
    if (old->state != LinkState::kUp || old.get() == &fresh) continue;
    const bool same_node = old->hello.name == fresh.hello.name && old->hello.port == fresh.hello.port &&
                           fresh.hello.port != 0 && same_host(old->remote, fresh.remote);
    if (!same_node && old->hello.incarnation != fresh.hello.incarnation) continue;
    const Status why(Code::kStale, "it came back on a new connection");
    down(*old, why, final_at(*old), {.reason = why.text()});
  }
}

void OobNode::Impl::make_up(Link& link) {
  replace_stale(link);
  uint32_t index = 0;
  while (index < peers_.size() && peers_[index] != nullptr) ++index;
  if (index == peers_.size()) {
    peers_.push_back(nullptr);
    generations_.push_back(0);
  }
  if (++generations_[index] == 0) generations_[index] = 1;
  peers_[index] = &link;
  link.peer = static_cast<OobPeer>(uint64_t{generations_[index]} << 32 | index);
  up_[raw(link.hello.incarnation)] = &link;
  link.state = LinkState::kUp;
  link.heard_ns = now();
  link.lease_ns = ms(std::min(config_.hello.lease_ms, link.hello.lease_ms));
  link.lease_until_ns = link.hello_ns + link.lease_ns;
  link.next_ping_ns = 0;
  ++counters_.up;
  const OobPeer peer = link.peer;
  events_->on_up(peer, link.hello, link.lease_until_ns);  // which may close it
  dials_up(link, peer);
}

/// When the peer can place nothing of ours any more, if all it has is its lease.
uint64_t OobNode::Impl::final_at(const Link& link) const {
  return link.last_echo_ns + link.lease_ns + ms(config_.lease_margin_ms);
}

/// End an up link: @p bye is what the peer is told, @p why what the caller is told.
void OobNode::Impl::down(Link& link, const Status& why, uint64_t final_at_ns, const Bye& bye) {
  const OobPeer peer = link.peer;
  const Status status(why.code(), who(link.hello, link.remote) + " is down: " + why.text());
  begin_close(link, bye);
  ++counters_.down;
  events_->on_down(peer, status, final_at_ns);
}

/// Our side ends @p link in whatever state it is, and says why.
void OobNode::Impl::refuse(Link& link, const Status& why, bool duplicate) {
  if (duplicate) ++counters_.duplicates;
  if (why.code() == Code::kBadFrame) ++counters_.bad_frames;
  if (why.code() == Code::kPeerRefused || why.code() == Code::kLimit) ++counters_.refused;
  const Bye bye{.reason = why.text(), .duplicate = duplicate};
  if (link.state == LinkState::kUp) return down(link, {Code::kBadFrame, why.text()}, final_at(link), bye);
  const DialId id = std::exchange(link.dial, DialId{});
  begin_close(link, bye);
  if (id != DialId{}) {
    if (duplicate)
      dial_duplicate(id, link.hello.incarnation);
    else
      dial_failed(id, {why.code(), format_sockaddr(link.remote) + ": " + why.text()});
  } else if (!duplicate) {
    warn("connection from " + format_sockaddr(link.remote) + " refused: " + why.text());
  }
}

/// Say bye and let the link linger until it is taken: a live node never closes unannounced, so that a socket that
/// ends without a bye means a dead process. If bye cannot be said, the socket stays as long as our own lease.
void OobNode::Impl::begin_close(Link& link, const Bye& bye) {
  if (link.peer != OobPeer{}) {
    peers_[static_cast<uint32_t>(raw(link.peer))] = nullptr;
    up_.erase(raw(link.hello.incarnation));
    link.peer = OobPeer{};
  }
  if (link.state == LinkState::kConnecting) {
    link.state = LinkState::kDead;
    return;
  }
  std::string body;
  if (encode_message(bye, &body).ok()) link.stream.put(body, true);
  link.state = LinkState::kClosing;
  link.deadline_ns = std::max(now() + ms(kLingerMs), link.lease_until_ns);
}

/// The connection itself ended.
void OobNode::Impl::lost(Link& link, const Status& why) {
  const LinkState was = link.state;
  const DialId id = std::exchange(link.dial, DialId{});
  if (was == LinkState::kUp) down(link, why, why.code() == Code::kPeerDead ? now() : final_at(link), {});
  link.state = LinkState::kDead;
  if (id != DialId{}) return dial_failed(id, {why.code(), format_sockaddr(link.remote) + ": " + why.text()});
  if (was == LinkState::kHello || was == LinkState::kWelcome)
    warn("connection from " + format_sockaddr(link.remote) + " ended before it was up: " + why.text());
}

}  // namespace sluice
