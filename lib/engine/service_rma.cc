// What only one-sided nodes say to one another: keys of exported memory, the end of buffers, queues opened anew.
#include <algorithm>
#include <set>
#include <utility>

#include "agent/rma_lane.h"
#include "base/log.h"
#include "engine/service.h"

namespace sluice {
namespace {
constexpr ptrdiff_t kMaxEnds = 64;  // that a peer may ask for before the first is answered

// The parts of a region in which every rail has one key: the seams of all of them.
std::vector<BufferChunk> chunks_of(const Region& region, uint16_t rails) {
  std::set<uint64_t> seams;
  for (uint16_t r = 0; r < rails; ++r)
    for (const ChunkKey& key : region.keys(r)) seams.insert(key.offset);
  std::vector<BufferChunk> chunks;
  for (const uint64_t seam : seams) {
    if (!chunks.empty()) chunks.back().length = seam - chunks.back().offset;
    BufferChunk& chunk = chunks.emplace_back();
    chunk.offset = seam;
    chunk.length = region.bytes() - seam;
    for (uint16_t r = 0; r < rails; ++r) {
      const std::vector<ChunkKey>& keys = region.keys(r);
      const auto behind = std::upper_bound(keys.begin(), keys.end(), seam,
                                           [](uint64_t at, const ChunkKey& key) { return at < key.offset; });
      const ChunkKey& key = *(behind - 1);
      chunk.addrs.push_back(key.remote_addr + (seam - key.offset));
      chunk.keys.push_back(key.remote_key);
    }
  }
  return chunks;
}
}  // namespace

SegmentBuffer Service::describe(const MemoryTable::Exported& buffer) const {
  SegmentBuffer out{BufferId{buffer.id}, buffer.bytes};
  if (plane_->one_sided()) out.chunks = chunks_of(*buffer.region, plane_->rails().count());
  return out;
}

// @return kBadFrame: it says more or fewer keys than the peer has rails, or none.
Status Service::remote_of(const PeerEntry& entry, const SegmentBuffer& buffer, RemoteBuffer* out) const {
  if (!plane_->one_sided() || buffer.length == 0) return Code::kOk;
  if (buffer.chunks.empty() || buffer.chunks[0].keys.size() != entry.rails)
    return {Code::kBadFrame, "'" + entry.name + "' offered " + std::to_string(entry.rails) + " rails, and " +
                                 (buffer.chunks.empty() ? "no" : std::to_string(buffer.chunks[0].keys.size())) +
                                 " keys for buffer " + std::to_string(raw(buffer.id))};
  out->rails = entry.rails;
  for (const BufferChunk& chunk : buffer.chunks) {
    out->chunks.push_back({chunk.offset, chunk.length});
    for (size_t r = 0; r < chunk.keys.size(); ++r) out->keys.push_back({chunk.addrs[r], chunk.keys[r]});
  }
  return Code::kOk;
}

// Our rail r leads to theirs of the same place, or goes round when they have fewer. Paired ends cannot go round.
std::vector<RmaLane::Path> Service::ways_to(const std::vector<const LaneOffer*>& theirs) const {
  const uint16_t rails = plane_->rails().count();
  std::vector<RmaLane::Path> ways(rails);
  for (uint16_t r = 0; r < rails; ++r) {
    ways[r].peer_rail = static_cast<uint16_t>(r % theirs.size());
    ways[r].broken = r >= theirs.size() && plane_->rails().device(r).caps().paired;
    ways[r].address = theirs[ways[r].peer_rail]->address;
  }
  return ways;
}

// Peers place into exported memory by themselves: each is asked to let go of it, and a peer that is gone has. The
// service thread asks, in its next turn, since it alone speaks to them.
uint64_t Service::begin_end_buffers(const std::vector<uint32_t>& ids) {
  const uint64_t request = next_id_++;
  leaving_[request].end = {request, {ids.begin(), ids.end()}};
  oob_->wake();
  return request;
}

void Service::ask_to_leave() {
  for (auto& [request, leaving] : leaving_) {
    if (std::exchange(leaving.asked, true)) continue;
    for (const PeerEntry& entry : peers_) {
      if (entry.state != PeerState::kUp && entry.state != PeerState::kReady) continue;
      if (oob_->send(entry.oob, leaving.end).ok()) leaving.waits.insert(entry.oob);
    }
    changed_.notify_all();
  }
}

void Service::forget_buffers(uint64_t request) { leaving_.erase(request); }

bool Service::buffers_ended(uint64_t request) {
  const auto it = leaving_.find(request);
  if (it == leaving_.end()) return true;
  std::erase_if(it->second.waits, [this](OobPeer peer) { return entry_of(peer) == nullptr; });
  if (!it->second.asked || !it->second.waits.empty()) return false;
  leaving_.erase(it);
  return true;
}

void Service::on_buffers_left(OobPeer peer, const BuffersLeft& left) {
  const std::lock_guard lock(*lock_);
  if (const auto it = leaving_.find(left.request); it != leaving_.end()) it->second.waits.erase(peer);
  changed_.notify_all();
}

void Service::on_buffers_end(OobPeer peer, const BuffersEnd& end) {
  const std::lock_guard lock(*lock_);
  PeerEntry* entry = entry_of(peer);
  if (entry == nullptr) return;
  const auto theirs = std::ranges::count(ends_, peer, &Ending::oob);
  if (theirs >= kMaxEnds) return fault(*entry, Code::kBadFrame);
  ends_.push_back({peer, PeerId{number_of(*entry)}, entry->generation, end});
  std::ranges::sort(ends_.back().end.ids);
  answer_ends();
}

// Tasks that are under way to a buffer that ends come to their end first.
void Service::answer_ends() {
  std::erase_if(ends_, [this](const Ending& e) {
    if (entry_of(e.oob) == nullptr) return true;
    const bool unused = segments_->buffers_ended(e.peer, e.generation, e.end.ids);
    if (unused) (void)oob_->send(e.oob, BuffersLeft{e.end.request}).ok();
    return unused;
  });
}

// A worker shut a queue down and has everything of it: another takes its place, and peers learn where it is.
void Service::reopen(WorkerId worker, uint16_t rail) {
  const std::string which = plane_->rails().device(rail).info().name;
  if (Status s = plane_->reopen_queue(settings_, raw(worker), rail); !s.ok()) {
    log_error("rail", which + " of worker " + std::to_string(raw(worker)) + " stays down: " + s.describe());
    return;
  }
  log_warn("rail", which + " of worker " + std::to_string(raw(worker)) +
                       " was opened anew, since a silent peer held operations on it");
  FromService up{};
  up.kind = FromService::Kind::kRailUp;
  up.worker = worker;
  up.a = rail;
  up.queue = &plane_->worker_queue(raw(worker), rail);
  to_control(up);
  if (plane_->rails().device(rail).caps().paired) return;  // no other end can be moved to this one
  for (const PeerEntry& entry : peers_) {
    if (entry.state != PeerState::kUp && entry.state != PeerState::kReady) continue;
    PathMove move{rail, raw(worker), {}};
    if (!up.queue->address(PathId{number_of(entry)}, &move.address).ok()) continue;
    const bool all = plane_->rails().device(rail).caps().one_target;  // every worker is reached through the first
    if (all && raw(worker) != 0) continue;
    const auto workers = static_cast<uint16_t>(all ? plane_->workers() : 1);
    for (uint16_t w = 0; w < workers; ++w) {
      move.worker = all ? w : raw(worker);
      (void)oob_->send(entry.oob, move).ok();
    }
  }
}

void Service::on_path_move(OobPeer peer, const PathMove& move) {
  const std::lock_guard lock(*lock_);
  const PeerEntry* entry = entry_of(peer);
  if (entry == nullptr || !plane_->one_sided() || move.rail >= entry->rails || move.worker >= entry->lanes) return;
  for (uint16_t r = 0; r < plane_->rails().count(); ++r) {
    if (r % entry->rails != move.rail) continue;
    FromService m{};
    m.kind = FromService::Kind::kPath;
    m.worker = WorkerId{move.worker};
    m.peer = PeerId{number_of(*entry)};
    m.a = r;
    m.b = entry->generation;
    m.address = new std::vector<std::byte>(move.address);
    to_control(m);
  }
}

}  // namespace sluice
