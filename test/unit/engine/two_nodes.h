// Two whole nodes in one process, over the loop driver, turned by hand: no lcore is launched and no time is waited for
// except by turning (but where a test asks for lcores).
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "env/node_settings.h"

namespace sluice::test {

struct Wire {
  const char* name;
  const char* transport;
  const char* provider;
  uint32_t workers_a = 1, workers_b = 1;
  bool crc = false;
};
inline constexpr Wire kWires[] = {{"loop", "loop_twosided", "auto"},
                                  {"tcp_rxm", "fabric_twosided", "tcp;ofi_rxm"},
                                  {"net", "fabric_twosided", "net"},
                                  {"shm", "fabric_twosided", "shm"},
                                  {"loop_2_2", "loop_twosided", "auto", 2, 2},
                                  {"loop_2_1", "loop_twosided", "auto", 2, 1},
                                  {"loop_crc", "loop_twosided", "auto", 1, 2, true},
                                  {"loop_onesided", "loop", "auto", 2, 2},
                                  {"tcp_rxm_onesided", "fabric", "tcp;ofi_rxm"},
                                  {"net_onesided", "fabric", "net"},
                                  {"shm_onesided", "fabric", "shm"}};

inline NodeSettings small_settings(const std::string& name) {
  NodeSettings s;
  EXPECT_TRUE(read_node_settings(Settings({node_rows()}), &s).ok());
  s.name = name;
  s.listen = "127.0.0.1:0";
  s.transport = "loop_twosided";
  s.slot_bytes = 16384;
  s.rx_slots = 64;
  s.rx_slots_min = 64;
  s.rx_slots_max = 256;
  s.extent_slots = 64;
  s.tx_slots = 64;
  s.hugepages = "off";
  s.max_peers = 16;
  return s;
}

class OneNode {
 public:
  Status start(const NodeSettings& settings, uint64_t segment_bytes = 0, bool own_lcores = false) {
    RunOptions run;
    run.own_lcores = own_lcores;
    if (Status s = Engine::start(settings, run, &engine); !s.ok()) return s;
    address = engine->transport().listen_address;
    if (segment_bytes == 0) return Code::kOk;
    if (Status s = engine->allocate_buffer(segment_bytes, &memory); !s.ok()) return s;
    return engine->export_memory("pool", memory.memory);
  }
  std::byte* at(uint64_t offset) const { return static_cast<std::byte*>(memory.addr) + offset; }

  std::unique_ptr<Engine> engine;
  ManagedBuffer memory;
  std::string address;
};

class TwoNodes : public ::testing::TestWithParam<Wire> {
 protected:
  static constexpr uint64_t kSegment = 4 << 20;

  void start(const std::function<void(NodeSettings&, NodeSettings&)>& adjust = {}) {
    NodeSettings a = small_settings("a");
    NodeSettings b = small_settings("b");
    a.transport = b.transport = GetParam().transport;
    a.provider = b.provider = GetParam().provider;
    a.workers = GetParam().workers_a;
    b.workers = GetParam().workers_b;
    a.verify_crc = b.verify_crc = GetParam().crc;
    if (adjust) adjust(a, b);
    Status s = a_.start(a, kSegment);
    ASSERT_TRUE(s.ok()) << s.describe();
    s = b_.start(b, kSegment);
    ASSERT_TRUE(s.ok()) << s.describe();
  }
  // b is turned by a thread of the test's while a call of a's blocks (it turns a itself).
  void connect() {
    std::atomic<bool> done{false};
    std::thread other([&] {
      while (!done.load()) (void)b_.engine->progress();
    });
    const Status s = a_.engine->open_segment(b_.address, "pool", &segment_);
    done = true;
    other.join();
    ASSERT_TRUE(s.ok()) << s.describe();
    ASSERT_TRUE(a_.engine->open_port(&port_).ok());
  }
  // Turn both until done() or the deadline.
  bool turn_until(const std::function<bool()>& done, int seconds = 20) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    while (!done()) {
      if (std::chrono::steady_clock::now() > until) return false;
      (void)a_.engine->progress();
      (void)b_.engine->progress();
      if (port_ != nullptr) (void)port_->poll();
    }
    return true;
  }
  BatchStatus status(BatchHandle batch) {
    BatchStatus s;
    EXPECT_EQ(port_->status(batch, &s), Code::kOk);
    return s;
  }
  void TearDown() override {
    std::atomic<bool> done{false};
    std::thread other([&] {
      while (!done.load() && b_.engine != nullptr) (void)b_.engine->progress();
    });
    port_.reset();
    if (a_.engine != nullptr) (void)a_.engine->stop(2000).ok();
    done = true;
    other.join();
    if (b_.engine != nullptr) (void)b_.engine->stop(2000).ok();
  }

  OneNode a_, b_;
  SegmentHandle segment_{};
  std::unique_ptr<Port> port_;
};

}  // namespace sluice::test
