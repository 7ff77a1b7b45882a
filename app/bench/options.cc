#include "options.h"

#include "modes.h"
#include "wire.h"

namespace sluice::bench {
namespace {
using enum SettingType;
constexpr uint64_t kG = 1ull << 30;

constexpr Setting kRows[] = {
    // name, type, default, group, help, unit, min, max, choices
    {"self", kBool, "false", "Bench", "Start a target as a child, run against it, stop it"},
    {"target", kBool, "false", "Bench", "Be the target: serve at --listen until SIGTERM or SIGINT"},
    {"peer", kString, "", "Bench", "Run against the target there", "ADDR:PORT"},
    {"list", kBool, "false", "Bench", "List the transport's devices and end"},
    {"mode", kChoice, "xfer", "Bench", "What is run", "", 0, 0, kModeNames},
    {"op", kChoice, "write", "Bench", "Direction, of mode kv push or pull; both: one batch after another", "", 0, 0,
     "write|read|both"},
    {"block", kList, "64k", "Bench", "Bytes of a task, or of a notify; several: one run after another", "SIZE"},
    {"batch", kUint, "8", "Bench", "Tasks of a batch", "tasks", 1, 65536},
    {"depth", kUint, "4", "Bench", "Batches, or requests of mode kv, in flight of each generator", "batches", 1,
     kMaxRanges},
    {"threads", kUint, "0", "Bench", "0: generate on the worker's lcore; N: N threads with ports of their own",
     "threads", 0, kMaxGenerators},
    {"seconds", kUint, "2", "Bench", "Timed window of each run", "s", 1, 86400},
    {"count", kUint, "0", "Bench", "Tasks of each run, in whole batches; 0: by --seconds", "tasks", 0, 1ull << 40},
    {"verify", kBool, "true", "Bench", "Check what arrived; --no-verify: do not"},
    {"json", kBool, "false", "Bench", "One JSON object for each run, and nothing else on stdout"},
    {"segment-size", kSize, "256M", "Bench", "Memory that --target exports", "SIZE", 64 * 1024, 1024 * kG},
};

Status one_role(const BenchOptions& o) {
  const int roles = int{o.self} + int{o.target} + int{!o.peer.empty()};
  if (o.list) return Code::kOk;
  if (roles > 1) return {Code::kBadArgument, "--self, --target and --peer exclude each other: give one of them"};
  if (roles == 0 && o.mode != "submit")
    return {Code::kBadArgument, "nothing to run against: give --self, or --peer ADDR:PORT, or be one with --target"};
  return Code::kOk;
}

Status read_blocks(const Settings& settings, std::vector<uint64_t>* blocks) {
  static constexpr Setting kBlock{"block", kSize, "", "", "", "", 1, 64 * kG, ""};
  for (const std::string& item : settings.list("block")) {
    uint64_t bytes = 0;
    if (Status s = check_setting(kBlock, item, &bytes); !s.ok()) return s;
    blocks->push_back(bytes);
  }
  if (blocks->empty()) return {Code::kBadArgument, "block is empty: give a size, such as 64k, or several: 4k,1M"};
  return Code::kOk;
}
}  // namespace

SettingRows bench_rows() noexcept { return kRows; }

std::string_view bench_about() noexcept {
  return "Measure how two Sluice nodes move blocks and notifies.\n"
         "  sluice-bench --self ...                          both halves on this host\n"
         "  sluice-bench --target --listen ADDR:PORT ...     one half, and\n"
         "  sluice-bench --peer ADDR:PORT ...                the other\n"
         "EAL options go before a lone --:  sluice-bench [EAL options] -- ...\n"
         "extents: bounce memory of the node that received, which is the target, or with --op read this one.\n"
         "Verification: contents differ by address, task and round. Outside the timed window (after the warm-up, and\n"
         "after each slice of at most half a second) every byte that the last round of each range moved is compared "
         "by\n"
         "the side that received it: writes by the target's process, reads here. Of notifies each is counted, in "
         "order,\n"
         "and compared by the target.";
}

Status read_bench_options(const Settings& settings, BenchOptions* out) {
  BenchOptions o{};
  o.self = settings.flag("self");
  o.target = settings.flag("target");
  o.list = settings.flag("list");
  o.json = settings.flag("json");
  o.verify = settings.flag("verify");
  o.peer = settings.text("peer");
  o.mode = settings.text("mode");
  o.op_name = settings.text("op");
  o.op = o.op_name == "write" ? Op::kWrite : o.op_name == "read" ? Op::kRead : Op::kBoth;
  o.batch = static_cast<uint32_t>(settings.number("batch"));
  o.depth = static_cast<uint32_t>(settings.number("depth"));
  o.threads = static_cast<uint32_t>(settings.number("threads"));
  o.seconds = static_cast<uint32_t>(settings.number("seconds"));
  o.count = settings.number("count");
  o.segment_bytes = settings.number("segment-size");
  o.default_blocks = settings.source("block") == "default";
  o.default_batch = settings.source("batch") == "default";
  if (Status s = read_blocks(settings, &o.blocks); !s.ok()) return s;
  if (o.mode == "kv") {
    if (!o.default_blocks || !o.default_batch)
      return {Code::kBadArgument, std::string(o.default_blocks ? "batch" : "block") +
                                      ": mode kv takes it from the model; give --kv-page, --kv-tokens and the like"};
    if (Status s = read_kv_shape(settings, &o.kv); !s.ok()) return s;
    o.blocks = {o.kv.block};
    o.batch = o.kv.descriptors;
  }
  if (Status s = one_role(o); !s.ok()) return s;
  if (uint64_t{o.depth} * std::max(1u, o.threads) > kMaxRanges)
    return {Code::kBadArgument, "depth = " + std::to_string(o.depth) + " and threads = " + std::to_string(o.threads) +
                                    ": at most " + std::to_string(kMaxRanges) +
                                    " batches may be in flight together; lower one of them"};
  *out = std::move(o);
  return Code::kOk;
}

}  // namespace sluice::bench
