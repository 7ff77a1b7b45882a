/// @file mutants.h
/// Deliberate faults of a worker that take more than a line (base/mutant.h).
///
/// Model    return_early: credit, or the receive itself, goes back before its message was placed. hold and let_go: the
///          receive of a request stays out until the request is answered, as with one pool for all classes.
/// Threads  The simulator's one.
/// Memory   Without -Dmutants=true there is nothing here.
/// Errors   They are errors.
#pragma once

#include <vector>

#include "agent/worker.h"
#include "base/mutant.h"

namespace sluice {

struct WorkerMutants {
#ifdef SLUICE_MUTANTS
  struct Held {
    const Worker* worker;
    Worker::Refill entry;
  };
  static inline std::vector<Held> held;

  static void return_early(Worker& w, Worker::Refill* entry) {
    const RecvBuf buf{entry->slot.addr, entry->slot.local_desc, raw(entry->slot.handle), w.p_.slot_bytes};
    if (mutant(Mutant::kReleaseFirst)) {
      if (w.p_.queue->refill({&buf, 1}) != 1) return;
      ++w.rx_posted_;
      entry->slot.addr = nullptr;
    }
    w.released(*entry);
    entry->counted = false;
  }
  static void hold(Worker& w, const Worker::Refill& entry) { held.push_back({&w, entry}); }
  static void let_go(Worker& w, LaneId lane, uint32_t count) {
    for (size_t i = 0; i < held.size() && count != 0;) {
      if (held[i].worker != &w || held[i].entry.lane != lane) {
        ++i;
        continue;
      }
      w.refill_.push_back(held[i].entry);
      held.erase(held.begin() + static_cast<ptrdiff_t>(i));
      --count;
    }
  }
  static void forget(const Worker& w) {
    std::erase_if(held, [&w](const Held& h) { return h.worker == &w; });
  }
  static size_t count(const Worker& w) {
    size_t n = 0;
    for (const Held& h : held) n += h.worker == &w ? 1 : 0;
    return n;
  }
#else
  static void return_early(Worker&, Worker::Refill*) noexcept {}
  static void hold(Worker&, const Worker::Refill&) noexcept {}
  static void let_go(Worker&, LaneId, uint32_t) noexcept {}
  static void forget(const Worker&) noexcept {}
  static size_t count(const Worker&) noexcept { return 0; }
#endif
};

}  // namespace sluice
