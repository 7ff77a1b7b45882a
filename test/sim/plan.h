// What one seed does: the nodes, their settings, and which faults come how often.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "env/node_settings.h"
#include "rng.h"

namespace sluice::sim {

inline constexpr uint64_t kUs = 1000, kMs = 1000 * kUs, kSecond = 1000 * kMs;

enum class Fault : uint8_t {
  kFrameLost,
  kFrameRepeated,
  kFrameDelayed,   ///< By more than its successors: it is reordered.
  kPostRefused,    ///< From a position of the burst on.
  kOpFailed,       ///< It completes with an error, and its message does not arrive.
  kOpFailedThere,  ///< It completes with an error, and its message arrives, now or much later.
  kOpLate,         ///< Its completion comes late.
  kRefillPartial,
  kPathDeath,  ///< Every op on one path fails for a while.
  kRailFlap,   ///< Every op of one queue fails or is refused for a while.
  kCleanRestart,
  kKill,
  kMute,  ///< None of a node's agents turns for a while: stopped, and continued.
  kSlow,  ///< They turn ten times more rarely.
  kClockJump,
  kNoExtent,  ///< Memory for an extent cannot be had.
  kOobCut,    ///< Out-of-band messages of a pair stand still for a while.
  kCancel,
  kWithdraw,          ///< A segment is taken back, and exported again.
  kSimultaneousOpen,  ///< All nodes dial each other at once.
  kCount,
};
inline constexpr size_t kFaults = static_cast<size_t>(Fault::kCount);
std::string_view fault_name(Fault fault) noexcept;
/// A mask of comma-separated names. @return false: *bad is the one that is unknown.
bool parse_faults(std::string_view list, uint32_t* mask, std::string_view* bad);

struct PlanOptions {
  uint32_t nodes = 0;           ///< 0: the seed decides.
  uint64_t fault_ns = 0;        ///< How long faults come; 0: the seed decides.
  uint32_t only = ~0u;          ///< Faults that may come.
  uint32_t tasks = UINT32_MAX;  ///< The most tasks of all nodes.
};

struct Plan {
  uint64_t seed;
  uint32_t nodes, tasks, batch_tasks;
  uint64_t fault_ns;
  uint32_t faults = 0;                    ///< Mask.
  std::array<uint32_t, kFaults> rate{};   ///< Of an opportunity, in a million.
  std::array<uint64_t, kFaults> every{};  ///< Of what comes by time: mean distance in ns.
  bool gentle;                            ///< Only faults that must cost no session and no task.
  bool ordered, closes_paths, recalls, dead_hang, connected;
  uint32_t eager;  ///< Sends that complete before they arrive, in a million.
  uint64_t latency_low, latency_high;
  uint32_t tx_depth, cell_bytes;
  uint64_t think_low, think_high, pause_ns;
  std::vector<NodeSettings> settings;

  bool has(Fault f) const noexcept { return (faults >> static_cast<unsigned>(f) & 1) != 0; }
};

Plan make_plan(uint64_t seed, const PlanOptions& options);

}  // namespace sluice::sim
