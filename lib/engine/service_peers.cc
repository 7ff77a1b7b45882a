// The service thread's side of other nodes: out-of-band events, path offers, segments, and the end of peers.
#include <algorithm>

#include "base/log.h"
#include "engine/service.h"

namespace sluice {
// A stop of this process between the two clock readings makes a lease shorter, and a final time later: never unsafe.
uint64_t Service::lease_tick(uint64_t until_ns) const {
  const uint64_t tick = outside_.ticks();
  const uint64_t now = outside_.now_ns();
  return until_ns <= now ? 0 : tick + (until_ns - now) / 1000 * plane_->ticks_per_us();
}

uint64_t Service::final_tick(uint64_t at_ns) const {
  const uint64_t now = outside_.now_ns();
  const uint64_t tick = outside_.ticks();
  return at_ns <= now ? 0 : tick + (at_ns - now) / 1000 * plane_->ticks_per_us();
}

Service::PeerEntry* Service::entry_of(OobPeer peer) {
  const auto it = by_oob_.find(peer);
  return it == by_oob_.end() ? nullptr : &peers_[it->second];
}

uint16_t Service::number_of(const PeerEntry& entry) const { return static_cast<uint16_t>(&entry - peers_.data()); }

// Whoever waits for a peer that is gone is told why.
void Service::fail_requests(OobPeer peer, const Status& why) {
  for (const auto& request : requests_) {
    if (request->done || request->dialing || request->oob != peer) continue;
    finish(*request, {why.code(), "open segment '" + request->name + "' of " + request->shown + ": " + why.describe()});
  }
}

void Service::refuse(OobPeer peer, const std::string& reason) {
  refusals_.warn(outside_.now_ns(), "peer", reason);
  by_oob_.erase(peer);
  refused_ = peer;
  refusal_ = reason;
  (void)oob_->close_peer(peer, reason);
}

void Service::on_up(OobPeer peer, const Hello& hello, uint64_t lease_until_ns) {
  const std::lock_guard lock(*lock_);
  const std::string& provider = plane_->device().info().provider;
  if (hello.transport != settings_.transport || hello.provider != provider)
    return refuse(peer, "node '" + hello.name + "' uses " + hello.transport + "/" + hello.provider + ", node '" +
                            settings_.name + "' uses " + settings_.transport + "/" + provider +
                            ": start both with the same --transport and --provider");
  const auto free =
      std::find_if(peers_.begin(), peers_.end(), [](const PeerEntry& e) { return e.state == PeerState::kFree; });
  if (free == peers_.end())
    return refuse(peer, "node '" + settings_.name + "' has " + std::to_string(peers_.size()) +
                            " peers, which is the most: raise max-peers");
  PeerEntry& entry = *free;
  entry.state = PeerState::kOffering;
  entry.oob = peer;
  entry.incarnation = hello.incarnation;
  entry.name = hello.name;
  entry.lease_until_ns = lease_until_ns;
  entry.naks = hello.has_feature("data_nak");
  entry.lost = false;
  by_oob_[peer] = number_of(entry);
  if (raw(incarnation_) < raw(hello.incarnation)) return;  // the other one offers
  PathOffer offer;
  offer.attempt = entry.attempt = outside_.random();
  if (Status s = make_offer(entry, &offer); !s.ok()) {
    free_entry(entry);
    return refuse(peer, "path offer: " + s.describe());
  }
  for (LaneOffer& lane : offer.lanes) {
    if (lane.rail == 0) entry.sessions.push_back(SessionId{outside_.random()});
    lane.session = entry.sessions.back();
  }
  (void)oob_->send(peer, offer).ok();
}

Status Service::make_offer(const PeerEntry& entry, PathOffer* offer) const {
  if (Status s = plane_->control_queue().address(PathId{number_of(entry)}, &offer->ctrl_address); !s.ok()) return s;
  offer->slot_bytes = plane_->slot_bytes();
  offer->slots = plane_->max_window();
  const auto workers = static_cast<uint16_t>(plane_->workers());
  for (uint16_t w = 0; w < workers; ++w)
    for (uint16_t r = 0; r < plane_->rails().count(); ++r) {
      LaneOffer lane;
      lane.rail = r;
      lane.worker = w;
      lane.lane = number_of(entry);
      const uint16_t target = plane_->rails().device(r).caps().one_target ? 0 : w;
      if (Status s = plane_->worker_queue(target, r).address(PathId{number_of(entry)}, &lane.address); !s.ok())
        return s;
      offer->lanes.push_back(std::move(lane));
    }
  return Code::kOk;
}

void Service::on_offer(OobPeer peer, const PathOffer& offer) {
  const std::lock_guard lock(*lock_);
  PeerEntry* entry = entry_of(peer);
  if (entry == nullptr || entry->state != PeerState::kOffering || entry->attempt != 0) return;
  entry->attempt = offer.attempt;
  PathAnswer answer;
  answer.attempt = offer.attempt;
  for (const LaneOffer& lane : offer.lanes)
    if (lane.rail == 0) entry->sessions.push_back(lane.session);
  Status status = make_offer(*entry, &answer);
  for (LaneOffer& lane : answer.lanes)
    lane.session = lane.worker < entry->sessions.size() ? entry->sessions[lane.worker] : SessionId{outside_.random()};
  if (status.ok()) status = connect_paths(*entry, offer);
  if (!status.ok()) answer.refusal = status.describe();
  (void)oob_->send(peer, answer).ok();
  if (!status.ok()) fault(*entry, status.code());
}

void Service::on_answer(OobPeer peer, const PathAnswer& answer) {
  const std::lock_guard lock(*lock_);
  PeerEntry* entry = entry_of(peer);
  if (entry == nullptr || entry->state != PeerState::kOffering || entry->attempt != answer.attempt) return;
  Status status = answer.refusal.empty()
                      ? connect_paths(*entry, answer)
                      : Status{Code::kPeerRefused, "'" + entry->name + "' refused: " + answer.refusal};
  if (status.ok()) return;
  log_warn("peer", "paths to '" + entry->name + "': " + status.describe());
  fault(*entry, status.code());
}

namespace {
std::unique_ptr<Lane> make_lane(LaneParams params, uint64_t lease_until) {
  auto lane = std::make_unique<Lane>(std::move(params));
  lane->lease_until = lease_until;
  return lane;
}

std::unique_ptr<RmaLane> make_rma_lane(LaneParams params, std::vector<RmaLane::Path> ways, uint64_t lease_until) {
  auto lane = std::make_unique<RmaLane>(std::move(params), std::move(ways));
  lane->lease_until = lease_until;
  return lane;
}

// The lanes of an offer by worker and rail: each worker's in order, and as many for each.
Status by_worker(const std::string& name, const PathOffer& offer, std::vector<std::vector<const LaneOffer*>>* out) {
  for (const LaneOffer& lane : offer.lanes) {
    if (lane.rail == 0) out->emplace_back();
    if (out->empty() || lane.rail != out->back().size() || lane.rail >= kMaxRails)
      return {Code::kBadFrame, "the offer of '" + name + "' has rail " + std::to_string(lane.rail) + " out of order"};
    out->back().push_back(&lane);
  }
  for (const auto& rails : *out)
    if (rails.size() != out->front().size())
      return {Code::kBadFrame, "the offer of '" + name + "' has not as many rails for each worker"};
  return Code::kOk;
}
}  // namespace

// Build peer, sessions and lanes from both offers, and hand them to the control core.
Status Service::connect_paths(PeerEntry& entry, const PathOffer& theirs) {
  std::vector<std::vector<const LaneOffer*>> offered;  // by worker and rail
  if (Status s = by_worker(entry.name, theirs, &offered); !s.ok()) return s;
  const auto lanes = std::min<size_t>({offered.size(), entry.sessions.size(), plane_->workers()});
  if (lanes == 0) return {Code::kBadFrame, "the offer of '" + entry.name + "' has no lanes"};
  if (theirs.slot_bytes <= kMsgHeaderBytes || theirs.slot_bytes > Extent::kMaxSlotBytes || theirs.slots == 0)
    return {Code::kBadFrame,
            "the offer of '" + entry.name + "' has slots of " + std::to_string(theirs.slot_bytes) + " bytes"};
  auto peer = std::make_unique<Peer>();
  peer->id = PeerId{number_of(entry)};
  peer->generation = entry.generation;
  peer->name = entry.name;
  peer->path = PathId{number_of(entry)};
  peer->ctrl_address = theirs.ctrl_address;
  for (uint16_t i = 0; i < lanes; ++i) {
    const LaneOffer& lane = *offered[i][0];
    if (lane.lane > UINT16_MAX)
      return {Code::kBadFrame, "the offer of '" + entry.name + "' has lane " + std::to_string(lane.lane)};
    SessionParams s;
    s.peer = peer->id;
    s.generation = entry.generation;
    s.worker = WorkerId{i};
    s.lane = LaneId{number_of(entry)};
    s.id = entry.sessions[i];
    s.ceiling_slots = plane_->max_window();
    s.slot_bytes = plane_->slot_bytes();
    s.requests = std::min(settings_.requests, s.ceiling_slots);  // each takes a slot: the peer counts on no more
    s.peer_slot_bytes = theirs.slot_bytes;
    s.frame_bytes = static_cast<uint32_t>(settings_.ctrl_slot_bytes);
    s.naks = entry.naks;
    LaneParams l{s.lane,     entry.generation, peer->path, s.id, static_cast<uint16_t>(lane.lane), theirs.slot_bytes,
                 s.requests, lane.address};
    peer->sessions.push_back(std::make_unique<Session>(s));
    if (plane_->one_sided())
      peer->lanes.push_back(make_rma_lane(std::move(l), ways_to(offered[i]), lease_tick(entry.lease_until_ns)));
    else
      peer->lanes.push_back(make_lane(std::move(l), lease_tick(entry.lease_until_ns)));
  }
  entry.lanes = static_cast<uint16_t>(lanes);
  entry.rails = static_cast<uint16_t>(offered[0].size());
  sessions_ += plane_->workers();
  ensure_ctrl_slots(sessions_);
  entry.state = PeerState::kUp;
  FromService up{};
  up.kind = FromService::Kind::kPeerUp;
  up.peer = peer->id;
  up.peer_object = peer.release();
  to_control(up);
  return Code::kOk;
}

void Service::on_lease(OobPeer peer, uint64_t until_ns) {
  const std::lock_guard lock(*lock_);
  PeerEntry* entry = entry_of(peer);
  if (entry == nullptr) return;
  entry->lease_until_ns = until_ns;
  if (entry->state != PeerState::kUp && entry->state != PeerState::kReady) return;
  FromService m{};
  m.kind = FromService::Kind::kPeerLease;
  m.peer = PeerId{number_of(*entry)};
  m.a = lease_tick(until_ns);
  to_control(m);
}

void Service::on_down(OobPeer peer, const Status& why, uint64_t final_at_ns) {
  const std::lock_guard lock(*lock_);
  PeerEntry* entry = entry_of(peer);
  if (entry == nullptr) return;
  log_info("peer", "'" + entry->name + "' is gone: " + why.describe());
  by_oob_.erase(peer);
  entry->lost = true;
  fail_requests(peer, why);
  lose(*entry, why.code(), final_tick(final_at_ns));
}

// The control core ends everything of the peer, from the tick on at which it can place nothing any more.
void Service::lose(PeerEntry& entry, Code code, uint64_t give_up_tick) {
  if (entry.state == PeerState::kReady) peers_up_.fetch_sub(1, std::memory_order_relaxed);
  segments_->peer_lost(PeerId{number_of(entry)}, entry.generation);
  if (entry.state == PeerState::kOffering || entry.state == PeerState::kFree) return free_entry(entry);
  if (entry.state != PeerState::kFaulting) entry.state = PeerState::kLosing;
  FromService m{};
  m.kind = FromService::Kind::kPeerLost;
  m.code = code == Code::kOk ? Code::kPeerDead : code;
  m.peer = PeerId{number_of(entry)};
  m.a = give_up_tick;
  to_control(m);
  changed_.notify_all();
}

// Ours to end: first the workers stop placing (kPeerFenced answers), then the connection is closed.
void Service::fault(PeerEntry& entry, Code code) {
  fail_requests(entry.oob, {code, "the session with '" + entry.name + "' was ended"});
  if (entry.state == PeerState::kOffering) {
    if (!entry.lost) (void)oob_close(entry, std::string(code_name(code)));
    return free_entry(entry);
  }
  if (entry.state != PeerState::kUp && entry.state != PeerState::kReady) return;
  lose(entry, code, UINT64_MAX);
  entry.state = PeerState::kFaulting;
}

uint64_t Service::oob_close(PeerEntry& entry, std::string_view reason) {
  by_oob_.erase(entry.oob);
  entry.lost = true;
  return oob_->close_peer(entry.oob, reason);
}

void Service::free_entry(PeerEntry& entry) {
  const auto generation = static_cast<uint16_t>(entry.generation + 1);
  entry = PeerEntry{};
  entry.generation = generation == 0 ? 1 : generation;
  changed_.notify_all();
}

void Service::on_dialed(DialId dial, const Status& status, OobPeer peer) {
  const std::lock_guard lock(*lock_);
  for (const auto& request : requests_) {
    if (!request->dialing || request->dial != dial) continue;
    request->dialing = false;
    request->oob = peer;
    if (status.ok()) continue;
    const bool by_us = peer != OobPeer{} && peer == refused_;  // in on_up(), just before
    finish(*request,
           {by_us ? Code::kPeerRefused : status.code(),
            "open segment '" + request->name + "' of " + request->shown + ": " + (by_us ? refusal_ : status.text())});
  }
}

// One step of a request, whenever something may have changed: connected, paths up, asked, answered.
void Service::advance(OpenRequest& request) {
  if (request.dialing || request.asked) return;
  if (request.oob == OobPeer{}) {
    request.dial = oob_->dial(request.address, request.targets);
    request.dialing = true;
    return;
  }
  const PeerEntry* entry = entry_of(request.oob);
  if (entry == nullptr || entry->state == PeerState::kFaulting || entry->state == PeerState::kLosing)
    return finish(request, {Code::kPeerRefused,
                            "open segment '" + request.name + "' of " + request.shown +
                                ": the connection ended before the paths were up; the log of both nodes says why"});
  if (entry->state != PeerState::kReady) return;
  request.asked = true;
  const Status sent = oob_->send(request.oob, SegmentQuery{request.id, request.name});
  if (!sent.ok()) finish(request, sent);
}

void Service::finish(OpenRequest& request, Status status) {
  request.status = std::move(status);
  request.done = true;
  changed_.notify_all();
}

void Service::on_segment_query(OobPeer peer, const SegmentQuery& query) {
  const std::lock_guard lock(*lock_);
  SegmentReply reply;
  reply.request = query.request;
  std::vector<MemoryTable::Exported> buffers;
  if (const Status s = memory_->segment(query.name, &buffers); !s.ok()) reply.refusal = s.text();
  for (const MemoryTable::Exported& buffer : buffers) reply.buffers.push_back(describe(buffer));
  (void)oob_->send(peer, reply).ok();
}

void Service::on_segment_reply(OobPeer peer, const SegmentReply& reply) {
  const std::lock_guard lock(*lock_);
  const PeerEntry* entry = entry_of(peer);
  for (const auto& request : requests_) {
    if (!request->asked || request->done || request->id != reply.request || request->oob != peer || entry == nullptr)
      continue;
    if (!reply.refusal.empty())
      return finish(*request, {Code::kNotFound,
                               "open segment '" + request->name + "' of " + request->shown + ": " + reply.refusal});
    auto segment = std::make_unique<OpenSegment>();
    segment->node = entry->name;
    segment->name = request->name;
    segment->peer = PeerId{number_of(*entry)};
    segment->peer_generation = entry->generation;
    segment->lanes = entry->lanes;
    for (const SegmentBuffer& buffer : reply.buffers) {
      segment->buffers.push_back({raw(buffer.id), buffer.length, {}});
      if (Status s = remote_of(*entry, buffer, &segment->buffers.back().remote); !s.ok())
        return finish(*request, {s.code(), "open segment '" + request->name + "': " + s.text()});
    }
    const Code code = segments_->open(std::move(segment), &request->handle);
    return finish(*request, code == Code::kOk ? Status{}
                                              : Status{code, "open segment: " + std::to_string(SegmentTable::kPlaces) +
                                                                 " segments are open, which is the most"});
  }
}

}  // namespace sluice
