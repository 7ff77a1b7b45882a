// hot: how the control core finds sessions, and tells its neighbours
#include "agent/control.h"

namespace sluice {
namespace {
uint64_t mix(SessionId id) noexcept { return raw(id) * 0x9E3779B97F4A7C15ull >> 20; }
}  // namespace

// Open addressing with linear probing; at most half full. Session ids are random, but a peer may choose some of them.
Session* Control::find(SessionId id) noexcept {
  const size_t mask = map_.size() - 1;
  for (size_t i = mix(id) & mask; map_[i].session != nullptr; i = (i + 1) & mask)
    if (map_[i].id == id) return map_[i].session;
  return nullptr;
}

bool Control::map_insert(Session* session) noexcept {
  if (find(session->params.id) != nullptr) return false;
  const size_t mask = map_.size() - 1;
  size_t i = mix(session->params.id) & mask;
  while (map_[i].session != nullptr) i = (i + 1) & mask;
  map_[i] = {session->params.id, session};
  return true;
}

void Control::map_erase(SessionId id) noexcept {
  const size_t mask = map_.size() - 1;
  size_t hole = mix(id) & mask;
  while (map_[hole].session != nullptr && map_[hole].id != id) hole = (hole + 1) & mask;
  if (map_[hole].session == nullptr) return;
  for (size_t i = (hole + 1) & mask; map_[i].session != nullptr; i = (i + 1) & mask) {  // close the gap
    const size_t home = mix(map_[i].id) & mask;
    if (((i - home) & mask) < ((i - hole) & mask)) continue;
    map_[hole] = map_[i];
    hole = i;
  }
  map_[hole] = MapEntry{SessionId{}, nullptr};
}

Session* Control::session_of(WorkerId worker, LaneId lane, uint16_t generation) noexcept {
  Peer* peer = raw(lane) < peers_.size() ? peers_[raw(lane)] : nullptr;  // a lane has its peer's number
  if (peer == nullptr || peer->generation != generation || raw(worker) >= peer->sessions.size()) return nullptr;
  return peer->sessions[raw(worker)].get();
}

void Control::list(Session& s) noexcept {
  if (s.listed) return;
  s.listed = true;
  work_.push_back(&s);
}

void Control::tell_worker(const Session& s, ToWorker m) noexcept {
  m.lane = s.params.lane;
  m.generation = s.params.generation;
  m.ctrl_ack = static_cast<uint16_t>(s.channel.received_in_order());
  if (!p_.to_worker[raw(s.params.worker)]->put(m)) ControlStats::add(stats_.lost_messages, 1);  // turn() keeps the room
}

void Control::to_all_workers(const ToWorker& m) noexcept {
  for (Mailbox<ToWorker>* box : p_.to_worker)
    if (!box->put(m)) ControlStats::add(stats_.lost_messages, 1);
}

void Control::tell_service(const ToService& m) noexcept {
  if (!p_.to_service->put(m)) ControlStats::add(stats_.lost_messages, 1);
}

}  // namespace sluice
