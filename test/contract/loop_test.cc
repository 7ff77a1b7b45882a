// What only the loop driver promises: its counters, its files, and what it survives of a lying peer.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <thread>

#include "loop/queue.h"
#include "side.h"
#include "xport/registry.h"

namespace sluice::contract {
namespace {

constexpr PathId kPath{0};

class Loop : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(open_row(rows()[0], {}, &driver_, &device_).ok()); }

  static const LoopCounters& counters(Side& side) { return static_cast<LoopQueue&>(side.queue()).counters(); }
  static void join(Side& a, Side& b) {
    a.connect(kPath, b.address());
    b.connect(kPath, a.address());
  }
  static LoopAddress whose(const Side& side) {
    LoopAddress out;
    EXPECT_TRUE(parse_loop_address(side.address(), &out).ok());
    return out;
  }
  /// The ring through which @p writer sends to @p reader, as a peer that misbehaves would map it.
  static Ring tamper(const Side& reader, const Side& writer) {
    Ring ring;
    EXPECT_EQ(Ring::open(Ring::name(whose(reader), whose(writer)), whose(reader), &ring), Code::kOk);
    return ring;
  }
  static size_t files_of(pid_t pid) {
    size_t n = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
      n += entry.path().filename().string().starts_with("sluice-loop-" + std::to_string(pid) + "-");
    return n;
  }

  std::unique_ptr<Driver> driver_;
  std::unique_ptr<Device> device_;
};

TEST_F(Loop, SenderAndReceiverMayBeDifferentThreads) {
  Side a(*device_), b(*device_);
  join(a, b);
  constexpr size_t kTotal = 20000;
  std::thread sender([&] {
    EXPECT_TRUE(wait_for(
        {&a},
        [&] {
          if (a.accepted() < kTotal) a.send_burst(kPath, kMaxBurst, 64, a.accepted());
          return a.accepted() >= kTotal && a.outstanding() == 0 && a.inbox().size() >= kTotal;
        },
        std::chrono::seconds(60)));
  });
  EXPECT_TRUE(wait_for(
      {&b},
      [&] {
        if (b.accepted() < kTotal) b.send_burst(kPath, kMaxBurst, 64, b.accepted());
        return b.accepted() >= kTotal && b.outstanding() == 0 && b.inbox().size() >= kTotal;
      },
      std::chrono::seconds(60)));
  sender.join();
  for (size_t i = 0; i < kTotal; ++i) ASSERT_EQ(b.inbox()[i], pattern(64, i)) << i;
  for (size_t i = 0; i < kTotal; ++i) ASSERT_EQ(a.inbox()[i], pattern(64, i)) << i;
}

TEST_F(Loop, CountsWhyItWaits) {
  Side a(*device_), b(*device_, {.rx_depth = 8, .receives = false});
  a.connect(kPath, b.address());
  EXPECT_FALSE(a.send(kPath, pattern(64, 1))) << "the peer has not connected yet";
  EXPECT_EQ(counters(a).peer_not_here, 1u);
  b.connect(kPath, a.address());
  EXPECT_EQ(a.send_burst(kPath, kMaxBurst, 64, 1), 0u) << "the ring is looked for at each 16th refusal only";
  ASSERT_TRUE(wait_for({&a}, [&] { return a.send_burst(kPath, kMaxBurst, 64, 1) != 0; }));
  EXPECT_EQ(a.accepted(), 8u) << "a ring has as many cells as its reader has receives";
  EXPECT_EQ(counters(a).ring_full, 1u);
  b.turn();
  EXPECT_EQ(counters(b).no_receive, 1u);
  b.set_receives(true);
  ASSERT_TRUE(wait_for({&a, &b}, [&] { return b.inbox().size() == 8; }));
}

TEST_F(Loop, MessageTooLongForItsReceiveFailsThatReceiveOnly) {
  Side a(*device_), b(*device_, {.receives = false});
  join(a, b);
  std::array<std::byte, 64> small;
  const RecvBuf buf{.addr = small.data(), .desc = 0, .cookie = 5, .bytes = 64};
  ASSERT_EQ(b.queue().refill({&buf, 1}), 1u);
  ASSERT_EQ(b.queue().refill({&buf, 1}), 1u);
  ASSERT_TRUE(a.send(kPath, pattern(65, 1)));
  ASSERT_TRUE(a.send(kPath, pattern(64, 1)));
  std::array<Completion, 4> got;
  ASSERT_EQ(b.queue().poll(got), 2u);
  EXPECT_EQ(got[0].code, Code::kBadArgument);
  EXPECT_EQ(got[1].code, Code::kOk);
  EXPECT_EQ(got[1].bytes, 64u);
}

TEST_F(Loop, RecallGivesTheNamedReceivesBack) {
  Side a(*device_, {.rx_depth = 8, .receives = false});
  std::array<std::byte, 64> memory;
  for (uint64_t cookie = 1; cookie <= 8; ++cookie) {
    const RecvBuf buf{.addr = memory.data(), .desc = 0, .cookie = cookie, .bytes = 64};
    ASSERT_EQ(a.queue().refill({&buf, 1}), 1u);
  }
  const uint64_t wanted[] = {2, 7, 99};
  EXPECT_EQ(a.queue().recall(wanted), 2u);
  std::array<Completion, 8> got;
  ASSERT_EQ(a.queue().poll(got), 2u);
  EXPECT_EQ(got[0].cookie + got[1].cookie, 9u);
  EXPECT_EQ(got[0].code, Code::kCancelled);
  a.queue().shutdown();
  EXPECT_EQ(a.queue().poll(got), 6u);
}

TEST_F(Loop, OpsToAQueueThatIsGoneEndWithPeerDead) {
  Side a(*device_);
  {
    Side b(*device_);
    join(a, b);
    ASSERT_TRUE(a.send(kPath, pattern(64, 1)));
  }
  ASSERT_TRUE(a.send(kPath, pattern(64, 2)));
  ASSERT_TRUE(wait_for({&a}, [&] { return a.outstanding() == 0; }));
  EXPECT_EQ(a.ended(Code::kOk), 1u);
  EXPECT_EQ(a.ended(Code::kPeerDead), 1u);
}

TEST_F(Loop, LyingWriterEndsItsPathOnly) {
  Side victim(*device_), liar(*device_), honest(*device_);
  join(victim, liar);
  victim.connect(PathId{1}, honest.address());
  honest.connect(kPath, victim.address());
  {
    const Ring ring = tamper(victim, liar);
    ring.head().tail.store(uint64_t{1} << 40);
  }
  victim.turn();
  EXPECT_EQ(counters(victim).bad_peer, 1u);
  ASSERT_TRUE(victim.send(kPath, pattern(64, 1)));
  victim.turn();
  EXPECT_EQ(victim.ended(Code::kDeviceError), 1u);

  const Ring ring = tamper(victim, honest);
  ring.cell(0).bytes.store(1u << 30);
  ring.head().tail.store(1);
  victim.turn();
  EXPECT_EQ(counters(victim).bad_peer, 2u);
  EXPECT_EQ(victim.posted_receives(), victim.queue().depth().rx) << "no receive was spent on what did not arrive";
}

TEST_F(Loop, LyingReaderEndsItsPathOnly) {
  Side victim(*device_), liar(*device_, {.rx_depth = 4, .receives = false});
  join(victim, liar);
  const Ring ring = tamper(liar, victim);
  while (victim.send(kPath, pattern(64, 1))) continue;
  ring.head().head.store(uint64_t{1} << 40);
  ASSERT_TRUE(victim.send(kPath, pattern(64, 1)));
  ASSERT_TRUE(wait_for({&victim}, [&] { return victim.outstanding() == 0; }));
  EXPECT_EQ(victim.ended(Code::kDeviceError), 1u);
}

TEST_F(Loop, FilesGoWithTheirQueue) {
  const size_t before = files_of(getpid());
  {
    Side a(*device_), b(*device_);
    join(a, b);
    EXPECT_EQ(files_of(getpid()), before + 2);
    EXPECT_EQ(a.queue().close(kPath), Code::kOk);
    EXPECT_EQ(files_of(getpid()), before + 1);
  }
  EXPECT_EQ(files_of(getpid()), before);
}

TEST_F(Loop, ProbeRemovesFilesOfEndedProcesses) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  const std::string name = "/dev/shm/sluice-loop-" + std::to_string(child) + "-1-2";
  const std::string foreign = "/dev/shm/sluice-loop-x-" + std::to_string(child);
  std::ofstream(name) << "left behind";
  std::ofstream(foreign) << "not a ring";
  Side a(*device_), b(*device_);
  join(a, b);
  // A ring of this very pid, but of a process that started at another time.
  LoopAddress earlier = whose(a);
  earlier.start_time += 1;
  earlier.queue_id += 1;
  const std::string reused = Ring::name(earlier, whose(b));
  Ring ring;
  ASSERT_TRUE(Ring::create(reused, earlier, 4, &ring).ok());

  std::vector<DeviceInfo> infos;
  EXPECT_TRUE(driver_->probe("", &infos).ok());  // the child is a zombie: it counts as ended
  EXPECT_FALSE(std::filesystem::exists(name));
  EXPECT_FALSE(std::filesystem::exists(reused));
  EXPECT_TRUE(std::filesystem::exists(foreign));
  EXPECT_EQ(files_of(getpid()), 2u) << "a living process lost its rings";
  std::filesystem::remove(foreign);
  waitpid(child, nullptr, 0);
}

TEST_F(Loop, RefusesWhatItDoesNotHave) {
  std::vector<DeviceInfo> infos;
  EXPECT_EQ(driver_->probe("tcp", &infos).code(), Code::kNotFound);
  DeviceInfo info;
  info.name = "mlx5_0";
  std::unique_ptr<Device> device;
  EXPECT_EQ(driver_->open(info, {}, &device).code(), Code::kNotFound);
  std::unique_ptr<Queue> queue;
  EXPECT_EQ(device_->open_queue({}, &queue).code(), Code::kBadArgument) << "no message size was given";
  std::unique_ptr<Driver> driver;
  EXPECT_EQ(make_driver("nosuch", &driver).code(), Code::kNotFound);
}

}  // namespace
}  // namespace sluice::contract
