#include "node.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "env/node_settings.h"

namespace sluice::func {

std::vector<std::string> words_of(const Wire& wire, const std::string& name, const Options& changes) {
  Options all{
      {"name", name},         {"listen", "127.0.0.1:0"}, {"transport", wire.transport}, {"provider", wire.provider},
      {"slot-size", "16k"},   {"rx-slots", "64"},        {"rx-slots-min", "64"},        {"rx-slots-max", "256"},
      {"extent-slots", "64"}, {"hugepages", "off"},      {"max-peers", "16"},           {"log-level", "error"}};
  if (const char* device = name == "here" ? wire.device : wire.peer_device; *device != 0) all["device"] = device;
  if (*wire.device != 0)  // in an emulated machine nobody is as punctual as elsewhere
    all.insert({{"heartbeat-ms", "2000"},
                {"lease-ms", "20000"},
                {"connect-timeout-ms", "30000"},
                {"task-timeout-ms", "60000"}});
  for (const auto& [key, value] : changes) all[key] = value;
  std::vector<std::string> words;
  for (const auto& [key, value] : all) words.push_back("--" + key + "=" + value);
  return words;
}

void fill(std::byte* at, uint64_t length, uint64_t seed) {
  for (uint64_t i = 0; i < length; i += 8) {
    uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15u + i;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    std::memcpy(at + i, &x, std::min<uint64_t>(8, length - i));
  }
}

std::vector<Wire> in_machine(std::initializer_list<Wire> wires) {
  return std::getenv("SLUICE_VERBS_TESTS") == nullptr ? std::vector<Wire>{} : std::vector<Wire>(wires);
}

double patience() {
  const char* times = std::getenv("SLUICE_TEST_PATIENCE");
  return times == nullptr ? 1 : std::max(1, std::atoi(times));
}

bool wait_for(double seconds, const std::function<bool()>& done) {
  const double until = now_seconds() + seconds * patience();
  while (!done()) {
    if (now_seconds() > until) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

size_t open_fds() {
  std::error_code error;
  const std::filesystem::directory_iterator all("/proc/self/fd", error);
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

Status TestNode::start(const std::vector<std::string>& words, bool own_lcores) {
  Settings settings({node_rows()});
  NodeSettings node;
  std::string help;
  if (Status s = load_node_settings("func", "", words, &settings, &node, &help); !s.ok()) return s;
  RunOptions run;
  run.own_lcores = own_lcores;
  if (Status s = Engine::start(node, run, &engine); !s.ok()) return s;
  if (Status s = engine->allocate_buffer(kSegment, &memory); !s.ok()) return s;
  if (Status s = engine->export_memory("pool", memory.memory); !s.ok()) return s;
  if (Status s = engine->open_port(&port); !s.ok()) return s;
  address = engine->transport().listen_address;
  return Code::kOk;
}

void TestNode::stop() {
  port.reset();
  if (engine != nullptr) (void)engine->stop(2000).ok();
  engine.reset();
}

bool TestNode::finish(BatchHandle batch, double seconds) {
  return wait_for(seconds, [&] {
    (void)port->poll();
    return status(batch).final;
  });
}

BatchStatus TestNode::status(BatchHandle batch) const {
  BatchStatus s;
  (void)port->status(batch, &s);
  return s;
}

BatchHandle TestNode::submit(TransferOp op, SegmentHandle to, uint64_t offset, uint64_t length, uint64_t piece,
                             uint32_t times) {
  std::vector<Request> requests;
  for (uint32_t t = 0; t < times; ++t)
    for (uint64_t i = 0; i < length; i += piece)
      requests.push_back({op, 0, at(offset + i), to, offset + i, std::min(piece, length - i)});
  BatchHandle batch{};
  last_code = port->allocate_batch(static_cast<uint32_t>(requests.size()), &batch);
  if (last_code == Code::kOk) last_code = port->submit(batch, requests);
  return batch;
}

bool TestNode::move(TransferOp op, SegmentHandle to, uint64_t offset, uint64_t length, uint64_t piece, double seconds) {
  const BatchHandle batch = submit(op, to, offset, length, piece);
  const bool done = last_code == Code::kOk && finish(batch, seconds) && status(batch).ok();
  if (last_code == Code::kOk)
    if (const std::vector<Code> codes = failures(batch); !codes.empty()) last_code = codes[0];
  return port->release(batch) == Code::kOk && done;
}

std::vector<Code> TestNode::failures(BatchHandle batch) const {
  std::vector<Code> codes;
  const uint32_t tasks = status(batch).tasks;
  for (uint32_t i = 0; i < tasks; ++i) {
    TaskStatus task;
    if (port->status(batch, i, &task) == Code::kOk && task.state == TaskState::kFailed &&
        std::find(codes.begin(), codes.end(), task.code) == codes.end())
      codes.push_back(task.code);
  }
  return codes;
}

}  // namespace sluice::func
