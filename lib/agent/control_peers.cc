// hot: peers and their sessions come and go
#include <algorithm>

#include "agent/control.h"

namespace sluice {

void Control::on_peer_up(Peer* peer) noexcept {
  peers_[raw(peer->id)] = peer;
  ControlStats::add(stats_.peers, 1);
  const bool connected = p_.queue->connect(peer->path, peer->ctrl_address).ok();
  peer->lanes_open = static_cast<uint32_t>(peer->lanes.size());
  for (size_t i = 0; i < peer->sessions.size(); ++i) {
    Session& s = *peer->sessions[i];
    s.path = peer->path;
    s.lane = peer->lanes[i].release();
    s.channel.open(p_.retry, p_.retry_max);
    s.last_message = s.progress_at = now_;
    ToWorker open{};
    open.kind = ToWorker::Kind::kOpenLane;
    open.lane = s.params.lane;
    open.generation = peer->generation;
    open.opened = s.lane;
    (void)p_.to_worker[raw(s.params.worker)]->put(open);
    (void)s.tx.apply(TxEvent::kStart);
    if (!connected || !map_insert(&s)) {
      fault(s, Code::kBadArgument);
      continue;
    }
    if (s.rx.apply(RxEvent::kStart) == RxAction::kSendOpen) s.open_due = true;
    list(s);
  }
}

void Control::on_peer_lost(PeerId id, Code code, uint64_t give_up_at) noexcept {
  Peer* peer = peers_[raw(id)];
  if (peer == nullptr) return;
  const bool first = !peer->failed;
  peer->failed = true;
  for (const auto& s : peer->sessions) {
    if (first) end_session(*s, code);
    ToWorker fail{};
    fail.kind = ToWorker::Kind::kFailLane;
    fail.code = code;
    fail.values.a = give_up_at;
    tell_worker(*s, fail);
  }
  if (first) (void)p_.queue->close(peer->path);
  if (code == Code::kPeerDead) p_.queue->peer_gone(peer->path);
}

void Control::end_session(Session& s, Code code) noexcept {
  (void)s.tx.apply(TxEvent::kStop);
  (void)s.rx.apply(RxEvent::kStop);
  s.closed = true;
  s.acks.count = s.naks.count = 0;
  if (find(s.params.id) == &s) map_erase(s.params.id);  // a peer may have chosen the number of another's session
  Pool& pool = *pools_[raw(s.params.worker)];
  if (s.shared) (void)pool.share.remove(raw(s.params.peer));
  s.shared = false;
  pool.dirty = true;
  for (Session::Kept& kept : s.kept) {
    if (kept.type == FrameType::kNotify) notify_done(kept.notify, TaskEnd::kFailed, code);
    kept = {};
  }
  while (s.notifies.count != 0) notify_done(pending_.pop(s.notifies), TaskEnd::kFailed, code);
}

void Control::on_lane_fenced(const ToControl& m) noexcept {
  const Session* s = session_of(m.worker, m.lane, m.generation);
  if (s == nullptr) return;
  Peer* peer = peers_[raw(s->params.peer)];
  if (++peer->lanes_fenced != peer->sessions.size()) return;
  ToService out{};
  out.kind = ToService::Kind::kPeerFenced;
  out.peer = peer->id;
  out.a = peer->generation;
  tell_service(out);
}

void Control::on_lane_closed(const ToControl& m) noexcept {
  Session* s = session_of(m.worker, m.lane, m.generation);
  delete m.closed;  // a lane's end is not a hot path
  if (s == nullptr) return;
  s->lane = nullptr;
  const auto id = raw(s->params.peer);
  if (--peers_[id]->lanes_open != 0) return;
  ToService out{};
  out.kind = ToService::Kind::kPeerGone;
  out.peer = s->params.peer;
  out.peer_object = peers_[id];
  for (const auto& session : peers_[id]->sessions) {
    std::erase(work_, session.get());
    std::erase(next_work_, session.get());
  }
  peers_[id] = nullptr;
  ControlStats::add(stats_.peers, ~0ull);
  tell_service(out);
}

// The peer broke a law, or cannot be brought to an end: its connection is closed by the service thread, which then
// tells when it is lost. Other peers notice nothing.
void Control::fault(Session& s, Code code) noexcept {
  Peer* peer = peers_[raw(s.params.peer)];
  ControlStats::add(stats_.violations, 1);
  if (peer == nullptr || peer->fault_told) return;
  peer->fault_told = true;
  ToService out{};
  out.kind = ToService::Kind::kPeerFault;
  out.peer = s.params.peer;
  out.code = code;
  out.a = peer->generation;
  tell_service(out);
}

}  // namespace sluice
