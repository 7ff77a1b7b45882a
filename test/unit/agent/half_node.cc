#include "half_node.h"

namespace sluice::test {

HalfNode::HalfNode(const NodeParams& params)
    : params_(params),
      ctrl(32, params.ctrl_depth),
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
  w.max_tasks = 2048;
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

void HalfNode::add_peer(uint16_t number, uint16_t their_lane, SessionId id, uint16_t generation) {
  auto* peer = new Peer;
  peer->id = PeerId{number};
  peer->generation = generation;
  peer->path = PathId{number};
  const SessionParams s{peer->id, generation,       WorkerId{0}, LaneId{number}, id,  params_.ceiling,
                        kSlot,    params_.requests, kSlot,       kFrame,         true};
  peer->sessions.push_back(std::make_unique<Session>(s));
  auto made =
      std::make_unique<Lane>(LaneParams{s.lane, generation, peer->path, id, their_lane, kSlot, params_.requests, {}});
  made->lease_until = UINT64_MAX;
  lane[number] = made.get();
  peer->lanes.push_back(std::move(made));
  peers[number] = peer;
  FromService m = from(FromService::Kind::kPeerUp);
  m.peer = peer->id;
  m.peer_object = peer;
  put(m);
}

void HalfNode::serve() {
  ToService m;
  while (to_service.take({&m, 1}) == 1) {
    switch (m.kind) {
      case ToService::Kind::kPeerReady: ++ready; break;
      case ToService::Kind::kPeerFault: ++faults; break;
      case ToService::Kind::kPeerClosedBy: ++closed_by; break;
      case ToService::Kind::kPeerFenced: ++fenced; break;
      case ToService::Kind::kDrained: ++drained; break;
      case ToService::Kind::kRailDown: break;  // of one-sided workers
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

void HalfNode::collect() {
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

}  // namespace sluice::test
