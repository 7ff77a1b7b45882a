#include "meta/oob.h"

#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "base/random.h"
#include "meta/oob_impl.h"

namespace sluice {
namespace {
constexpr int kReadsPerTurn = 8;  // of one link, so that a busy one does not hold up the others
}  // namespace

uint64_t monotonic_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

OobNode::OobNode(OobConfig config, OobEvents* events) : impl_(std::make_unique<Impl>(std::move(config), events)) {}
OobNode::~OobNode() = default;
Status OobNode::open() { return impl_->open(); }
Status OobNode::listen(const Address& address) { return impl_->listen(address); }
const Address& OobNode::listening() const noexcept { return impl_->listening_; }
DialId OobNode::dial(const Address& shown, std::vector<SockAddr> targets) {
  return impl_->dial(shown, std::move(targets));
}
uint64_t OobNode::close_peer(OobPeer peer, std::string_view reason) { return impl_->close_peer(peer, reason); }
Status OobNode::send(OobPeer peer, const OobMessage& message) { return impl_->send(peer, message); }
uint32_t OobNode::turn(int timeout_ms) { return impl_->turn(timeout_ms); }
void OobNode::wake() noexcept { impl_->wake(); }
OobPeer OobNode::find(Incarnation incarnation) const noexcept { return impl_->find(incarnation); }
const OobCounters& OobNode::counters() const noexcept { return impl_->counters_; }
bool OobNode::has_output() const noexcept { return impl_->has_output(); }

OobNode::Impl::~Impl() {
  for (const int fd : {wake_fd_, listen_fd_})
    if (fd >= 0) ::close(fd);
}

Status OobNode::Impl::open() {
  const Hello& hello = config_.hello;
  if (hello.name.empty() || hello.name.size() > kMaxNameBytes)
    return Status(Code::kBadArgument, "node name '" + hello.name.substr(0, kMaxNameBytes) + "' has " +
                                          std::to_string(hello.name.size()) + " bytes: give one of 1 to " +
                                          std::to_string(kMaxNameBytes));
  if (std::any_of(hello.name.begin(), hello.name.end(),
                  [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }))
    return Status(Code::kBadArgument, "the node's name has control characters: give a plain one");
  if (hello.incarnation == Incarnation{}) return Status(Code::kBadArgument, "incarnation 0: draw a random one");
  if (config_.heartbeat_ms == 0 || config_.suspect_ms < 2 * config_.heartbeat_ms ||
      hello.lease_ms < 2 * config_.heartbeat_ms)
    return Status(Code::kBadArgument, "heartbeat " + std::to_string(config_.heartbeat_ms) + " ms, suspect " +
                                          std::to_string(config_.suspect_ms) + " ms, lease " +
                                          std::to_string(hello.lease_ms) +
                                          " ms: suspect and lease must be at least two heartbeats, of 1 ms or more");
  wake_fd_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_fd_ < 0) return Status(Code::kSystemError, std::string("cannot make an eventfd: ") + strerror(errno));
  Link probe(-1, 0);
  return make_hello(probe);
}

Link* OobNode::Impl::link_of(OobPeer peer) const noexcept {
  const auto index = static_cast<uint32_t>(raw(peer)), generation = static_cast<uint32_t>(raw(peer) >> 32);
  return index < peers_.size() && generations_[index] == generation ? peers_[index] : nullptr;
}

OobPeer OobNode::Impl::find(Incarnation incarnation) const noexcept {
  const auto it = up_.find(raw(incarnation));
  return it == up_.end() ? OobPeer{} : it->second->peer;
}

uint64_t OobNode::Impl::close_peer(OobPeer peer, std::string_view reason) {
  Link* link = link_of(peer);
  if (link == nullptr) return 0;
  const uint64_t until = final_at(*link);
  link->lease_until_ns = 0;  // the caller has stopped placing: the socket need not outlive the lease
  begin_close(*link, {.reason = std::string(reason), .fenced = true});
  return until;
}

Status OobNode::Impl::send(OobPeer peer, const OobMessage& message) {
  Link* link = link_of(peer);
  if (link == nullptr) return Code::kStale;
  std::string body;
  if (Status bad = encode_message(message, &body); !bad.ok()) return bad;
  return link->stream.put(body);
}

void OobNode::Impl::wake() noexcept {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t wrote = ::write(wake_fd_, &one, sizeof one);  // full means that it is awake already
}

bool OobNode::Impl::has_output() const noexcept {
  return std::any_of(links_.begin(), links_.end(), [](const auto& link) {
    return link->state != LinkState::kDead && link->state != LinkState::kConnecting && link->stream.has_output();
  });
}

int OobNode::Impl::wait_ms(int timeout_ms) const {
  const uint64_t now_ns = now();
  uint64_t nearest = UINT64_MAX;
  if (accept_after_ns_ > now_ns) nearest = accept_after_ns_;
  for (const auto& link : links_) {
    if (link->state == LinkState::kDead) return 0;
    const uint64_t due = link->state == LinkState::kUp
                             ? std::min(link->next_ping_ns, link->heard_ns + ms(config_.suspect_ms))
                             : link->deadline_ns;
    nearest = std::min(nearest, due);
  }
  for (const Dial& dial : dials_)
    if (!dial.trying) nearest = std::min({nearest, dial.retry_ns, dial.deadline_ns});
  if (nearest == UINT64_MAX) return timeout_ms;
  const uint64_t rest_ms = nearest <= now_ns ? 0 : (nearest - now_ns + kNsPerMs - 1) / kNsPerMs;
  if (timeout_ms < 0) return static_cast<int>(std::min<uint64_t>(rest_ms, 60'000));
  return static_cast<int>(std::min<uint64_t>(rest_ms, static_cast<uint64_t>(timeout_ms)));
}

uint32_t OobNode::Impl::poll_all(int timeout_ms) {
  polled_.clear();
  polled_.push_back({wake_fd_, POLLIN, 0});
  polled_.push_back({now() < accept_after_ns_ ? -1 : listen_fd_, POLLIN, 0});
  for (const auto& link : links_) {
    const bool writes = link->state == LinkState::kConnecting || link->stream.has_output();
    const int events = (link->state == LinkState::kConnecting ? 0 : POLLIN) | (writes ? POLLOUT : 0);
    polled_.push_back({link->stream.fd(), static_cast<short>(events), 0});
  }
  const int ready = ::poll(polled_.data(), polled_.size(), timeout_ms);
  return ready > 0 ? static_cast<uint32_t>(ready) : 0;
}

uint32_t OobNode::Impl::turn(int timeout_ms) {
  work_ = 0;
  const size_t polled_links = links_.size();
  if (poll_all(wait_ms(timeout_ms)) > 0) {
    uint64_t scratch = 0;
    if (polled_[0].revents != 0) [[maybe_unused]]
      const ssize_t got = ::read(wake_fd_, &scratch, sizeof scratch);
    for (size_t i = 0; i < polled_links; ++i) {  // before accepting: a peer's end is seen before its return
      if (polled_[i + 2].revents == 0) continue;
      if (links_[i]->state == LinkState::kConnecting)
        on_connected(*links_[i]);
      else if ((polled_[i + 2].revents & ~POLLOUT) != 0)
        read_link(*links_[i]);
    }
    if (polled_[1].revents != 0) accept_some();
  }
  const uint64_t now_ns = now();
  for (const auto& link : links_) check_deadlines(*link, now_ns);
  run_dials(now_ns);
  for (const auto& link : links_) flush(*link);
  sweep();
  return work_;
}

void OobNode::Impl::read_link(Link& link) {
  Status status;
  bool more = true;
  for (int reads = 0; reads < kReadsPerTurn && more && status.ok() && link.state != LinkState::kDead; ++reads) {
    if (link.state == LinkState::kClosing) {
      status = link.stream.discard();
      more = false;
      continue;
    }
    status = link.stream.fill(&more);
    bool found = true;
    while (found && link.state < LinkState::kClosing) {
      std::string body;
      const size_t cap = link.state == LinkState::kUp ? kMaxOobMessageBytes : kMaxHelloBytes;
      if (Status bad = link.stream.next(cap, &body, &found); !bad.ok()) return refuse(link, bad);
      if (!found) break;
      ++work_;
      on_frame(link, body);
    }
  }
  if (!status.ok()) lost(link, status);
}

void OobNode::Impl::on_frame(Link& link, std::string_view body) {
  OobMessage message;
  if (Status bad = parse_message(body, &message); !bad.ok()) {
    if (bad.code() != Code::kUnsupported || link.state != LinkState::kUp) return refuse(link, bad);
    ++counters_.ignored;
    return;
  }
  if (const auto* bye = std::get_if<Bye>(&message)) {
    const std::string text = "it closed the connection: " + bye->reason;
    if (link.state == LinkState::kUp)
      return down(link, {Code::kClosed, text}, bye->fenced ? now() : final_at(link), {.reason = "bye"});
    if (!bye->duplicate) return lost(link, {Code::kPeerRefused, text});
    ++counters_.duplicates;
    link.state = LinkState::kDead;
    return dial_duplicate(std::exchange(link.dial, DialId{}), link.hello.incarnation);
  }
  const auto* hello = std::get_if<Hello>(&message);
  const auto* welcome = std::get_if<Welcome>(&message);
  if (link.state == LinkState::kHello && hello != nullptr) return on_hello(link, *hello, body);
  if (link.state == LinkState::kWelcome && welcome != nullptr) return on_welcome(link, *welcome);
  if (link.state != LinkState::kUp || hello != nullptr || welcome != nullptr)
    return refuse(link, {Code::kBadFrame, "a message came out of order"});
  link.heard_ns = now();
  on_peer_message(link, message);
}

void deliver(OobEvents& events, OobPeer peer, const OobMessage& message) {
  if (const auto* offer = std::get_if<PathOffer>(&message)) {
    events.on_offer(peer, *offer);
  } else if (const auto* answer = std::get_if<PathAnswer>(&message)) {
    events.on_answer(peer, *answer);
  } else if (const auto* query = std::get_if<SegmentQuery>(&message)) {
    events.on_segment_query(peer, *query);
  } else if (const auto* reply = std::get_if<SegmentReply>(&message)) {
    events.on_segment_reply(peer, *reply);
  } else if (const auto* end = std::get_if<BuffersEnd>(&message)) {
    events.on_buffers_end(peer, *end);
  } else if (const auto* left = std::get_if<BuffersLeft>(&message)) {
    events.on_buffers_left(peer, *left);
  } else if (const auto* move = std::get_if<PathMove>(&message)) {
    events.on_path_move(peer, *move);
  }
}

void OobNode::Impl::on_peer_message(Link& link, const OobMessage& message) {
  if (const auto* ping = std::get_if<Ping>(&message)) {
    put(link, Pong{ping->nonce});
    link.last_echo_ns = now();  // after it was made: a stop in between only makes this later, which is safe
  } else if (const auto* pong = std::get_if<Pong>(&message)) {
    on_pong(link, *pong);
  } else {
    deliver(*events_, link.peer, message);
  }
}

void OobNode::Impl::on_pong(Link& link, const Pong& pong) {
  const auto sent = std::find_if(link.pings.begin(), link.pings.end(),
                                 [&pong](const SentPing& ping) { return ping.nonce == pong.nonce; });
  if (sent == link.pings.end()) {
    ++counters_.ignored;
    return;
  }
  const uint64_t until = sent->sent_ns + link.lease_ns;  // from the ping, so that an echo that was kept gives nothing
  link.pings.erase(link.pings.begin(), sent + 1);
  if (until <= link.lease_until_ns) return;
  link.lease_until_ns = until;
  events_->on_lease(link.peer, until);
}

void OobNode::Impl::check_deadlines(Link& link, uint64_t now_ns) {
  if (link.state == LinkState::kDead) return;
  if (link.state == LinkState::kUp) {
    const uint64_t silent_ns = now_ns - std::min(now_ns, link.heard_ns);
    if (silent_ns >= ms(config_.suspect_ms)) {
      ++counters_.timeouts;
      const std::string text = "nothing was heard for " + std::to_string(silent_ns / kNsPerMs) + " ms";
      down(link, {Code::kTimeout, text}, final_at(link), {.reason = text});
    } else if (now_ns >= link.next_ping_ns) {
      ping(link);
    }
    return;
  }
  if (now_ns < link.deadline_ns) return;
  if (link.state == LinkState::kClosing) {
    link.state = LinkState::kDead;
    return;
  }
  ++counters_.timeouts;
  if (link.state == LinkState::kConnecting) return lost(link, {Code::kTimeout, "no answer to the connection request"});
  refuse(link, {Code::kTimeout, "its hello did not come in time"});
}

void OobNode::Impl::ping(Link& link) {
  ++work_;
  const SentPing sent{random_u64(), now()};  // before it is made: a stop in between only makes the lease shorter
  while (!link.pings.empty() && link.pings.front().sent_ns + link.lease_ns <= sent.sent_ns) link.pings.pop_front();
  link.pings.push_back(sent);
  link.next_ping_ns = sent.sent_ns + ms(config_.heartbeat_ms);
  put(link, Ping{sent.nonce});
}

void OobNode::Impl::put(Link& link, const OobMessage& message) {
  std::string body;
  if (!encode_message(message, &body).ok()) return;             // ours are within the caps
  if (link.stream.put(body) != Code::kOk) ++counters_.ignored;  // a peer that does not read gets no echo either
}

void OobNode::Impl::flush(Link& link) {
  if (link.state == LinkState::kDead || link.state == LinkState::kConnecting) return;
  if (Status broken = link.stream.flush(); !broken.ok() && link.state == LinkState::kClosing)
    link.state = LinkState::kDead;  // else reading comes to the same end, after what the peer still said
  else if (link.state == LinkState::kClosing && !link.stream.has_output())
    link.stream.finish_output();
}

void OobNode::Impl::sweep() {
  std::erase_if(links_, [](const auto& link) { return link->state == LinkState::kDead; });
}

}  // namespace sluice
