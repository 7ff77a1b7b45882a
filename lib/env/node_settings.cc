#include "env/node_settings.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "base/log.h"

namespace sluice {
namespace {
using enum SettingType;
constexpr uint64_t kK = 1024;
constexpr uint64_t kM = 1024 * kK;
constexpr uint64_t kHourMs = uint64_t{3600} * 1000;

constexpr Setting kRows[] = {
    // name, type, default, group, help, unit, min, max, choices
    {"config", kString, "", "Node", "File with settings (TOML)", "FILE"},
    {"name", kString, "", "Node", "The node's name; empty: host name and process number", "NAME"},
    {"listen", kString, "127.0.0.1:0", "Node", "Where peers connect (TCP); port 0: any free one", "ADDR:PORT"},
    {"secret", kSecret, "", "Node", "Shared secret that both ends of a connection must have; empty: none", "TEXT"},
    {"log-level", kChoice, "warn", "Node", "Lines below it are dropped", "", 0, 0, "debug|info|warn|error|off"},

    {"transport", kChoice, "fabric_twosided", "Transport", "Protocol and driver", "", 0, 0,
     "loop|loop_twosided|fabric|fabric_twosided|rdma|rdma_twosided"},
    {"provider", kChoice, "auto", "Transport", "libfabric's provider; auto: the best that is here", "", 0, 0,
     "auto|efa|cxi|tcp;ofi_rxm|net|tcp|shm"},
    {"device", kList, "", "Transport",
     "Devices by name; one-sided transports take several, and without names every one that fits", "NAMES"},
    {"verify-crc", kBool, "false", "Transport", "CRC32C over each message's payload"},

    {"gid-index", kUint, "255", "RDMA", "Address of the port by its index; 255: chosen, and told", "index", 0, 255},
    {"rdma-mtu", kChoice, "auto", "RDMA", "Largest packet; auto: the port's; both ends take the smaller", "", 0, 0,
     "auto|256|512|1024|2048|4096"},
    {"ack-timeout", kUint, "16", "RDMA",
     "Wait for an acknowledgement: 4.096 us times 2 to the power of it; 0: for ever", "exponent", 0, 31},
    {"ack-retries", kUint, "6", "RDMA", "Then a path is broken; 7: for ever on some devices", "times", 0, 7},
    {"rnr-retries", kUint, "7", "RDMA", "Tries to reach a peer that posted no receive; 7: for ever", "times", 0, 7},
    {"rnr-timer", kUint, "12", "RDMA", "Wait between them, in the code of the InfiniBand specification; 12: 0.64 ms",
     "code", 0, 31},
    {"traffic-class", kUint, "0", "RDMA", "Of all packets over RoCE (DSCP and ECN)", "class", 0, 255},
    {"service-level", kUint, "0", "RDMA", "Of all packets over InfiniBand", "level", 0, 15},
    {"relaxed-ordering", kBool, "false", "RDMA", "The bus may reorder what the device writes"},

    {"workers", kUint, "1", "Cores", "Worker lcores", "lcores", 1, 64},
    {"cpus", kList, "", "Cores", "CPUs of the workers, such as 0-3,8; empty: any that the process may use", "CPUS"},
    {"idle", kChoice, "adaptive", "Cores", "busy: always poll; adaptive: pause, yield, then sleep", "", 0, 0,
     "busy|adaptive"},

    {"hugepages", kChoice, "auto", "Memory", "auto: when there are enough of them", "", 0, 0, "auto|on|off"},
    {"slot-size", kSize, "256k", "Memory", "Size of a bounce slot", "SIZE", 4 * kK, 4 * kM},
    {"ctrl-slot-size", kSize, "4k", "Memory", "Size of a control slot", "SIZE", 1 * kK, 64 * kK},
    {"rx-slots", kUint, "16", "Memory", "Receive slots per worker at the start", "slots", 1, 65536},
    {"rx-slots-min", kUint, "16", "Memory", "Receive slots that idle memory shrinks to", "slots", 1, 65536},
    {"rx-slots-max", kUint, "512", "Memory", "Receive slots that demand grows to", "slots", 1, 65536},
    {"extent-slots", kUint, "16", "Memory", "Slots by which bounce memory grows and shrinks", "slots", 1, 65536},
    {"tx-slots", kUint, "16", "Memory", "Send slots per worker", "slots", 1, 65536},
    {"shrink-idle-ms", kUint, "2000", "Memory", "Idle time after which bounce memory shrinks", "ms", 10, kHourMs},

    {"op-size", kSize, "1M", "Limits", "One-sided: the most that one operation moves", "SIZE", 4 * kK, 512 * kM},
    {"tx-depth", kUint, "0", "Limits", "Sends outstanding per queue; 0: what the device gives", "ops", 0, 65536},
    {"requests", kUint, "32", "Limits", "READ requests outstanding per session", "requests", 1, 4096},
    {"session-floor", kUint, "2", "Limits", "Slots guaranteed to each session", "slots", 1, 1024},
    {"max-peers", kUint, "1024", "Limits", "Peers at once", "peers", 1, 65535},
    {"max-tasks", kUint, "4096", "Limits", "Tasks and packs of tasks outstanding per worker", "tasks", 64, 1u << 20},
    {"port-ring", kUint, "2048", "Limits", "Entries of an application thread's rings", "entries", 16, 65536},

    {"heartbeat-ms", kUint, "250", "Times", "Between heartbeats", "ms", 10, 60000},
    {"lease-ms", kUint, "2000", "Times", "Without a heartbeat for so long, nothing is placed for a peer", "ms", 50,
     600000},
    {"connect-timeout-ms", kUint, "3000", "Times", "Deadline of a connect", "ms", 10, kHourMs},
    {"task-timeout-ms", kUint, "30000", "Times",
     "A task ends when it, and those before it to the same peer, have not moved for so long", "ms", 10, 24 * kHourMs},
    {"credit-probe-us", kUint, "200", "Times", "First wait of a task without credit before it asks again", "us", 10,
     100000},
};

// A CPU number, or "first-last".
bool parse_range(std::string_view item, std::vector<int>* cpus) {
  constexpr int kMaxCpu = 65535;
  int first = 0;
  const char* const end = item.data() + item.size();
  auto [at, error] = std::from_chars(item.data(), end, first);
  int last = first;
  if (error == std::errc{} && at != end && *at == '-') {
    const auto second = std::from_chars(at + 1, end, last);
    at = second.ptr;
    error = second.ec;
  }
  if (error != std::errc{} || at != end || first < 0 || last < first || last > kMaxCpu) return false;
  for (int cpu = first; cpu <= last; ++cpu) cpus->push_back(cpu);
  return true;
}
}  // namespace

SettingRows node_rows() noexcept { return kRows; }

Status parse_cpus(const std::vector<std::string>& items, std::vector<int>* cpus) {
  std::vector<int> parsed;
  for (const std::string& item : items)
    if (!parse_range(item, &parsed))
      return {Code::kBadArgument, "cpus = \"" + item + "\": give CPU numbers and ranges, such as 0-3,8"};
  *cpus = std::move(parsed);
  return Code::kOk;
}

Status read_node_settings(const Settings& settings, NodeSettings* out) {
  const auto u32 = [&](std::string_view name) { return static_cast<uint32_t>(settings.number(name)); };
  NodeSettings node{
      .name = settings.text("name"),
      .listen = settings.text("listen"),
      .transport = settings.text("transport"),
      .provider = settings.text("provider"),
      .secret = settings.text("secret"),
      .hugepages = settings.text("hugepages"),
      .log_level = settings.text("log-level"),
      .rdma_mtu =
          settings.text("rdma-mtu") == "auto" ? 0 : static_cast<uint32_t>(std::atoi(settings.text("rdma-mtu").c_str())),
      .gid_index = u32("gid-index"),
      .ack_timeout = u32("ack-timeout"),
      .ack_retries = u32("ack-retries"),
      .rnr_retries = u32("rnr-retries"),
      .rnr_timer = u32("rnr-timer"),
      .traffic_class = u32("traffic-class"),
      .service_level = u32("service-level"),
      .relaxed_ordering = settings.flag("relaxed-ordering"),
      .devices = settings.list("device"),
      .cpus = {},
      .adaptive_idle = settings.text("idle") == "adaptive",
      .verify_crc = settings.flag("verify-crc"),
      .workers = u32("workers"),
      .slot_bytes = u32("slot-size"),
      .ctrl_slot_bytes = u32("ctrl-slot-size"),
      .rx_slots = u32("rx-slots"),
      .rx_slots_min = u32("rx-slots-min"),
      .rx_slots_max = u32("rx-slots-max"),
      .extent_slots = u32("extent-slots"),
      .tx_slots = u32("tx-slots"),
      .op_bytes = u32("op-size"),
      .tx_depth = u32("tx-depth"),
      .requests = u32("requests"),
      .session_floor = u32("session-floor"),
      .heartbeat_ms = u32("heartbeat-ms"),
      .lease_ms = u32("lease-ms"),
      .connect_timeout_ms = u32("connect-timeout-ms"),
      .task_timeout_ms = u32("task-timeout-ms"),
      .credit_probe_us = u32("credit-probe-us"),
      .shrink_idle_ms = u32("shrink-idle-ms"),
      .max_peers = u32("max-peers"),
      .max_tasks = u32("max-tasks"),
      .port_ring = u32("port-ring"),
  };
  Status status = parse_cpus(settings.list("cpus"), &node.cpus);
  if (status.ok()) status = validate(node);
  if (status.ok()) *out = std::move(node);
  return status;
}

Status validate(const NodeSettings& node) {
  std::string lines;
  const auto need = [&lines](bool holds, std::string_view small, uint64_t a, std::string_view law,
                             std::string_view large, uint64_t b) {
    if (holds) return;
    lines.append(lines.empty() ? "" : "\n").append(small).append(" = ").append(std::to_string(a));
    lines.append(" and ").append(large).append(" = ").append(std::to_string(b)).append(": ").append(law);
  };
  need(node.lease_ms > 2ull * node.heartbeat_ms, "lease-ms", node.lease_ms,
       "a lease must be longer than two heartbeats; raise lease-ms or lower heartbeat-ms", "heartbeat-ms",
       node.heartbeat_ms);
  need(node.rx_slots_min <= node.rx_slots, "rx-slots-min", node.rx_slots_min,
       "rx-slots must not be below its floor; lower rx-slots-min or raise rx-slots", "rx-slots", node.rx_slots);
  need(node.rx_slots <= node.rx_slots_max, "rx-slots", node.rx_slots,
       "rx-slots must not be above its ceiling; lower rx-slots or raise rx-slots-max", "rx-slots-max",
       node.rx_slots_max);
  need(node.session_floor <= node.rx_slots_min, "session-floor", node.session_floor,
       "one session's floor must fit in the least memory; lower session-floor or raise rx-slots-min", "rx-slots-min",
       node.rx_slots_min);
  need(node.cpus.empty() || node.cpus.size() == node.workers, "workers", node.workers,
       "cpus must name one CPU for each worker, or be empty", "the number of cpus", node.cpus.size());
  if (lines.empty()) return Code::kOk;
  return {Code::kBadArgument, std::move(lines)};
}

Status load_node_settings(std::string_view program, std::string_view about, const std::vector<std::string>& words,
                          Settings* settings, NodeSettings* node, std::string* help) {
  Status status = settings->parse_command_line(program, about, words, help);
  if (!status.ok() || !help->empty()) return status;
  if (const std::string& file = settings->text("config"); !file.empty()) status = settings->parse_file(file);
  if (status.ok()) status = read_node_settings(*settings, node);
  LogLevel level;
  if (!status.ok() || !parse_log_level(node->log_level, &level)) return status;
  set_log_level(level);
  const std::string lines = settings->effective();
  for (size_t from = 0, to; (to = lines.find('\n', from)) != std::string::npos; from = to + 1)
    log_debug("settings", std::string_view(lines).substr(from, to - from));
  return status;
}

void split_words(int argc, const char* const* argv, std::vector<std::string>* eal, std::vector<std::string>* own) {
  eal->clear();
  own->clear();
  int parting = 0;
  for (int i = 1; i < argc && parting == 0; ++i)
    if (std::strcmp(argv[i], "--") == 0) parting = i;
  for (int i = 1; i < argc; ++i) {
    if (i == parting) continue;
    (i < parting ? eal : own)->emplace_back(argv[i]);
  }
}

}  // namespace sluice
