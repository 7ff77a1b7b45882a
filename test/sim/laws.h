// The laws of doc/design.md, as far as they can be seen, after each step; and rest, at the end.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "node.h"

namespace sluice::sim {

class Laws {
 public:
  Laws(World* world, const std::vector<std::unique_ptr<SimNode>>* nodes) : world_(*world), nodes_(*nodes) {}

  /// After a turn of @p node.
  void check(SimNode& node);
  /// Everything is home. @return what is not; empty: nothing.
  std::string at_rest(SimNode& node);
  /// The state of every session of @p node, for a trace.
  void dump(SimNode& node);
  /// The epoch that the receiver of what node @p sender sends in @p session is in; 0: nobody knows.
  uint64_t rx_epoch(uint32_t sender, SessionId session) const;

 private:
  struct Seen {  // of one direction of a session, to see that totals do not fall
    TxState tx = TxState::kIdle;
    RxState rx = RxState::kIdle;
    Epoch ledger_epoch{}, granter_epoch{};
    Charge granted, posted, promised, accepted, released;
  };
  void check_worker(SimNode& node, uint32_t worker);
  void check_lane(SimNode& node, const Lane& lane);
  void check_session(SimNode& node, const Session& s);
  void check_channel(const Session& s);
  void check_pool(SimNode& node, uint32_t worker, uint64_t promised);
  const Session* other_end(const SimNode& node, SessionId session) const;
  void monotone(const Charge& before, const Charge& now, const char* what);
  void moved(Seen& seen, const Session& s);

  World& world_;
  const std::vector<std::unique_ptr<SimNode>>& nodes_;
  std::map<std::pair<uint32_t, uint64_t>, Seen> seen_;  // by node and session
};

/// Every frame, message, end and transition of the session tables that so many seeds must reach. A session that ends in
/// the moment between DRAIN_ACK and the next epoch comes once in a thousand seeds or more rarely: it is wanted of many.
std::vector<std::string> wanted_coverage(uint64_t seeds);

}  // namespace sluice::sim
