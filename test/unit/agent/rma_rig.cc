#include "rma_rig.h"

#include <numeric>

namespace sluice::test {

void RmaRig::chunks(Region& region, uint64_t chunk, uint16_t rail, uint64_t key) {
  if (chunk == 0) chunk = region.bytes();
  for (uint64_t at = 0; at < region.bytes(); at += chunk, ++key) {
    const uint64_t bytes = std::min(chunk, region.bytes() - at);
    std::byte* base = region.base() + at;
    region.keys(rail).push_back({at, bytes, key, key, reinterpret_cast<uint64_t>(base), nullptr});
    queues[rail]->chunk(base, bytes, key, key);
  }
}

RmaRig::RmaRig(const RmaRigParams& params) : p(params) {
  EXPECT_TRUE(Region::create(RegionKind::kPlain, kMemory, &local).ok());
  EXPECT_TRUE(Region::create(RegionKind::kPlain, kMemory, &remote).ok());
  EXPECT_TRUE(inbox.open(256).ok() && control.open(4096).ok() && port.open(1, 512, 64).ok());
  RmaWorkerParams w;
  for (uint16_t r = 0; r < p.rails; ++r) {
    queues.push_back(std::make_unique<FakeRma>(p.depth));
    chunks(*local, p.local_chunk, r, 1000 * (r + 1u));
    chunks(*remote, p.remote_chunk, r, (uint64_t{1} << 60) + 1000 * (r + 1u));  // keys that no double holds
    RmaRail rail;
    rail.queue = queues[r].get();
    rail.max_op_bytes = p.max_op_bytes;
    rail.placed = p.placed;
    rail.grace = kGrace;
    rail.scratch = local->base();
    rail.scratch_desc = local->keys(r)[0].local_desc;
    if (r < p.penalty.size()) rail.penalty = p.penalty[r];
    w.rails.push_back(rail);
  }
  buffer.rails = p.rails;
  for (size_t i = 0; i < remote->keys(0).size(); ++i) {
    buffer.chunks.push_back({remote->keys(0)[i].offset, remote->keys(0)[i].length});
    for (uint16_t r = 0; r < p.rails; ++r)
      buffer.keys.push_back({remote->keys(r)[i].remote_addr, remote->keys(r)[i].remote_key});
  }
  w.inbox = &inbox;
  w.control = &control;
  w.max_lanes = 4;
  w.max_tasks = p.tasks;
  w.op_bytes = p.op_bytes;
  w.ticks_per_us = kUs;
  w.task_timeout = kTimeout;
  w.lease = kLease;
  w.stall = kStall;
  w.scan_every = 100;
  worker = std::make_unique<RmaWorker>(w);
  ToWorker m{};
  m.kind = ToWorker::Kind::kAddPort;
  m.port = &port;
  EXPECT_TRUE(inbox.put(m));
  for (uint64_t i = 0; i < kMemory; ++i) local->base()[i] = static_cast<std::byte>(i * 7 + i / 251);
}

RmaRig::~RmaRig() = default;

void RmaRig::open_lane(uint16_t lane, uint16_t generation) {
  std::vector<RmaLane::Path> ways(p.rails);
  for (uint16_t r = 0; r < p.rails; ++r) ways[r].peer_rail = r;
  ToWorker m{};
  m.kind = ToWorker::Kind::kOpenLane;
  m.lane = LaneId{lane};
  m.generation = generation;
  m.opened =
      new RmaLane(LaneParams{LaneId{lane}, generation, PathId{lane}, SessionId{7}, 0, 0, 0, {}}, std::move(ways));
  put(m);
}

void RmaRig::fail_lane(Code code, uint64_t give_up_at, uint16_t lane) {
  ToWorker m{};
  m.kind = ToWorker::Kind::kFailLane;
  m.lane = LaneId{lane};
  m.generation = 1;
  m.code = code;
  m.values.a = give_up_at;
  put(m);
}

bool RmaRig::submit(SubmitOp op, uint64_t ref, uint64_t from, uint64_t offset, uint64_t length, uint16_t lane) {
  Submission s{};
  s.ref = ref;
  s.local = local->base() + from;
  s.offset = offset;
  s.length = length;
  s.region = local.get();
  s.remote = &buffer;
  s.lane = LaneId{lane};
  s.lane_generation = 1;
  s.phase = static_cast<uint16_t>(ref % port.max_open());
  s.op = op;
  submitted += port.submissions(WorkerId{0}).put(s) ? 1 : 0;
  return true;
}

void RmaRig::cancel(uint64_t ref, uint64_t mask) {
  Cancel c{};
  c.ref = ref;
  c.ref_mask = mask;
  c.lane_generation = 1;
  ASSERT_TRUE(port.cancels(WorkerId{0}).put(c));
}

void RmaRig::turn(uint64_t ticks) {
  now += ticks;
  (void)worker->turn(now);
  TaskDone done{};
  while (port.completions(WorkerId{0}).take({&done, 1}) == 1)
    if (!ends.emplace(done.ref, done).second) ++doubles;
  ToControl m{};
  while (control.take({&m, 1}) == 1) {
    ++messages[m.kind];
    if (m.kind == ToControl::Kind::kLaneClosed) delete m.closed;
  }
}

bool RmaRig::settle(int turns) {
  for (int i = 0; i < turns && ends.size() != submitted; ++i) turn(50);
  return ends.size() == submitted;
}

uint64_t RmaRig::ops() const {
  return std::accumulate(queues.begin(), queues.end(), uint64_t{0},
                         [](uint64_t n, const auto& q) { return n + q->ops.size(); });
}

uint64_t RmaRig::torn() const {
  return std::accumulate(queues.begin(), queues.end(), uint64_t{0},
                         [](uint64_t n, const auto& q) { return n + q->torn; });
}

}  // namespace sluice::test
