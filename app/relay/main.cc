// sluice-relay: a node as a process. It exports memory under names, and serves until SIGTERM or SIGINT.
#include <cstdio>

#include "engine/engine.h"
#include "env/node_settings.h"
#include "program/device_list.h"
#include "program/stop_signal.h"

namespace sluice::relay {
namespace {
using enum SettingType;
constexpr int kFailed = 1, kUsage = 2;
constexpr long kNapNs = 50'000'000;
constexpr uint64_t kMaxDrainMs = 3'600'000;
constexpr uint64_t kMaxSegment = 1ull << 44;
constexpr size_t kTake = 256;

constexpr Setting kRows[] = {
    // name, type, default, group, help, unit, min, max, choices
    {"segment", kList, "", "Relay", "Memory to export; repeated: more. The same name again: its next buffer",
     "NAME=SIZE"},
    {"drain-ms", kUint, "5000", "Relay", "After SIGTERM, how long accepted work may take", "ms", 0, kMaxDrainMs},
    {"list", kBool, "false", "Relay", "List the transport's devices and end"},
};

constexpr std::string_view kAbout =
    "A Sluice node as a process: it exports memory that peers write and read.\n"
    "  sluice-relay --listen ADDR:PORT --name NAME --transport T --segment NAME=SIZE ...\n"
    "EAL options go before a lone --:  sluice-relay [EAL options] -- ...";

struct Segment {
  std::string name;
  uint64_t bytes = 0;
};

int complain(const Status& status, int exit_status) {
  std::fprintf(stderr, "sluice-relay: %s\n", status.text().empty() ? status.describe().c_str() : status.text().c_str());
  return exit_status;
}

Status parse_segments(const std::vector<std::string>& items, std::vector<Segment>* out) {
  static constexpr Setting kSize{"size", SettingType::kSize, "", "", "", "", 1, kMaxSegment, ""};
  for (const std::string& item : items) {
    const size_t equals = item.rfind('=');
    if (equals == std::string::npos || equals == 0)
      return {Code::kBadArgument, "segment = \"" + item + "\": give it as NAME=SIZE, such as kv=1G"};
    Segment segment{item.substr(0, equals), 0};
    if (Status s = check_setting(kSize, item.substr(equals + 1), &segment.bytes); !s.ok())
      return {s.code(), "segment '" + segment.name + "': " + s.text()};
    out->push_back(std::move(segment));
  }
  if (out->empty()) return {Code::kBadArgument, "segment: nothing to export; give at least one --segment NAME=SIZE"};
  return Code::kOk;
}

Status export_all(Engine& engine, const std::vector<Segment>& segments) {
  for (const Segment& segment : segments) {
    ManagedBuffer memory;
    Status s = engine.allocate_buffer(segment.bytes, &memory);
    if (s.ok()) s = engine.export_memory(segment.name, memory.memory);
    if (!s.ok()) return {s.code(), "segment '" + segment.name + "': " + (s.text().empty() ? s.describe() : s.text())};
  }
  return Code::kOk;
}

// Until a signal. Nobody reads notifies here: they are taken, so that senders are not held up.
void serve(Engine& engine, const StopSignal& signal) {
  std::vector<NotifyMessage> notifies;
  while (!signal.came(kNapNs)) {
    do {
      notifies.clear();
      (void)engine.take_notifies(kTake, &notifies).ok();
    } while (notifies.size() == kTake);
  }
}

int run_node(const NodeSettings& node, const std::vector<std::string>& eal, const std::vector<Segment>& segments,
             uint32_t drain_ms) {
  StopSignal signal;
  signal.hold();
  RunOptions run;
  run.eal_args = eal;
  std::unique_ptr<Engine> engine;
  if (Status s = Engine::start(node, run, &engine); !s.ok()) return complain(s, kFailed);
  if (Status s = export_all(*engine, segments); !s.ok()) return complain(s, kFailed);
  const TransportInfo info = engine->transport();
  std::printf("sluice-relay: ready %s at %s transport %s provider %s device %s (%s) segments %zu\n", node.name.c_str(),
              info.listen_address.c_str(), info.transport.c_str(), info.provider.empty() ? "-" : info.provider.c_str(),
              info.device.c_str(), info.device_address.c_str(), segments.size());
  (void)std::fflush(stdout);
  serve(*engine, signal);
  const NodeStats before = engine->stats();
  const Status stopped = engine->stop(drain_ms);
  if (!stopped.ok()) return complain(stopped, kFailed);
  std::printf("sluice-relay: stopped %s, nothing left; %u peers, %llu bytes received, %llu bytes sent\n",
              node.name.c_str(), before.peers, static_cast<unsigned long long>(before.bytes_received),
              static_cast<unsigned long long>(before.bytes_sent));
  return 0;
}

int run(int argc, char** argv) {
  std::vector<std::string> eal, own;
  split_words(argc, argv, &eal, &own);
  Settings settings({kRows, node_rows()});
  NodeSettings node;
  std::string help;
  Status status = load_node_settings("sluice-relay", kAbout, own, &settings, &node, &help);
  if (status.ok() && !help.empty()) return std::printf("%s", help.c_str()) < 0 ? kFailed : 0;
  if (!status.ok()) return complain(status, kUsage);
  if (settings.flag("list")) {
    status = print_devices(node);
    return status.ok() ? 0 : complain(status, kFailed);
  }
  std::vector<Segment> segments;
  status = parse_segments(settings.list("segment"), &segments);
  if (status.ok() && node.name.empty())
    status = {Code::kBadArgument, "name is empty: give --name NAME, by which peers know this node"};
  if (!status.ok()) return complain(status, kUsage);
  return run_node(node, eal, segments, static_cast<uint32_t>(settings.number("drain-ms")));
}
}  // namespace
}  // namespace sluice::relay

int main(int argc, char** argv) { return sluice::relay::run(argc, argv); }
