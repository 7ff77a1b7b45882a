// A node without its service thread and without a wire: a control agent and a worker over fake queues. The test is the
// service thread and the application.
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
  uint32_t extent_slots = 16, extents = 1, extents_max = 1, floor = 2, ceiling = 64, requests = 8, inbox = 8,
           ctrl_depth = 128;
};

class HalfNode {
 public:
  static constexpr uint32_t kSlot = 256, kFrame = 512, kTx = 64, kPeers = 4, kText = 200;
  static constexpr uint64_t kIdle = 1'000'000;
  static constexpr uint64_t kMemory = 1 << 16;

  explicit HalfNode(const NodeParams& params);

  static FromService from(FromService::Kind kind) {
    FromService m{};
    m.kind = kind;
    return m;
  }
  void put(const FromService& m) { ASSERT_TRUE(from_service.put(m)); }

  // As the service thread.
  void add_peer(uint16_t number, uint16_t their_lane, SessionId id, uint16_t generation = 1);
  void lose_peer(uint16_t number, uint64_t give_up_at) {
    FromService m = from(FromService::Kind::kPeerLost);
    m.code = Code::kPeerDead;
    m.peer = PeerId{number};
    m.a = give_up_at;
    put(m);
  }
  void serve();
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
  void collect();
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

}  // namespace sluice::test
