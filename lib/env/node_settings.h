/// @file node_settings.h
/// The settings of a node: their rows, and the values as a struct.
///
/// Model    node_rows() is the table; NodeSettings is what the engine reads. A program adds rows of its own.
/// Threads  Slow calls, one thread.
/// Memory   Allocates.
/// Errors   kBadArgument with one line for each thing that does not fit together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "env/settings.h"

namespace sluice {

struct NodeSettings {
  std::string name, listen, transport, provider, secret, hugepages, log_level;
  uint32_t rdma_mtu = 0, gid_index = 255, ack_timeout = 16, ack_retries = 6, rnr_retries = 7, rnr_timer = 12;
  uint32_t traffic_class = 0, service_level = 0;
  bool relaxed_ordering = false;
  std::vector<std::string> devices;
  std::vector<int> cpus;
  bool adaptive_idle, verify_crc;
  uint32_t workers, slot_bytes, ctrl_slot_bytes;
  uint32_t rx_slots, rx_slots_min, rx_slots_max, extent_slots, tx_slots, op_bytes, tx_depth, requests, session_floor;
  uint32_t heartbeat_ms, lease_ms, connect_timeout_ms, task_timeout_ms, credit_probe_us, shrink_idle_ms;
  uint32_t max_peers, max_tasks, port_ring;
};

SettingRows node_rows() noexcept;

/// The values of @p settings, checked against each other. @return kBadArgument.
Status read_node_settings(const Settings& settings, NodeSettings* out);

/// What does not fit together in @p node. @return kBadArgument.
Status validate(const NodeSettings& node);

/// All a program does at its start: command line, then the file that --config names, then the checks; then it sets the
/// level of the log, and each setting with its source is logged at debug. When help was asked for, @p help is not empty
/// and nothing else is set. @return kBadArgument, kNotFound.
Status load_node_settings(std::string_view program, std::string_view about, const std::vector<std::string>& words,
                          Settings* settings, NodeSettings* node, std::string* help);

/// "0-3,8" as {0,1,2,3,8}. @return kBadArgument.
Status parse_cpus(const std::vector<std::string>& items, std::vector<int>* cpus);

/// Part a program's words: before "--" they are EAL's, after it the program's. Without "--" all are the program's.
void split_words(int argc, const char* const* argv, std::vector<std::string>* eal, std::vector<std::string>* own);

}  // namespace sluice
