/// @file target.h
/// The half of the bench that is run against: exports memory, carries out orders, counts notifies.
///
/// Model    An agent on the worker's lcore takes notifies and counts them, so that it keeps up with who sends them. An
///          order is left to serve(), and until that has carried it out the agent takes nothing more.
/// Threads  turn(): the worker's lcore. The rest: the main thread; lcores are not held up by a check. held_ says who
///          may touch what both use.
/// Memory   The engine's; open() allocates.
/// Errors   An order that does not fit the segment is refused in its outcome.
#pragma once

#include <array>
#include <atomic>
#include <vector>

#include "agent/agent.h"
#include "engine/engine.h"
#include "wire.h"

namespace sluice::bench {

class Target final : public Agent {
 public:
  /// Allocate and export @p bytes of @p engine, which was started with this as an agent.
  Status open(Engine* engine, uint64_t bytes);
  /// Carry out the order that came, if one did.
  void serve();
  uint32_t turn(uint64_t now) noexcept override;

 private:
  void carry_out();
  bool fits(const Order& order) const noexcept;
  void prepare(const Order& order);
  void check(const Order& order, Outcome* outcome) const;
  void count(const NotifyMessage& notify) noexcept;
  std::byte* at(uint64_t offset) const noexcept { return static_cast<std::byte*>(memory_.addr) + offset; }

  std::atomic<bool> held_{true};  // the main thread's turn: opening, or an order
  std::atomic<bool> ordered_{false};
  uint32_t turns_ = 0;
  Engine* engine_ = nullptr;
  ManagedBuffer memory_;
  std::vector<NotifyMessage> notifies_;
  uint64_t nonce_ = 0;  // of whom we count for
  std::array<uint64_t, kMaxGenerators> next_{};
  uint64_t received_ = 0, repeated_ = 0, missing_ = 0, garbled_ = 0;
};

}  // namespace sluice::bench
