/// @file fifo.h
/// A bounded first-in first-out list of plain records.
///
/// Model    A ring of a power of two; the owner checks for room before it pushes.
/// Threads  One owner.
/// Memory   Sized once, in the constructor.
/// Errors   None; @pre room to push, something to pop.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>

namespace sluice {

template <typename T>
class Fifo {
 public:
  explicit Fifo(uint32_t capacity) : slots_(new T[std::bit_ceil(capacity)]), mask_(std::bit_ceil(capacity) - 1) {}

  uint32_t size() const noexcept { return tail_ - head_; }
  bool empty() const noexcept { return tail_ == head_; }
  void push(const T& value) noexcept { slots_[tail_++ & mask_] = value; }
  const T& pop() noexcept { return slots_[head_++ & mask_]; }

 private:
  std::unique_ptr<T[]> slots_;
  uint32_t mask_;
  uint32_t head_ = 0;
  uint32_t tail_ = 0;
};

}  // namespace sluice
