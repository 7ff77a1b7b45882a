// Every public call from threads of its own, side by side, on a node with lcores, while its peer comes and goes. What
// counts is what the sanitizers say; and that everything ends, with a status that fits.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "env/eal.h"
#include "env/eal_args.h"
#include "two_nodes.h"

namespace sluice::test {
namespace {
using Clock = std::chrono::steady_clock;

// EAL is one for a process, and the first node starts it: with lcores, for the tests here.
class Lcores : public testing::Environment {
 public:
  void SetUp() override {
    EalOptions options;
    options.hugepages = HugePolicy::kOff;
    const std::vector<int> cpus = read_eal_facts().allowed_cpus;
    for (size_t i = 0; i < 2; ++i) options.worker_cpus.push_back(cpus[i % cpus.size()]);
    ASSERT_TRUE(start_eal(options).ok());
  }
};
[[maybe_unused]] const testing::Environment* const kLcores = testing::AddGlobalTestEnvironment(new Lcores);

class Threads : public testing::Test {
 protected:
  static constexpr uint64_t kSegment = 1 << 20;
  static constexpr int kPorts = 4, kLives = 3;
  static constexpr auto kLife = std::chrono::milliseconds(600);

  static NodeSettings settings(const char* name) {
    NodeSettings s = small_settings(name);
    s.heartbeat_ms = 20;
    s.lease_ms = 200;
    s.task_timeout_ms = 500;
    s.connect_timeout_ms = 500;
    return s;
  }
  // One life of the peer: a node that a thread turns until its time is over.
  void live() {
    OneNode peer;
    const Status s = peer.start(settings("peer"), kSegment);
    ASSERT_TRUE(s.ok()) << s.describe();
    {
      const std::lock_guard lock(lock_);
      address_ = peer.address;
    }
    std::vector<NotifyMessage> got;
    for (const auto until = Clock::now() + kLife; Clock::now() < until;) {
      if (peer.engine->progress() == 0) std::this_thread::yield();
      (void)peer.engine->take_notifies(64, &got).ok();
      notifies_ += got.size();
      got.clear();
    }
    (void)peer.engine->stop(200).ok();
  }
  std::string address() {
    const std::lock_guard lock(lock_);
    return address_;
  }
  bool open(SegmentHandle* segment) { return here_.engine->open_segment(address(), "pool", segment).ok(); }

  // Writes, reads, notifies and cancels, over the peer's lives.
  void use_port(uint64_t number) {
    std::unique_ptr<Port> port;
    ASSERT_TRUE(here_.engine->open_port(&port).ok());
    std::byte* mine = here_.at(number * (kSegment / kPorts));
    SegmentHandle segment{};
    for (uint32_t round = 0; !end_; ++round) {
      if (segment == SegmentHandle{} && !open(&segment)) continue;
      BatchHandle batch;
      ASSERT_EQ(port->allocate_batch(4, &batch), Code::kOk);
      std::array<Request, 4> requests;
      for (uint32_t i = 0; i < 4; ++i)
        requests[i] = {i % 2 == 0 ? TransferOp::kWrite : TransferOp::kRead,
                       0,
                       mine + i * 40'000,
                       segment,
                       number * (kSegment / kPorts) + i * 40'000,
                       1 + (round * 977 + i * 13'000) % 40'000};
      const Code code = port->submit(batch, requests);
      if (code == Code::kOk && round % 4 == 0) (void)port->attach_notify(batch, segment, "n", "m");
      if (code == Code::kOk && round % 16 == 7) (void)port->cancel(batch);
      BatchStatus status;
      const auto until = Clock::now() + std::chrono::seconds(20);
      while (port->poll(), port->status(batch, &status) == Code::kOk && !status.final) {
        ASSERT_LT(Clock::now(), until) << "a batch hangs: " << status.done << " of " << status.tasks;
        std::this_thread::yield();
      }
      done_ += status.done;
      ASSERT_EQ(port->release(batch), Code::kOk);
      if (code == Code::kOk && status.failed == 0) continue;
      (void)here_.engine->close_segment(segment).ok();
      segment = {};
    }
  }
  void register_memory() {
    std::vector<std::byte> memory(1 << 16);
    while (!end_) {
      MemoryHandle handle{};
      ASSERT_TRUE(here_.engine->register_memory(memory.data(), memory.size(), &handle).ok());
      ASSERT_TRUE(here_.engine->export_memory("passing", handle).ok());
      EXPECT_EQ(here_.engine->unregister_memory(handle).code(), Code::kBusy);
      ASSERT_TRUE(here_.engine->withdraw_segment("passing").ok());
      ASSERT_TRUE(here_.engine->unregister_memory(handle).ok());
      ++registrations_;
    }
  }
  void open_and_close() {
    while (!end_) {
      SegmentHandle segment{};
      if (!open(&segment)) continue;
      SegmentInfo info;
      if (here_.engine->segment_info(segment, &info).ok()) {
        EXPECT_EQ(info.name, "pool");
      }
      (void)here_.engine->send_notify(segment, "x", "y").ok();
      (void)here_.engine->close_segment(segment).ok();
      ++opens_;
    }
  }
  void ask_stats() {
    std::vector<NotifyMessage> got;
    while (!end_) {
      const NodeStats s = here_.engine->stats();
      EXPECT_EQ(s.lost_messages, 0u);
      EXPECT_FALSE(here_.engine->transport().listen_address.empty());
      here_.engine->restart_peaks();
      (void)here_.engine->take_notifies(8, &got).ok();
      std::this_thread::yield();
    }
  }

  OneNode here_;
  std::mutex lock_;
  std::string address_;
  std::atomic<bool> end_{false};
  std::atomic<uint64_t> done_{0}, registrations_{0}, opens_{0}, notifies_{0};
};

TEST_F(Threads, EveryCallFromItsOwnThreadWhileThePeerComesAndGoes) {
  ASSERT_TRUE(here_.start(settings("here"), kSegment, true).ok());
  std::vector<std::thread> threads;
  std::thread first([this] { live(); });
  while (address().empty()) std::this_thread::yield();
  for (uint64_t i = 0; i < kPorts; ++i) threads.emplace_back([this, i] { use_port(i); });
  threads.emplace_back([this] { register_memory(); });
  threads.emplace_back([this] { open_and_close(); });
  threads.emplace_back([this] { ask_stats(); });
  first.join();
  for (int i = 1; i < kLives && !HasFailure(); ++i) live();
  end_ = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(done_.load(), 0u);
  EXPECT_GT(opens_.load(), 0u);
  EXPECT_GT(registrations_.load(), 0u);
  EXPECT_EQ(here_.engine->stats().tasks_open, 0u);
  EXPECT_TRUE(here_.engine->stop(2000).ok());
}

}  // namespace
}  // namespace sluice::test
