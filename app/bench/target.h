/// @file target.h
/// The half of the bench that is run against: exports memory, carries out orders, counts notifies.
///
/// Model    turn() takes notifies: an order is carried out in the memory that the peer wrote, a counted one is counted.
/// Threads  The application's main thread; the node's lcores are not held up by a check.
/// Memory   The engine's; open() allocates.
/// Errors   An order that does not fit the segment is refused in its outcome.
#pragma once

#include <array>
#include <vector>

#include "engine/engine.h"
#include "wire.h"

namespace sluice::bench {

class Target {
 public:
  /// Allocate and export @p bytes.
  Status open(Engine* engine, uint64_t bytes);
  /// @return how many notifies were there.
  uint32_t turn();

 private:
  void carry_out();
  bool fits(const Order& order) const noexcept;
  void prepare(const Order& order);
  void check(const Order& order, Outcome* outcome) const;
  void count(const NotifyMessage& notify);
  std::byte* at(uint64_t offset) const noexcept { return static_cast<std::byte*>(memory_.addr) + offset; }

  Engine* engine_ = nullptr;
  ManagedBuffer memory_;
  std::vector<NotifyMessage> notifies_;
  uint64_t nonce_ = 0;  // of whom we count for
  std::array<uint64_t, kMaxGenerators> next_{};
  uint64_t received_ = 0, repeated_ = 0, missing_ = 0, garbled_ = 0;
};

}  // namespace sluice::bench
