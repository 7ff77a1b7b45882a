#include "plan.h"

#include <algorithm>

namespace sluice::sim {
namespace {
constexpr std::array<std::string_view, kFaults> kNames = {
    "frame-lost",      "frame-repeated", "frame-delayed",  "post-refused", "op-failed",
    "op-failed-there", "op-late",        "refill-partial", "path-death",   "rail-flap",
    "clean-restart",   "kill",           "mute",           "slow",         "clock-jump",
    "no-extent",       "oob-cut",        "cancel",         "withdraw",     "simultaneous-open"};

constexpr uint32_t bit(Fault f) noexcept { return 1u << static_cast<unsigned>(f); }
// These must cost no session and no task.
constexpr uint32_t kGentle = bit(Fault::kFrameLost) | bit(Fault::kFrameRepeated) | bit(Fault::kFrameDelayed) |
                             bit(Fault::kPostRefused) | bit(Fault::kOpFailed) | bit(Fault::kOpFailedThere) |
                             bit(Fault::kOpLate) | bit(Fault::kRefillPartial) | bit(Fault::kNoExtent) |
                             bit(Fault::kCancel) | bit(Fault::kSlow) | bit(Fault::kSimultaneousOpen);

NodeSettings node_settings(Rng& rng, uint32_t node, uint32_t peers, bool gentle) {
  NodeSettings s{};
  s.name = "n" + std::to_string(node);
  s.listen = "127.0.0.1:" + std::to_string(1000 + node);
  s.transport = "loop_twosided";
  s.provider = "auto";
  s.hugepages = "off";
  s.workers = rng.below(3) == 0 ? 2 : 1;
  s.slot_bytes = rng.small(1, 4) * 192;
  s.ctrl_slot_bytes = rng.small(3, 8) * 64;
  s.verify_crc = rng.below(4) == 0;
  s.session_floor = rng.small(1, 3);
  s.extent_slots = rng.small(1, 4) * 2;
  const uint32_t least = (s.session_floor * std::max(1u, peers) + s.extent_slots - 1) / s.extent_slots;
  const uint32_t extents = least + rng.small(0, 2);
  const uint32_t floor_extents = (s.session_floor + s.extent_slots - 1) / s.extent_slots;
  s.rx_slots_min = rng.small(std::min(floor_extents, extents), extents) * s.extent_slots;
  s.rx_slots = std::max(s.rx_slots_min, rng.small(1, extents) * s.extent_slots);
  s.rx_slots_max = (extents + rng.small(0, 4)) * s.extent_slots;
  s.tx_slots = rng.small(1, 24);
  s.tx_depth = rng.small(1, 24);
  s.requests = rng.small(1, 8);
  s.heartbeat_ms = 20;
  s.lease_ms = rng.small(60, 200);
  s.connect_timeout_ms = 400;
  s.task_timeout_ms = gentle ? 20'000 : rng.below(2) == 0 ? rng.small(20, 300) : 3000;
  s.credit_probe_us = rng.small(50, 400);
  s.shrink_idle_ms = rng.small(10, 60);
  s.max_peers = 8;
  s.max_tasks = rng.small(8, 128);
  s.port_ring = 16u << rng.below(4);
  return s;
}

void draw_rates(Rng& rng, Plan* plan) {
  for (size_t f = 0; f < kFaults; ++f) {
    constexpr std::array<uint32_t, 3> kRates = {3'000, 20'000, 120'000};
    plan->rate[f] = kRates[rng.below(kRates.size())];
    plan->every[f] = rng.wide(5 * kMs, 400 * kMs);
  }
  // A machine that is short of memory for ever, or whose posts are always refused, is not what is tried here.
  plan->rate[static_cast<size_t>(Fault::kNoExtent)] = 400'000;
}
}  // namespace

std::string_view fault_name(Fault fault) noexcept { return kNames[static_cast<size_t>(fault)]; }

bool parse_faults(std::string_view list, uint32_t* mask, std::string_view* bad) {
  *mask = 0;
  while (!list.empty()) {
    const size_t end = std::min(list.find(','), list.size());
    const std::string_view name = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    if (name == "none" || name.empty()) continue;
    const auto at = std::find(kNames.begin(), kNames.end(), name);
    if (name != "all" && at == kNames.end()) {
      *bad = name;
      return false;
    }
    *mask |= name == "all" ? ~0u : 1u << (at - kNames.begin());
  }
  return true;
}

Plan make_plan(uint64_t seed, const PlanOptions& options) {
  Rng rng(seed, 1);
  Plan p{};
  p.seed = seed;
  p.nodes = rng.small(2, 4);
  if (options.nodes != 0) p.nodes = options.nodes;
  p.gentle = rng.below(4) == 0;
  const uint64_t kind = rng.below(8);
  for (size_t f = 0; f < kFaults; ++f)  // none, one, or a third of them
    if (kind != 0 && (kind == 1 ? rng.below(kFaults) == f : rng.below(3) == 0)) p.faults |= 1u << f;
  if (p.gentle) p.faults &= kGentle;
  p.faults &= options.only;
  draw_rates(rng, &p);
  p.fault_ns = rng.wide(20 * kMs, 800 * kMs);
  if (options.fault_ns != 0) p.fault_ns = options.fault_ns;
  p.tasks = std::min(options.tasks, rng.small(20, 300));
  p.batch_tasks = rng.small(1, 8);
  p.ordered = rng.below(3) != 0;
  p.closes_paths = rng.below(2) == 0;
  p.recalls = rng.below(2) == 0;
  p.dead_hang = rng.below(3) == 0;
  p.connected = rng.below(2) == 0;
  p.eager = rng.below(2) == 0 ? 0 : static_cast<uint32_t>(rng.below(1'000'000));
  p.latency_low = rng.range(500, 3 * kUs);
  p.latency_high = rng.wide(4 * kUs, 100 * kUs);
  p.tx_depth = rng.small(1, 32);
  p.cell_bytes = rng.small(2, 16) * 256;
  p.think_low = rng.range(1, 5 * kUs);
  p.think_high = rng.wide(10 * kUs, 3 * kMs);
  p.pause_ns = rng.below(2) == 0 ? rng.wide(1 * kMs, 150 * kMs) : 0;
  for (uint32_t n = 0; n < p.nodes; ++n) p.settings.push_back(node_settings(rng, n, p.nodes - 1, p.gentle));
  return p;
}

}  // namespace sluice::sim
