#include "laws.h"

#include "peek.h"

namespace sluice::sim {
namespace {
bool no_more(const Charge& a, const Charge& b) noexcept {
  for (size_t i = 0; i < kResources; ++i)
    if (a.v[i] > b.v[i]) return false;
  return true;
}
Charge plus(const Charge& a, const Charge& b) noexcept {
  Charge sum = a;
  for (size_t i = 0; i < kResources; ++i) sum.v[i] += b.v[i];
  return sum;
}
std::string text(const Charge& c) {
  std::string out = "{";
  for (const uint64_t v : c.v) out += std::to_string(v) + " ";
  out.back() = '}';
  return out;
}
}  // namespace

void Laws::check(SimNode& node) {
  if (!node.up()) return;
  for (uint32_t w = 0; w < node.settings().workers && !world_.failed(); ++w) check_worker(node, w);
  const Control& control = node.life().plane->control();
  std::vector<uint64_t> promised(node.settings().workers);
  for (const Peer* peer : SimPeek::peers(control)) {
    if (peer == nullptr) continue;
    for (const auto& s : peer->sessions) {
      check_session(node, *s);
      if (!s->closed) promised[raw(s->params.worker)] += s->granter.outstanding(Resource::kBounceSlots);
    }
  }
  for (uint32_t w = 0; w < promised.size() && !world_.failed(); ++w) check_pool(node, w, promised[w]);
  const ControlParams& p = SimPeek::params(control);
  if (p.tx_pool->out_slots() != SimPeek::tx_out(control)) world_.fail("a control slot has no owner, or two");
  if (control.stats().lost_messages.load() != 0) world_.fail("a message of control's to a neighbour is lost");
}

// Slots: each has one owner. Law 1 over all peers: what is promised is posted.
void Laws::check_pool(SimNode& node, uint32_t worker, uint64_t promised) {
  const auto& w = static_cast<const Worker&>(node.life().plane->worker(worker));
  const WorkerParams& p = SimPeek::params(w);
  const uint64_t capacity = std::min(SimPeek::rx_limit(w), p.rx_pool->live_slots());
  if (promised > capacity)
    world_.fail("law 1: " + std::to_string(promised) + " slots are promised and " + std::to_string(capacity) +
                " can be posted, node " + std::to_string(node.index()));
}

void Laws::check_worker(SimNode& node, uint32_t worker) {
  const auto& w = static_cast<const Worker&>(node.life().plane->worker(worker));
  const WorkerParams& p = SimPeek::params(w);
  const SimQueue& queue = *node.life().queues[worker];
  if (p.tx_pool->out_slots() != SimPeek::tx_out(w) + SimPeek::spares(w))
    world_.fail("a send slot has no owner, or two");
  if (p.rx_pool->out_slots() != SimPeek::rx_posted(w) + SimPeek::refills(w))
    world_.fail("a receive slot has no owner, or two");
  if (queue.posted() + queue.unpolled() != SimPeek::rx_posted(w)) world_.fail("the worker counts receives wrongly");
  if (w.stats().lost_messages.load() != 0) world_.fail("a message of a worker's to control is lost");
  size_t staged = 0;
  for (const Lane* lane : SimPeek::lanes(w)) {
    if (lane == nullptr) continue;
    staged += lane->staged_count;
    check_lane(node, *lane);
  }
  if (queue.ops_out() + staged + SimPeek::resends(w) != SimPeek::tx_out(w))
    world_.fail("ops out " + std::to_string(queue.ops_out()) + ", staged " + std::to_string(staged) + ", to repeat " +
                std::to_string(SimPeek::resends(w)) + ", and the worker counts " + std::to_string(SimPeek::tx_out(w)));
}

const Session* Laws::other_end(const SimNode& node, SessionId session) const {
  for (const auto& other : nodes_) {
    if (other.get() == &node || !other->up() || other->life().plane == nullptr) continue;
    const Session* s = SimPeek::find(other->life().plane->control(), session);
    if (s != nullptr) return s;
  }
  return nullptr;
}

uint64_t Laws::rx_epoch(uint32_t sender, SessionId session) const {
  const Session* s = other_end(*nodes_[sender], session);
  return s == nullptr ? 0 : raw(s->rx_epoch);
}

// Laws 1, 2, 9 and 10 of a sender, against what its receiver knows.
void Laws::check_lane(SimNode& node, const Lane& lane) {
  const CreditLedger& l = lane.ledger;
  if (lane.state != Lane::State::kOpen || !lane.tx_open) return;
  Charge staged;
  for (uint32_t i = 0; i < lane.staged_count; ++i) staged = plus(staged, lane.staged[i].charge);
  if (l.reserved() != staged) world_.fail("law 9: reserved " + text(l.reserved()) + " and staged " + text(staged));
  if (!no_more(plus(l.posted_total(), l.reserved()), l.granted()))
    world_.fail("law 1: P + R <= g: P " + text(l.posted_total()) + " R " + text(l.reserved()) + " g " +
                text(l.granted()));
  Seen& seen = seen_[{node.index(), raw(lane.params.session)}];
  if (seen.ledger_epoch == l.epoch()) {
    monotone(seen.granted, l.granted(), "g");
    monotone(seen.posted, l.posted_total(), "P");
  }
  seen.ledger_epoch = l.epoch();
  seen.granted = l.granted();
  seen.posted = l.posted_total();
  const Session* s = other_end(node, lane.params.session);
  if (s == nullptr || s->closed || s->granter.epoch() != l.epoch()) return;
  if (!no_more(l.granted(), s->granter.granted()))
    world_.fail("law 1: g <= G: g " + text(l.granted()) + " G " + text(s->granter.granted()));
  if (!no_more(s->granter.accepted(), l.posted_total()))
    world_.fail("law 1: X <= P: X " + text(s->granter.accepted()) + " P " + text(l.posted_total()));
}

void Laws::monotone(const Charge& before, const Charge& now, const char* what) {
  if (no_more(before, now)) return;
  world_.fail(std::string("law 2: ") + what + " falls from " + text(before) + " to " + text(now));
}

// Laws 1, 2 and 6 of a receiver.
void Laws::check_session(SimNode& node, const Session& s) {
  const CreditGranter& g = s.granter;
  Seen& seen = seen_[{node.index(), raw(s.params.id)}];
  moved(seen, s);
  if (s.closed) return;
  if (!no_more(g.released(), g.accepted())) world_.fail("law 1: F <= X");
  if (!no_more(g.accepted(), g.granted())) world_.fail("law 1: X <= G");
  if (!no_more(g.granted(), plus(g.released(), g.committed()))) world_.fail("law 1: G <= F + C");
  if (seen.granter_epoch == g.epoch()) {
    monotone(seen.promised, g.granted(), "G");
    monotone(seen.accepted, g.accepted(), "X");
    monotone(seen.released, g.released(), "F");
  }
  seen.granter_epoch = g.epoch();
  seen.promised = g.granted();
  seen.accepted = g.accepted();
  seen.released = g.released();
  check_channel(s);
}

void Laws::check_channel(const Session& s) {
  std::array<uint32_t, 16> kept{};
  for (const Session::Kept& k : s.kept) ++kept[static_cast<size_t>(k.type)];
  for (const FrameType type : {FrameType::kCreditGrant, FrameType::kCreditRequest, FrameType::kDataAck})
    if (kept[static_cast<size_t>(type)] > 1)
      world_.fail("law 6: two frames of type " + std::string(frame_type_name(type)) + " are outstanding");
  if (s.channel.unacked() > CtrlChannel::kWindow) world_.fail("law 6: the control window is exceeded");
}

// Which transitions of the tables were taken.
void Laws::moved(Seen& seen, const Session& s) {
  if (s.tx.state() != seen.tx)
    world_.count("tx." + std::string(tx_state_name(seen.tx)) + "-" + std::string(tx_state_name(s.tx.state())));
  if (s.rx.state() != seen.rx)
    world_.count("rx." + std::string(rx_state_name(seen.rx)) + "-" + std::string(rx_state_name(s.rx.state())));
  const bool moved_tx = s.tx.state() != seen.tx, moved_rx = s.rx.state() != seen.rx;
  world_.rare = world_.rare || (moved_tx && s.tx.state() == TxState::kDraining) ||
                (moved_rx && (s.rx.state() == RxState::kEmptying || s.rx.state() == RxState::kFencing));
  seen.tx = s.tx.state();
  seen.rx = s.rx.state();
}

std::string Laws::at_rest(SimNode& node) {
  if (!node.up()) return "";
  Life& l = node.life();
  const auto number = [](uint64_t n, const char* what) { return n == 0 ? "" : std::to_string(n) + what; };
  std::string out;
  for (uint32_t i = 0; i < node.settings().workers; ++i) {
    const auto& w = static_cast<const Worker&>(l.plane->worker(i));
    const WorkerParams& p = SimPeek::params(w);
    out += number(SimPeek::tx_out(w), " send slots out, ") + number(SimPeek::refills(w), " receives not posted, ");
    out += number(SimPeek::open_tasks(w), " tasks in the worker, ") + number(l.queues[i]->ops_out(), " ops out, ");
    const uint64_t receives = std::min(SimPeek::rx_limit(w), p.rx_pool->live_slots());
    if (SimPeek::rx_posted(w) < receives) out += "receives are missing, ";
    for (const Lane* lane : SimPeek::lanes(w)) {
      if (lane == nullptr) continue;
      if (lane->state == Lane::State::kFailed) out += "a failed lane, ";
      if (lane->state != Lane::State::kOpen || !lane->tx_open) continue;
      out += number(lane->staged_count, " staged, ") + number(lane->inflight, " in flight, ");
      if (lane->waiting) out += "a lane waits, ";
      out += number(lane->partial.open_tasks(), " tasks partly received, ") + number(lane->job_count, " reads, ");
      const Session* s = other_end(node, lane->params.session);
      if (s == nullptr) {
        out += "a session has one end, ";
      } else if (s->granter.epoch() == lane->ledger.epoch() && s->granter.released() != lane->ledger.posted_total()) {
        out += "F " + text(s->granter.released()) + " P " + text(lane->ledger.posted_total()) + ", ";
      }
    }
  }
  const Control& c = l.plane->control();
  out += number(SimPeek::tx_out(c), " frames out, ") + number(SimPeek::unsent(c), " frames unsent, ");
  for (const Peer* peer : SimPeek::peers(c))
    for (size_t i = 0; peer != nullptr && i < peer->sessions.size(); ++i) {
      const Session& s = *peer->sessions[i];
      out += number(s.channel.unacked(), " frames unacknowledged, ") + number(s.acks.count, " acks unsent, ");
      out += number(s.naks.count, " naks unsent, ") + number(s.notifies.count, " notifies unsent, ");
    }
  if (l.port != nullptr) out += number(l.port->open_tasks(), " tasks at the port, ");
  return out;
}

void Laws::dump(SimNode& node) {
  if (!node.up() || !world_.tracing()) return;
  const std::string who = "node " + std::to_string(node.index());
  for (uint32_t i = 0; i < node.settings().workers; ++i) {
    const auto& w = static_cast<const Worker&>(node.life().plane->worker(i));
    world_.trace(who + " worker " + std::to_string(i) + ": tx_out " + std::to_string(SimPeek::tx_out(w)) + " tasks " +
                 std::to_string(SimPeek::open_tasks(w)) + " refills " + std::to_string(SimPeek::refills(w)) +
                 " rx_posted " + std::to_string(SimPeek::rx_posted(w)));
    for (const Lane* l : SimPeek::lanes(w)) {
      if (l == nullptr) continue;
      world_.trace(who + " lane of " + std::to_string(raw(l->params.session) % 10000) + ": state " +
                   std::to_string(static_cast<int>(l->state)) + " tx_open " + std::to_string(l->tx_open) +
                   " draining " + std::to_string(l->draining) + " waiting " + std::to_string(l->waiting) + " listed " +
                   std::to_string(l->listed) + " staged " + std::to_string(l->staged_count) + " inflight " +
                   std::to_string(l->inflight) + " jobs " + std::to_string(l->job_count) + " queued " +
                   std::to_string(l->queued.count) + " active " + std::to_string(l->active.count) + " aborts " +
                   std::to_string(l->aborts.count) + " tasks " + std::to_string(l->tasks) + " epoch " +
                   std::to_string(raw(l->ledger.epoch())) + " rx_epoch " + std::to_string(raw(l->rx_epoch)) + " g " +
                   text(l->ledger.granted()) + " P " + text(l->ledger.posted_total()) + " R " +
                   text(l->ledger.reserved()));
    }
  }
  const NodeSettings& set = node.settings();
  world_.trace(who + " pools " + SimPeek::pools(node.life().plane->control()) + " floor " +
               std::to_string(set.session_floor) + " extent " + std::to_string(set.extent_slots) + " min " +
               std::to_string(set.rx_slots_min) + " max " + std::to_string(set.rx_slots_max));
  for (const Peer* peer : SimPeek::peers(node.life().plane->control()))
    for (size_t i = 0; peer != nullptr && i < peer->sessions.size(); ++i) {
      const Session& s = *peer->sessions[i];
      world_.trace(who + " session " + std::to_string(raw(s.params.id) % 10000) + ": tx " +
                   std::string(tx_state_name(s.tx.state())) + " rx " + std::string(rx_state_name(s.rx.state())) +
                   " closed " + std::to_string(s.closed) + " shared " + std::to_string(s.shared) + " due " +
                   std::to_string(s.share_due) + " want " + std::to_string(s.want_credit) + " window " +
                   std::to_string(s.window_slots) + " requests " + std::to_string(s.params.requests) + " unacked " +
                   std::to_string(s.channel.unacked()) + " acks " + std::to_string(s.acks.count) + " G " +
                   text(s.granter.granted()) + " X " + text(s.granter.accepted()) + " F " + text(s.granter.released()));
    }
}

std::vector<std::string> wanted_coverage(uint64_t seeds) {
  constexpr uint64_t kMany = 20'000;
  std::vector<std::string> out = {
      "tx.idle-opening",     "tx.opening-open",  "tx.open-draining",  "tx.draining-drained", "tx.drained-open",
      "tx.opening-closed",   "tx.open-closed",   "rx.idle-opening",   "rx.opening-open",     "rx.open-fencing",
      "rx.fencing-emptying", "rx.emptying-open", "rx.opening-closed", "rx.open-closed",      "rx.fencing-closed"};
  if (seeds >= kMany)
    for (const char* rare : {"tx.draining-closed", "tx.drained-closed", "rx.emptying-closed"}) out.push_back(rare);
  for (const char* type : {"CREDIT_GRANT", "CREDIT_REQUEST", "DATA_ACK", "SESSION_OPEN", "SESSION_CLOSE", "FENCE",
                           "DRAIN_ACK", "CTRL_ACK", "NOTIFY_COMPAT", "DATA_NAK"})
    out.push_back(std::string("frame.") + type);
  for (const char* type : {"WRITE", "READ_REQ", "READ_RESP", "ABORT", "PACK"})
    out.push_back(std::string("message.") + type);
  for (const char* end : {"end.write.done", "end.write.cancelled", "end.read.done", "end.read.cancelled",
                          "notify.delivered", "notify.failed", "task.waiting", "stop.drained", "stop.closed"})
    out.push_back(end);
  return out;
}

}  // namespace sluice::sim
