// A one-sided worker over fake queues. The test is its control core, its application, and the peer's memory.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "agent/rma_worker.h"
#include "fake_rma.h"

namespace sluice::test {

struct RmaRigParams {
  uint32_t rails = 1, depth = 16, tasks = 256;
  uint64_t op_bytes = 4096, local_chunk = 0, remote_chunk = 0, max_op_bytes = UINT32_MAX;  // chunk 0: one piece
  bool placed = true;
  std::vector<std::vector<uint32_t>> penalty = {};  // by rail
};

class RmaRig {
 public:
  static constexpr uint64_t kMemory = 1 << 16, kTimeout = 1'000'000, kLease = 50'000, kStall = 1'000'000, kGrace = 1000,
                            kUs = 1;

  explicit RmaRig(const RmaRigParams& params = {});
  ~RmaRig();

  void open_lane(uint16_t lane = 0, uint16_t generation = 1);
  void put(const ToWorker& m) { ASSERT_TRUE(inbox.put(m)); }
  void fail_lane(Code code, uint64_t give_up_at, uint16_t lane = 0);
  /// A task of @p length bytes, from or to @p local, at @p offset of the peer's buffer.
  bool submit(SubmitOp op, uint64_t ref, uint64_t local, uint64_t offset, uint64_t length, uint16_t lane = 0);
  void cancel(uint64_t ref, uint64_t mask);
  void turn(uint64_t ticks = 1);
  /// Turn until every task that was submitted has ended. @return whether that came.
  bool settle(int turns = 2000);
  bool ended(uint64_t ref) const { return ends.contains(ref); }
  uint64_t told(ToControl::Kind kind) const {
    const auto it = messages.find(kind);
    return it == messages.end() ? 0 : it->second;
  }
  uint64_t ops() const;
  uint64_t torn() const;

  const RmaRigParams p;
  std::unique_ptr<Region> local, remote;
  RemoteBuffer buffer;
  std::vector<std::unique_ptr<FakeRma>> queues;
  Mailbox<ToWorker> inbox;
  Mailbox<ToControl> control;
  PortRings port;
  std::unique_ptr<RmaWorker> worker;
  std::map<uint64_t, TaskDone> ends;  // by ref
  uint64_t doubles = 0;               // ends of a task that had one
  std::map<ToControl::Kind, uint64_t> messages;
  uint64_t now = 1, submitted = 0;

 private:
  void chunks(Region& region, uint64_t chunk, uint16_t rail, uint64_t key);
};

}  // namespace sluice::test
