/// @file queue.h
/// The queue of the fault decorator.
///
/// Model    Every accepted op has a slot until its completion is given; the inner queue's cookie is the slot's number.
/// Threads  Its owner's.
/// Memory   As many slots as the inner queue's depth, sized in the constructor.
/// Errors   As fault.h.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "fault/fault.h"

namespace sluice {

class FaultQueue final : public Queue {
 public:
  FaultQueue(std::unique_ptr<Queue> inner, const FaultPlan& plan);

  uint32_t post(std::span<const Op> ops) noexcept override;
  uint32_t poll(std::span<Completion> out) noexcept override;
  uint32_t refill(std::span<const RecvBuf> bufs) noexcept override { return inner_->refill(bufs); }
  uint32_t recall(std::span<const uint64_t> cookies) noexcept override { return inner_->recall(cookies); }
  void peer_gone(PathId path) noexcept override { inner_->peer_gone(path); }
  void flush() noexcept override { inner_->flush(); }
  QueueDepth depth() const noexcept override { return inner_->depth(); }
  Status address(PathId path, std::vector<std::byte>* out) override { return inner_->address(path, out); }
  Status connect(PathId path, std::span<const std::byte> peer) override { return inner_->connect(path, peer); }
  Code close(PathId path) noexcept override;
  void shutdown() noexcept override;

  void set_plan(const FaultPlan& plan) noexcept;
  const FaultCounts& counts() const noexcept { return counts_; }

 private:
  enum class State : uint8_t {
    kFree,
    kInner,      // with the inner queue
    kHeld,       // to be posted at `due`
    kSwallowed,  // waits for close or shutdown
    kEnded,      // its completion is given at `due`
  };
  struct Slot {
    Op op;
    uint64_t due;         // a number of polls
    uint32_t late_polls;  // between the inner completion and ours
    State state;
    bool ordered;  // of a held op: what follows on its path waits too
    Code code;     // of an ended op
  };
  struct Draws {
    uint64_t random;
    uint64_t ops;
  };
  // Slot numbers in the order of their arrival.
  struct List {
    std::vector<uint32_t> slots;
    uint32_t size = 0;

    void push(uint32_t slot) noexcept { slots[size++] = slot; }
  };

  size_t draw() noexcept;
  bool take(const Op& op) noexcept;
  bool pass(uint32_t number) noexcept;
  void hold(uint32_t number, uint64_t due, bool ordered) noexcept;
  void end(uint32_t number, uint64_t due, Code code) noexcept;
  uint64_t path_held_until(PathId path) const noexcept;
  void release_held() noexcept;
  uint32_t give_ended(std::span<Completion> out) noexcept;
  uint32_t give_inner(std::span<Completion> out) noexcept;
  template <typename Match>
  void cancel(Match match) noexcept;

  std::unique_ptr<Queue> inner_;
  FaultPlan plan_;
  Draws draws_;
  FaultCounts counts_;
  bool shut_ = false;
  uint64_t polls_ = 0;
  std::vector<Slot> slots_;
  List free_;
  List held_;
  List ended_;
};

}  // namespace sluice
