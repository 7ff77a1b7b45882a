// The application of a node: it opens segments, submits batches, cancels, takes notifies, and knows what must be true.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "engine/service.h"
#include "oracle.h"

namespace sluice::sim {

class SimNode;

class App {
 public:
  App(World* world, Oracle* oracle, SimNode* node);
  uint32_t turn();

  /// No new work; quiet(): nothing of the old is open.
  void stop() { stopped_ = true; }
  bool quiet() const { return open_.empty(); }
  /// The port is about to be given back, and was: open tasks end without a word.
  void leave() { leaving_ = true; }
  void left();
  /// From now on every other node must be reachable, and every task end well.
  void probe(uint32_t nodes);
  bool probed() const;
  /// Dial all nodes at once.
  void open_all(uint32_t nodes);
  void cancel_some();
  /// Take the segment back; it is exported again when the agents have let go.
  void withdraw();
  std::string describe() const;  ///< What is open.

 private:
  struct Target {
    enum class State : uint8_t { kNone, kOpening, kOpen };
    State state = State::kNone;
    uint32_t life = 0;
    uint64_t deadline = 0, retry = 0;
    bool probed = false;
    std::shared_ptr<Service::OpenRequest> request;
    SegmentHandle handle{};
  };

  uint32_t act();
  void open(uint32_t node);
  void poll_target(uint32_t node, Target& t);
  void drop(uint32_t node, Target& t);
  bool submit(uint32_t tasks, const std::vector<uint32_t>& nodes, bool probe);
  bool make_task(BatchRecord& batch, uint32_t node, bool probe, Request* request);
  void undo(BatchRecord& batch);
  void check_batch(BatchRecord& batch);
  void check_task(BatchRecord& batch, uint32_t index);
  void on_end(BatchRecord& batch, const TaskRecord& task, const TaskStatus& status);
  void go_on_withdrawing();
  uint32_t take_notifies();
  std::vector<uint32_t> open_targets() const;

  World& world_;
  Oracle& oracle_;
  SimNode& node_;
  const uint32_t life_;
  std::map<uint32_t, Target> targets_;  // by node
  std::vector<BatchRecord*> open_;
  uint64_t next_act_ = 0;
  bool stopped_ = false, probing_ = false, leaving_ = false;
  std::vector<uint64_t> withdrawing_;  // tokens
  std::vector<uint32_t> withdrawn_;    // buffers
};

/// Tasks that may still be submitted, in all.
extern thread_local uint32_t tasks_left;

}  // namespace sluice::sim
