/// @file pair_options.h
/// How the connection of a pair of ends behaves, for devices whose paths are pairs (DeviceCaps::paired).
///
/// Model    Plain values from the settings, in the units of the InfiniBand specification. Other drivers ignore them.
/// Threads  Plain data.
/// Memory   No heap.
/// Errors   The settings table holds the ranges.
#pragma once

#include <cstdint>

namespace sluice {

struct PairOptions {
  static constexpr uint16_t kAnyGid = 255;

  uint16_t gid_index = kAnyGid;  ///< Of the port's table; kAnyGid: chosen by rule.
  uint16_t mtu_bytes = 0;        ///< At most this; 0: the port's.
  uint8_t timeout = 16;          ///< An acknowledgement may take 4.096 us << timeout; 0: for ever.
  uint8_t retries = 6;           ///< Then the path is broken. Soft RDMA takes 7 as for ever.
  uint8_t rnr_retries = 7;       ///< Of a send that finds no receive; 7: for ever.
  uint8_t rnr_timer = 12;        ///< What a sender waits then, as the specification counts (12: 0.64 ms).
  uint8_t traffic_class = 0;
  uint8_t service_level = 0;
  bool relaxed_ordering = false;
  bool shared_receives = true;  ///< false: not even where the device has them.
};

}  // namespace sluice
