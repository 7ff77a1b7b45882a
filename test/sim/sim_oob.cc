#include "sim_oob.h"

#include <algorithm>

namespace sluice::sim {

uint64_t OobNet::arrival(uint16_t a, uint16_t b, uint64_t last) {
  uint64_t when = std::max(world->now() + world->net.range(20 * kUs, 300 * kUs), last);
  const auto it = cut_.find({std::min(a, b), std::max(a, b)});
  if (it != cut_.end() && it->second > world->now()) when = std::max(when, it->second);
  return when;
}

SimOob::SimOob(OobNet* net, OobConfig config, OobEvents* events)
    : net_(net), config_(std::move(config)), events_(events) {}

SimOob::~SimOob() {
  for (const auto& link : links_)
    if (link->state != State::kDead) put(*link, OobReset{});
  if (net_->listeners[listening_.port] == this) net_->listeners.erase(listening_.port);
}

Status SimOob::listen(const Address& address) {
  listening_ = address;
  net_->listeners[address.port] = this;
  return Code::kOk;
}

SimOob::Link* SimOob::link_of(OobPeer peer) noexcept {
  for (const auto& link : links_)
    if (link->state == State::kUp && link->peer == peer) return link.get();
  return nullptr;
}

SimOob::Link* SimOob::by_id(uint64_t id) noexcept {
  for (const auto& link : links_)
    if (link->id == id && link->state != State::kDead) return link.get();
  return nullptr;
}

OobPeer SimOob::find(Incarnation incarnation) noexcept {
  for (const auto& link : links_)
    if (link->state == State::kUp && link->hello.incarnation == incarnation) return link->peer;
  return OobPeer{};
}

// To the process that listens there now; one that came later knows no such link, and resets it.
void SimOob::put(Link& link, OobPacket packet) {
  OobNet* net = net_;
  const uint16_t from = listening_.port, to = link.port;
  const uint64_t id = link.id;
  link.last_sent = net->arrival(from, to, link.last_sent);
  net->world->at(link.last_sent, [net, from, to, id, packet = std::move(packet)] {
    const auto it = net->listeners.find(to);
    if (it != net->listeners.end()) {
      it->second->inbox_.push_back({id, from, packet});
    } else if (const auto back = net->listeners.find(from); back != net->listeners.end()) {
      back->second->inbox_.push_back({id, to, OobReset{}});
    }
  });
}

// ---- the turn

uint32_t SimOob::turn(int) {
  work_ = 0;
  while (!inbox_.empty()) {
    const Arrived in = std::move(inbox_.front());
    inbox_.pop_front();
    ++work_;
    on_packet(in.link, in.from, in.packet);
  }
  for (size_t i = 0; i < links_.size(); ++i) check_deadlines(*links_[i]);
  run_dials();
  std::erase_if(links_, [](const auto& link) { return link->state == State::kDead; });
  return work_;
}

void SimOob::on_packet(uint64_t id, uint16_t from, const OobPacket& packet) {
  Link* link = by_id(id);
  if (std::holds_alternative<OobSyn>(packet)) {
    Link& made = *links_.emplace_back(std::make_unique<Link>());
    made.id = id;
    made.port = from;
    made.deadline_ns = now() + ms(config_.hello_ms);
    return say_hello(made);
  }
  if (link == nullptr) {
    if (std::holds_alternative<OobReset>(packet)) return;
    const auto* message = std::get_if<OobMessage>(&packet);
    if (message != nullptr && std::holds_alternative<Bye>(*message)) return;
    Link gone;
    gone.id = id;
    gone.port = from;
    return put(gone, OobReset{});
  }
  if (std::holds_alternative<OobReset>(packet)) return lost(*link, {Code::kPeerDead, "its socket closed"});
  on_message(*link, std::get<OobMessage>(packet));
}

void SimOob::on_message(Link& link, const OobMessage& message) {
  if (const auto* bye = std::get_if<Bye>(&message)) {
    const Status why(Code::kClosed, "it closed the connection: " + bye->reason);
    if (link.state == State::kUp) return down(link, why, bye->fenced ? now() : final_at(link), {.reason = "bye"});
    if (!bye->duplicate) return lost(link, {Code::kPeerRefused, why.text()});
    link.state = State::kDead;
    return dial_duplicate(std::exchange(link.dial, DialId{}), link.hello.incarnation);
  }
  if (const auto* hello = std::get_if<Hello>(&message)) {
    if (link.state == State::kConnecting) say_hello(link);
    return on_hello(link, *hello);
  }
  if (const auto* welcome = std::get_if<Welcome>(&message)) return on_welcome(link, *welcome);
  link.heard_ns = now();
  on_peer_message(link, message);
}

void SimOob::on_peer_message(Link& link, const OobMessage& message) {
  if (link.state != State::kUp) return;
  if (const auto* ping = std::get_if<Ping>(&message)) {
    put(link, OobMessage{Pong{ping->nonce}});
    link.last_echo_ns = now();
  } else if (const auto* pong = std::get_if<Pong>(&message)) {
    on_pong(link, *pong);
  } else {
    deliver(*events_, link.peer, message);
  }
}

void SimOob::on_pong(Link& link, const Pong& pong) {
  const auto sent =
      std::find_if(link.pings.begin(), link.pings.end(), [&](const auto& p) { return p.first == pong.nonce; });
  if (sent == link.pings.end()) return;
  const uint64_t until = sent->second + link.lease_ns;
  link.pings.erase(link.pings.begin(), sent + 1);
  if (until <= link.lease_until_ns) return;
  link.lease_until_ns = until;
  events_->on_lease(link.peer, until);
}

void SimOob::check_deadlines(Link& link) {
  const uint64_t at = now();
  if (link.state == State::kDead) return;
  if (link.state == State::kUp) {
    if (at - std::min(at, link.heard_ns) >= ms(config_.suspect_ms))
      return down(link, {Code::kTimeout, "nothing was heard"}, final_at(link), {.reason = "nothing was heard"});
    if (at < link.next_ping_ns) return;
    ++work_;
    link.pings.push_back({net_->world->ids.next(), at});
    link.next_ping_ns = at + ms(config_.heartbeat_ms);
    return put(link, OobMessage{Ping{link.pings.back().first}});
  }
  if (at < link.deadline_ns) return;
  refuse(link, {Code::kTimeout, "its hello did not come in time"}, false);
}

// ---- from a wish to a peer, and back: as in oob_handshake.cc

void SimOob::say_hello(Link& link) {
  Hello hello = config_.hello;
  hello.nonce = link.our_nonce = net_->world->ids.next();
  hello.port = listening_.port;
  link.hello_ns = now();
  link.state = State::kHello;
  put(link, OobMessage{hello});
}

void SimOob::on_hello(Link& link, const Hello& hello) {
  link.hello = hello;
  if (find(hello.incarnation) != OobPeer{}) return refuse(link, {Code::kExists, "the pair has a connection"}, true);
  link.state = State::kWelcome;
  if (raw(config_.hello.incarnation) < raw(hello.incarnation)) return;
  put(link, OobMessage{Welcome{hello.nonce}});
  link.last_echo_ns = now();
}

void SimOob::on_welcome(Link& link, const Welcome& welcome) {
  if (link.state != State::kWelcome || welcome.nonce != link.our_nonce)
    return refuse(link, {Code::kBadFrame, "a welcome out of order"}, false);
  if (raw(config_.hello.incarnation) < raw(link.hello.incarnation)) {
    if (find(link.hello.incarnation) != OobPeer{})
      return refuse(link, {Code::kExists, "the pair has a connection"}, true);
    put(link, OobMessage{Welcome{link.hello.nonce}});
    link.last_echo_ns = now();
  }
  make_up(link);
}

void SimOob::replace_stale(const Link& fresh) {
  for (size_t i = 0; i < links_.size(); ++i) {
    Link& old = *links_[i];
    if (old.state != State::kUp || &old == &fresh || old.hello.name != fresh.hello.name) continue;
    down(old, {Code::kStale, "it came back on a new connection"}, final_at(old), {.reason = "stale"});
  }
}

void SimOob::make_up(Link& link) {
  replace_stale(link);
  link.peer = static_cast<OobPeer>(++last_peer_);
  link.state = State::kUp;
  ++up_;
  link.heard_ns = now();
  link.lease_ns = ms(std::min(config_.hello.lease_ms, link.hello.lease_ms));
  link.lease_until_ns = link.hello_ns + link.lease_ns;
  const OobPeer peer = link.peer;
  const Incarnation incarnation = link.hello.incarnation;
  const DialId own = link.dial;
  events_->on_up(peer, link.hello, link.lease_until_ns);
  std::vector<DialId> served;
  for (const Dial& dial : dials_)
    if (dial.id == own || (dial.duplicate_of == incarnation && !dial.trying)) served.push_back(dial.id);
  for (const DialId id : served)
    dial_done(id, link_of(peer) != nullptr ? Status() : Status(Code::kClosed, "closed as soon as it was up"), peer);
}

void SimOob::down(Link& link, const Status& why, uint64_t final_at_ns, const Bye& bye) {
  const OobPeer peer = link.peer;
  end(link, bye);
  events_->on_down(peer, why, final_at_ns);
}

void SimOob::end(Link& link, const Bye& bye) {
  if (link.state == State::kUp) --up_;
  link.state = State::kDead;
  put(link, OobMessage{bye});
}

uint64_t SimOob::close_peer(OobPeer peer, std::string_view reason) {
  Link* link = link_of(peer);
  if (link == nullptr) return 0;
  const uint64_t until = final_at(*link);
  end(*link, {.reason = std::string(reason), .duplicate = false, .fenced = true});
  return until;
}

void SimOob::refuse(Link& link, const Status& why, bool duplicate) {
  const Bye bye{.reason = why.text(), .duplicate = duplicate};
  if (link.state == State::kUp) return down(link, {Code::kBadFrame, why.text()}, final_at(link), bye);
  const DialId id = std::exchange(link.dial, DialId{});
  end(link, bye);
  if (id == DialId{}) return;
  if (duplicate)
    dial_duplicate(id, link.hello.incarnation);
  else
    dial_failed(id, why);
}

void SimOob::lost(Link& link, const Status& why) {
  const DialId id = std::exchange(link.dial, DialId{});
  if (link.state == State::kUp) down(link, why, why.code() == Code::kPeerDead ? now() : final_at(link), {});
  link.state = State::kDead;
  if (id != DialId{}) dial_failed(id, why);
}

Status SimOob::send(OobPeer peer, const OobMessage& message) {
  Link* link = link_of(peer);
  if (link == nullptr) return Code::kStale;
  put(*link, message);
  return Code::kOk;
}

// ---- dials

DialId SimOob::dial(const Address& shown, std::vector<SockAddr>) {
  Dial& made = dials_.emplace_back();
  made.id = static_cast<DialId>(++last_dial_);
  made.port = shown.port;
  made.deadline_ns = now() + ms(config_.connect_ms);
  made.last_error = Status(Code::kTimeout, "no answer");
  return made.id;
}

void SimOob::run_dials() {
  for (size_t i = 0; i < dials_.size();) {
    Dial& dial = dials_[i];
    if (dial.trying || (now() < dial.retry_ns && now() < dial.deadline_ns)) {
      ++i;
      continue;
    }
    if (now() >= dial.deadline_ns || dial.last_error.code() == Code::kPeerDead) {
      dial_done(dial.id, dial.last_error, OobPeer{});
      continue;
    }
    dial.trying = true;
    ++work_;
    Link& link = *links_.emplace_back(std::make_unique<Link>());
    link.id = net_->next_link++;
    link.port = dial.port;
    link.dialer = true;
    link.dial = dial.id;
    link.state = State::kConnecting;
    link.deadline_ns = dial.deadline_ns;
    put(link, OobSyn{});
    ++i;
  }
}

void SimOob::dial_failed(DialId id, const Status& why) {
  for (Dial& dial : dials_) {
    if (dial.id != id) continue;
    dial.trying = false;
    dial.retry_ns = 0;
    dial.deadline_ns = 0;  // there is one target only
    dial.last_error = why;
  }
}

void SimOob::dial_duplicate(DialId id, Incarnation incarnation) {
  for (Dial& dial : dials_) {
    if (dial.id != id) continue;
    if (const OobPeer peer = find(incarnation); peer != OobPeer{}) return dial_done(id, Code::kOk, peer);
    dial.duplicate_of = incarnation;
    dial.last_error = Status(Code::kAgain, "the peer still holds an earlier connection");
    dial.trying = false;
    dial.retry_ns = now() + ms(config_.heartbeat_ms);
    return;
  }
}

void SimOob::dial_done(DialId id, const Status& status, OobPeer peer) {
  const Status told = status;  // it may be the dial's own
  const DialId which = id;
  const auto n = std::erase_if(dials_, [&](const Dial& dial) { return dial.id == which; });
  if (n != 0) events_->on_dialed(which, told, peer);
}

}  // namespace sluice::sim
