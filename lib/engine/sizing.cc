#include "engine/sizing.h"

#include <algorithm>

#include "agent/peer.h"
#include "mem/bounce_pool.h"
#include "proto/msg_header.h"

namespace sluice {
namespace {
bool is_default(std::string_view name, uint64_t value) {
  for (const Setting& row : node_rows()) {
    uint64_t initial = 0;
    if (row.name == name && check_setting(row, row.initial, &initial).ok()) return initial == value;
  }
  return false;
}

void note(Sizing* sizing, std::string_view setting, uint64_t asked, uint64_t got, const std::string& why) {
  if (got >= asked) return;
  auto& lines = is_default(setting, asked) ? sizing->default_cuts : sizing->chosen_cuts;
  lines.push_back(std::string(setting) + " = " + std::to_string(asked) + ": " + std::to_string(got) + " is used, " +
                  why);
}
}  // namespace

Sizing size_pools(const NodeSettings& settings, std::string_view device, QueueDepth depth) {
  Sizing out;
  const std::string gives = "the most that a queue on " + std::string(device) + " takes";
  if (settings.tx_depth != 0) note(&out, "tx-depth", settings.tx_depth, depth.tx, gives);
  out.rx_slots = std::min(settings.rx_slots, depth.rx);
  note(&out, "rx-slots", settings.rx_slots, out.rx_slots, gives);
  const uint64_t extents = uint64_t{BouncePool::kMaxExtents} * settings.extent_slots;
  out.rx_slots_max = static_cast<uint32_t>(std::min<uint64_t>({settings.rx_slots_max, depth.rx, extents}));
  note(&out, "rx-slots-max", settings.rx_slots_max, out.rx_slots_max,
       extents < depth.rx ? std::to_string(BouncePool::kMaxExtents) +
                                " extents of extent-slots = " + std::to_string(settings.extent_slots)
                          : gives);
  out.window = std::min(settings.rx_slots_max, Session::kMaxWindow);
  note(&out, "rx-slots-max", out.rx_slots_max, out.window, "the most for one peer; the rest is for others");
  return out;
}

uint64_t bounce_bytes(const NodeSettings& settings, uint32_t ctrl_slots) {
  const uint64_t slot = uint64_t{settings.slot_bytes} + kMsgHeaderBytes;
  return settings.workers * (uint64_t{settings.rx_slots} + settings.tx_slots) * slot +
         uint64_t{ctrl_slots} * settings.ctrl_slot_bytes;
}

Status with_shortage(Status failed, const EalFacts& facts, uint64_t locked_bytes, uint64_t huge_bytes) {
  if (failed.code() != Code::kNoMemory) return failed;
  std::string text = failed.text();
  for (const std::string& line : preflight(facts, locked_bytes, huge_bytes)) text += "; " + line;
  return {failed.code(), std::move(text)};
}

}  // namespace sluice
