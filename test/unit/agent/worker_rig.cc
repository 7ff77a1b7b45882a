#include "worker_rig.h"

namespace sluice::test {

WorkerRig::WorkerRig() : queue_(kTx, kRx), rx_(make_pool(1, kRx, kSlot)), tx_(make_pool(1, kTx, kSlot)) {
  fake_now = 1000;
  EXPECT_TRUE(inbox_.open(1024).ok() && control_.open(2048).ok() && port_.open(1, 256, 64).ok());
  WorkerParams p;
  p.queue = &queue_;
  p.rx_pool = rx_.get();
  p.tx_pool = tx_.get();
  p.inbox = &inbox_;
  p.control = &control_;
  p.ticks = fake_ticks;
  p.slot_bytes = kSlot;
  p.max_lanes = 4;
  p.max_tasks = 128;
  p.max_buffers = 4;
  p.rx_slots_max = kRx;
  p.task_timeout = kTimeout;
  p.probe_first = kProbeFirst;
  p.probe_max = kProbeMax;
  p.lease = kLease;
  worker_ = std::make_unique<Worker>(p);
  ToWorker port = to(ToWorker::Kind::kAddPort);
  port.port = &port_;
  put(port);
  ToWorker buffer = to(ToWorker::Kind::kSetBuffer);
  buffer.buffer = {1, memory_.data(), kMemory, 0};
  put(buffer);
  turn();
}

void WorkerRig::turn(uint64_t ticks) {
  fake_now += ticks;
  (void)worker_->turn(fake_now);
  ToControl m;
  while (control_.take({&m, 1}) == 1) {
    if (m.kind == ToControl::Kind::kLaneClosed) {
      ++lanes_closed_;
      if (m.closed == lane_) lane_ = nullptr;
      delete m.closed;
    }
    told_.push_back(m);
  }
  if (lane_ != nullptr) laws();
}

void WorkerRig::laws() const {
  const CreditLedger& l = lane_->ledger;
  const Charge reserved = l.reserved();
  for (size_t i = 0; i < kResources; ++i) {
    ASSERT_LE(l.posted_total().v[i] + reserved.v[i], l.granted().v[i]);
    ASSERT_LE(l.granted().v[i], granted_.v[i]);
  }
  if (lane_->state == Lane::State::kOpen) {
    ASSERT_EQ(reserved[Resource::kBounceSlots], lane_->staged_count);
  }
}

}  // namespace sluice::test
