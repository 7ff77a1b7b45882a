// Two nodes without their service threads: a control agent and a worker each, linked by fake queues. The test is both
// service threads, and checks the laws of credit after each turn.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/control.h"
#include "agent/worker.h"
#include "fake_queue.h"
#include "pools.h"

namespace sluice::test {

struct NodeParams {
  uint32_t extent_slots = 16, extents = 1, extents_max = 1, floor = 2, ceiling = 64, requests = 8, inbox = 8;
};

class HalfNode {
 public:
  static constexpr uint32_t kSlot = 256, kFrame = 512, kTx = 64, kPeers = 4, kText = 200;
  static constexpr uint64_t kIdle = 1'000'000;
  static constexpr uint64_t kMemory = 1 << 16;

  explicit HalfNode(const NodeParams& params)
      : params_(params),
        ctrl(32, 128),
        data(kTx, params.extent_slots * params.extents_max),
        ctrl_rx(make_pool(1, 96, kFrame)),
        ctrl_tx(make_pool(1, 32, kFrame)),
        rx(make_pool(params.extents, params.extent_slots, kSlot)),
        tx(make_pool(1, kTx, kSlot)) {
    EXPECT_TRUE(from_service.open(1024).ok() && to_service.open(1024).ok() && to_worker.open(1024).ok());
    EXPECT_TRUE(to_control.open(2048).ok() && notifies.open(params.inbox, kText).ok() && port.open(1, 256, kText).ok());
    WorkerParams w;
    w.queue = &data;
    w.rx_pool = rx.get();
    w.tx_pool = tx.get();
    w.inbox = &to_worker;
    w.control = &to_control;
    w.ticks = fake_ticks;
    w.slot_bytes = kSlot;
    w.max_lanes = kPeers;
    w.max_tasks = 512;
    w.max_buffers = 4;
    w.rx_slots_max = params.extent_slots * params.extents_max;
    w.task_timeout = 1ull << 40;
    w.probe_first = 1000;
    w.probe_max = 100'000;
    w.lease = 1ull << 40;
    worker = std::make_unique<Worker>(w);
    ControlParams c;
    c.queue = &ctrl;
    c.rx_pool = ctrl_rx.get();
    c.tx_pool = ctrl_tx.get();
    c.from_service = &from_service;
    c.to_service = &to_service;
    c.to_worker = {&to_worker};
    c.from_worker = {&to_control};
    c.notifies = &notifies;
    c.max_peers = kPeers;
    c.frame_bytes = kFrame;
    c.session_floor = params.floor;
    c.slot_bytes = kSlot;
    c.extent_slots = params.extent_slots;
    c.rx_slots = params.extent_slots * params.extents;
    c.rx_slots_min = params.extent_slots;
    c.rx_slots_max = params.extent_slots * params.extents_max;
    c.ack_delay = 5;
    c.ctrl_ack_delay = 20;
    c.retry = 500;
    c.retry_max = 5000;
    c.shrink_idle = kIdle;
    c.fence_idle = kIdle / 2;
    control = std::make_unique<Control>(c);
    FromService m = from(FromService::Kind::kAddPort);
    m.port = &port;
    put(m);
    m = from(FromService::Kind::kSetBuffer);
    m.a = 0;
    m.b = kMemory;
    m.base = memory.data();
    put(m);
  }

  static FromService from(FromService::Kind kind) {
    FromService m{};
    m.kind = kind;
    return m;
  }
  void put(const FromService& m) { ASSERT_TRUE(from_service.put(m)); }

  // As the service thread.
  void add_peer(uint16_t number, uint16_t their_lane, SessionId id, uint16_t generation = 1) {
    auto* peer = new Peer;
    peer->id = PeerId{number};
    peer->generation = generation;
    peer->path = PathId{number};
    const SessionParams s{peer->id, generation,       WorkerId{0}, LaneId{number}, id,  params_.ceiling,
                          kSlot,    params_.requests, kSlot,       kFrame,         true};
    peer->sessions.push_back(std::make_unique<Session>(s));
    peer->lanes.push_back(std::make_unique<Lane>(
        LaneParams{s.lane, generation, peer->path, id, their_lane, kSlot, params_.requests, {}}));
    peer->lanes.back()->lease_until = UINT64_MAX;
    lane[number] = peer->lanes.back().get();
    peers[number] = peer;
    FromService m = from(FromService::Kind::kPeerUp);
    m.peer = peer->id;
    m.peer_object = peer;
    put(m);
  }
  void lose_peer(uint16_t number, uint64_t give_up_at) {
    FromService m = from(FromService::Kind::kPeerLost);
    m.code = Code::kPeerDead;
    m.peer = PeerId{number};
    m.a = give_up_at;
    put(m);
  }
  void serve() {
    ToService m;
    while (to_service.take({&m, 1}) == 1) {
      switch (m.kind) {
        case ToService::Kind::kPeerReady: ++ready; break;
        case ToService::Kind::kPeerFault: ++faults; break;
        case ToService::Kind::kPeerClosedBy: ++closed_by; break;
        case ToService::Kind::kPeerFenced: ++fenced; break;
        case ToService::Kind::kDrained: ++drained; break;
        case ToService::Kind::kPeerGone:
          ++gone;
          peers[raw(m.peer)] = nullptr;
          lane[raw(m.peer)] = nullptr;
          delete m.peer_object;
          break;
        case ToService::Kind::kWantExtent: {
          ++wanted;
          FromService reply = from(give_extents ? FromService::Kind::kExtent : FromService::Kind::kNoExtent);
          reply.worker = m.worker;
          if (give_extents) reply.extent = make_extent(params_.extent_slots, kSlot).release();
          put(reply);
          break;
        }
        case ToService::Kind::kFreeExtent:
          ++freed;
          delete m.extent;
          break;
        case ToService::Kind::kBufferCleared: ++cleared; break;
        case ToService::Kind::kPortRemoved: ++removed; break;
      }
    }
  }
  void turn() {
    (void)control->turn(fake_now);
    (void)worker->turn(fake_now);
    serve();
    capacity_law();
  }
  // Law 1: over all peers, G - F never exceeds the receives that are posted, or received and not yet looked at.
  void capacity_law() const {
    uint64_t promised = 0;
    for (const Peer* peer : peers)
      if (peer != nullptr) promised += peer->sessions[0]->granter.outstanding(Resource::kBounceSlots);
    ASSERT_LE(promised, data.posted_receives() + data.received());
    ASSERT_EQ(data.overruns, 0u);
    ASSERT_EQ(ctrl.overruns, 0u);
  }

  // As the application.
  bool submit(SubmitOp op, uint64_t ref, uint64_t offset, uint64_t length, uint16_t peer = 0) {
    Submission s{};
    s.ref = ref;
    s.local = local.data() + offset;
    s.offset = offset;
    s.length = length;
    s.lane = LaneId{peer};
    s.lane_generation = 1;
    s.phase = static_cast<uint16_t>(ref % 128);
    s.op = op;
    return port.submissions(WorkerId{0}).put(s);
  }
  void notify(uint32_t index, std::string_view name, std::string_view message, uint16_t peer = 0) {
    std::memcpy(port.notify_text(index), name.data(), name.size());
    std::memcpy(port.notify_text(index) + name.size(), message.data(), message.size());
    const NotifyOut out{
        index, PeerId{peer}, 1, static_cast<uint16_t>(name.size()), static_cast<uint16_t>(message.size()), index, {}};
    ASSERT_TRUE(port.notifies().put(out));
  }
  // Completions so far, counted by how they ended.
  void collect() {
    TaskDone d;
    while (port.completions(WorkerId{0}).take({&d, 1}) == 1) {
      ++ended;
      if (d.end == TaskEnd::kDone) ++done;
      last = d;
    }
    while (port.notify_results().take({&d, 1}) == 1) {
      if (d.end == TaskEnd::kDone)
        ++notified;
      else
        ++notify_failed;
      last_notify = d;
    }
  }
  Session& session(uint16_t peer = 0) const { return *peers[peer]->sessions[0]; }

 private:
  const NodeParams params_;

 public:
  FakeQueue ctrl, data;
  std::unique_ptr<BouncePool> ctrl_rx, ctrl_tx, rx, tx;
  Mailbox<FromService> from_service;
  Mailbox<ToService> to_service;
  Mailbox<ToWorker> to_worker;
  Mailbox<ToControl> to_control;
  NotifyInbox notifies;
  PortRings port;
  std::vector<std::byte> memory = std::vector<std::byte>(kMemory), local = std::vector<std::byte>(kMemory);
  std::unique_ptr<Worker> worker;
  std::unique_ptr<Control> control;
  std::array<Peer*, kPeers> peers{};
  std::array<const Lane*, kPeers> lane{};
  bool give_extents = true;
  uint32_t ready = 0, faults = 0, closed_by = 0, fenced = 0, drained = 0, gone = 0, wanted = 0, freed = 0, cleared = 0,
           removed = 0;
  uint64_t ended = 0, done = 0, notified = 0, notify_failed = 0;
  TaskDone last{}, last_notify{};
};

class PairRig : public ::testing::Test {
 protected:
  static constexpr SessionId kSession{0xabcdef};

  void start(const NodeParams& a = {}, const NodeParams& b = {}) {
    fake_now = 1000;
    a_ = std::make_unique<HalfNode>(a);
    b_ = std::make_unique<HalfNode>(b);
    connect(*a_, 0, *b_, 0, kSession);
  }
  static void connect(HalfNode& a, uint16_t at_a, HalfNode& b, uint16_t at_b, SessionId id, uint16_t generation = 1) {
    a.ctrl.record = a.data.record = b.ctrl.record = b.data.record = false;
    a.ctrl.link(PathId{at_a}, &b.ctrl);
    a.data.link(PathId{at_a}, &b.data);
    b.ctrl.link(PathId{at_b}, &a.ctrl);
    b.data.link(PathId{at_b}, &a.data);
    a.add_peer(at_a, at_b, id, generation);
    b.add_peer(at_b, at_a, id, generation);
  }
  void turn(uint64_t ticks = 1) {
    fake_now += ticks;
    a_->turn();
    b_->turn();
    a_->collect();
    b_->collect();
    laws(*a_, *b_);
    laws(*b_, *a_);
  }
  // Law 1 between a sender and a receiver in the same epoch: P + R <= g <= G <= F + C, and F <= X <= P.
  void laws(const HalfNode& from, const HalfNode& to) const {
    if (from.lane[0] == nullptr || to.peers[0] == nullptr) return;
    const CreditLedger& l = from.lane[0]->ledger;
    const CreditGranter& g = to.session().granter;
    if (l.epoch() != g.epoch() || to.session().closed) return;
    for (size_t i = 0; i < kResources; ++i) {
      ASSERT_LE(l.posted_total().v[i] + l.reserved().v[i], l.granted().v[i]) << i;
      ASSERT_LE(l.granted().v[i], g.granted().v[i]) << i;
      ASSERT_LE(g.granted().v[i], g.released().v[i] + g.committed().v[i]) << i;
      ASSERT_LE(g.released().v[i], g.accepted().v[i]) << i;
      ASSERT_LE(g.accepted().v[i], l.posted_total().v[i]) << i;
    }
  }
  bool turn_until(const std::function<bool()>& reached, int turns = 200'000, uint64_t ticks = 1) {
    for (; turns > 0; --turns) {
      if (reached()) return true;
      turn(ticks);
      if (HasFatalFailure()) return false;
    }
    return reached();
  }
  bool both_ready() {
    return turn_until([&] { return a_->ready == 1 && b_->ready == 1; });
  }
  // @p rounds writes and reads of @p bytes each way, all placed.
  void traffic(int rounds, uint64_t bytes) {
    for (int i = 0; i < rounds; ++i) {
      const uint64_t da = a_->done, db = b_->done;
      for (uint64_t k = 0; k < bytes; ++k) a_->local[k] = std::byte(k * 3 + static_cast<uint64_t>(i));
      ASSERT_TRUE(a_->submit(SubmitOp::kWrite, 1, 0, bytes));
      ASSERT_TRUE(b_->submit(SubmitOp::kRead, 1, bytes, bytes));
      ASSERT_TRUE(turn_until([&] { return a_->done == da + 1 && b_->done == db + 1; })) << i;
      ASSERT_EQ(std::memcmp(a_->local.data(), b_->memory.data(), bytes), 0);
      ASSERT_EQ(std::memcmp(b_->local.data() + bytes, a_->memory.data() + bytes, bytes), 0);
    }
  }

  std::unique_ptr<HalfNode> a_, b_;
};

}  // namespace sluice::test
