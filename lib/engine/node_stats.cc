#include <algorithm>

#include "engine/node.h"

namespace sluice {

NodeStats Node::stats() const {
  constexpr auto read = [](const std::atomic<uint64_t>& c) { return c.load(std::memory_order_relaxed); };
  NodeStats out;
  for (uint32_t i = 0; i < plane_->workers(); ++i) {
    const WorkerStats& w = plane_->worker(i).stats();
    out.tasks_done += read(w.tasks_done);
    out.tasks_failed += read(w.tasks_failed);
    out.tasks_cancelled += read(w.tasks_cancelled);
    out.bytes_sent += read(w.bytes_sent);
    out.bytes_received += read(w.bytes_received);
    out.messages_sent += read(w.messages_sent);
    out.messages_received += read(w.messages_received);
    out.waits += read(w.waits);
    out.wait_max_ns = std::max(out.wait_max_ns, read(w.wait_max) * 1000 / plane_->ticks_per_us());
    out.stalls_slot += read(w.stalls_slot);
    out.stalls_depth += read(w.stalls_depth);
    out.messages_refused += read(w.messages_refused);
    out.lease_refusals += read(w.lease_refusals);
    out.stale_messages += read(w.stale_messages);
    out.resends += read(w.resends);
    out.duplicates += read(w.duplicates);
    out.lost_messages += read(w.lost_messages);
    out.tasks_open += static_cast<uint32_t>(read(w.tasks_open));
    out.peer_tasks += static_cast<uint32_t>(read(w.peer_tasks));
    out.lanes += static_cast<uint32_t>(read(w.lanes));
    out.rx_slots += static_cast<uint32_t>(read(w.rx_posted));
    out.rx_slots_out += static_cast<uint32_t>(read(w.rx_out));
    out.tx_slots_out += static_cast<uint32_t>(read(w.tx_out));
  }
  const ControlStats& c = plane_->control().stats();
  out.frames_sent = read(c.frames_sent);
  out.frames_received = read(c.frames_received);
  out.frames_refused = read(c.frames_refused);
  out.frame_repeats = read(c.frame_repeats);
  out.frames_stale = read(c.frames_stale);
  out.fences = read(c.fences);
  out.lost_messages += read(c.lost_messages);
  out.violations = read(c.violations);
  out.notifies_sent = read(c.notifies_sent);
  out.notifies_received = read(c.notifies_received);
  out.notifies_refused = read(c.notifies_refused);
  out.notifies_failed = read(c.notifies_failed);
  out.peers = service_->service().peers_up();
  out.extents = static_cast<uint32_t>(read(c.extents));
  out.extents_min = std::min(out.extents, static_cast<uint32_t>(read(c.extents_min)));
  out.extents_max = std::max(out.extents, static_cast<uint32_t>(read(c.extents_max)));
  return out;
}

// The agents write a peak only when they go beyond it, so what one of them writes meanwhile is of now.
void Node::restart_peaks() {
  for (uint32_t i = 0; i < plane_->workers(); ++i) plane_->worker(i).stats().wait_max.store(0);
  ControlStats& c = plane_->control().stats();
  c.extents_min.store(c.extents.load());
  c.extents_max.store(c.extents.load());
}

}  // namespace sluice
