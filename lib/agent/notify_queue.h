/// @file notify_queue.h
/// Notifies that wait for their turn on a session: one pool of places for all sessions, a list for each.
///
/// Model    What finds no place stays in its port's ring, so that nothing is refused.
/// Threads  The control core.
/// Memory   The pool is sized at construction.
/// Errors   None; @pre push: !full().
#pragma once

#include <cstdint>
#include <vector>

#include "agent/port_rings.h"

namespace sluice {

/// A notify that waits for its turn or for its acknowledgement. port is null when its sender is gone.
struct PendingNotify {
  NotifyOut out;
  PortRings* port;
};

/// A session's, oldest first.
struct NotifyList {
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t head = kNone, tail = kNone, count = 0;
};

class NotifyPool {
 public:
  explicit NotifyPool(uint32_t places) : nodes_(places), free_(places) {
    for (uint32_t i = 0; i < places; ++i) nodes_[i].next = i + 1 == places ? NotifyList::kNone : i + 1;
    first_free_ = places == 0 ? NotifyList::kNone : 0;
  }

  uint32_t free() const noexcept { return free_; }

  void push(NotifyList& list, const PendingNotify& notify) noexcept {
    const uint32_t index = first_free_;
    first_free_ = nodes_[index].next;
    --free_;
    nodes_[index] = {notify, NotifyList::kNone};
    (list.tail == NotifyList::kNone ? list.head : nodes_[list.tail].next) = index;
    list.tail = index;
    ++list.count;
  }

  /// @pre list.count != 0
  PendingNotify pop(NotifyList& list) noexcept {
    const uint32_t index = list.head;
    list.head = nodes_[index].next;
    if (list.head == NotifyList::kNone) list.tail = NotifyList::kNone;
    --list.count;
    nodes_[index].next = first_free_;
    first_free_ = index;
    ++free_;
    return nodes_[index].notify;
  }

 private:
  struct Node {
    PendingNotify notify;
    uint32_t next;
  };
  std::vector<Node> nodes_;
  uint32_t first_free_ = NotifyList::kNone, free_ = 0;
};

}  // namespace sluice
