// What the simulator sees of the agents' insides. It only looks.
#pragma once

#include <string>
#include <vector>

#include "agent/control.h"
#include "agent/mutants.h"
#include "agent/worker.h"

namespace sluice {

struct SimPeek {
  static const std::vector<Lane*>& lanes(const Worker& w) { return w.lanes_; }
  static const WorkerParams& params(const Worker& w) { return w.p_; }
  static uint32_t tx_out(const Worker& w) { return w.tx_out_; }
  static uint32_t spares(const Worker& w) { return w.spares_; }
  static size_t resends(const Worker& w) { return w.resend_.size(); }
  static size_t refills(const Worker& w) { return w.refill_.size() + WorkerMutants::count(w); }
  static uint32_t rx_posted(const Worker& w) { return w.rx_posted_; }
  static uint32_t rx_limit(const Worker& w) { return w.rx_limit_; }
  static uint32_t open_tasks(const Worker& w) { return w.open_tasks_; }

  static const std::vector<Peer*>& peers(const Control& c) { return c.peers_; }
  static const ControlParams& params(const Control& c) { return c.p_; }
  static uint32_t tx_out(const Control& c) { return c.tx_out_; }
  static size_t unsent(const Control& c) { return c.unsent_.size(); }
  static size_t refills(const Control& c) { return c.refill_.size(); }
  static Session* find(Control& c, SessionId id) { return c.find(id); }
  static std::string pools(const Control& c) {
    std::string out;
    for (const auto& p : c.pools_)
      out += "[capacity " + std::to_string(p->capacity) + " of the share " + std::to_string(p->share.capacity()) +
             " promised " + std::to_string(p->share.promised()) + " growing " + std::to_string(p->growing) +
             " shrinking " + std::to_string(p->shrinking) + " starved " + std::to_string(p->starved) + " hungry " +
             std::to_string(p->hungry) + "]";
    return out;
  }
};

}  // namespace sluice
