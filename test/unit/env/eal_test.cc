#include "env/eal.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <rte_eal.h>
#include <sched.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "env/eal_args.h"

namespace sluice {
namespace {

struct ThreadFacts {
  cpu_set_t cpus;
  sigset_t mask;
  std::array<char, 16> name;
  std::array<struct sigaction, 32> handlers;
};

ThreadFacts read_thread() {
  ThreadFacts facts;
  std::memset(&facts, 0, sizeof facts);
  ::sched_getaffinity(0, sizeof facts.cpus, &facts.cpus);
  ::pthread_sigmask(SIG_BLOCK, nullptr, &facts.mask);
  ::pthread_getname_np(::pthread_self(), facts.name.data(), facts.name.size());
  for (int signal = 1; signal < 32; ++signal) ::sigaction(signal, nullptr, &facts.handlers[signal]);
  return facts;
}

// An embedding program has started EAL: ours adopts it. In a process of its own, as one process has one EAL; suites
// called DeathTest run first.
int adopt() {
  std::array<const char*, 7> words{"embedder",       "--no-huge",         "--no-shconf",   "--no-pci",
                                   "--no-telemetry", "--log-level=error", "--lcores=0,1@0"};
  if (rte_eal_init(static_cast<int>(words.size()), const_cast<char**>(words.data())) < 0) return 1;
  if (!start_eal({.worker_cpus = {0, 0, 0}}).ok()) return 2;
  if (!eal_state().up || !eal_state().taken_over || eal_state().hugepages) return 3;
  if (worker_lcores() != std::vector<unsigned>{1}) return 4;
  int ran = 0;
  if (!launch(1, [&] { ran = 1; }).ok()) return 5;
  join(1);
  return ran == 1 ? 0 : 6;
}

TEST(EalDeathTest, UsesAnEalThatIsAlreadyUp) { EXPECT_EXIT(std::_Exit(adopt()), testing::ExitedWithCode(0), ""); }

TEST(EalDeathTest, SaysWhatItTriedWhenEalRefuses) {
  EXPECT_EXIT(
      {
        const Status status = start_eal({.user_args = {"--no-such-option"}});
        std::fputs(status.text().c_str(), stderr);
        std::_Exit(static_cast<int>(status.code()));
      },
      testing::ExitedWithCode(static_cast<int>(Code::kBadArgument)), "EAL does not start .* with .*--no-such-option");
}

// One process has one EAL, so this is one story.
TEST(Eal, StartsBesideTheCallerAndRunsBodiesOnWorkers) {
  const int cpu = read_eal_facts().allowed_cpus.front();

  // What EAL refuses can be corrected and tried again.
  EXPECT_EQ(start_eal({.worker_cpus = {100000}}).code(), Code::kBadArgument);
  EXPECT_FALSE(eal_state().up);

  const ThreadFacts before = read_thread();
  const Status status = start_eal({.worker_cpus = {cpu, cpu}, .hugepages = HugePolicy::kOff});
  ASSERT_TRUE(status.ok()) << status.text();
  const ThreadFacts after = read_thread();
  EXPECT_TRUE(CPU_EQUAL(&before.cpus, &after.cpus));
  EXPECT_EQ(std::memcmp(&before.mask, &after.mask, sizeof before.mask), 0);
  EXPECT_STREQ(before.name.data(), after.name.data());
  for (size_t i = 1; i < before.handlers.size(); ++i)
    EXPECT_EQ(before.handlers[i].sa_handler, after.handlers[i].sa_handler) << "signal " << i;
  EXPECT_TRUE(eal_state().up);
  EXPECT_FALSE(eal_state().taken_over);
  EXPECT_FALSE(eal_state().hugepages);
  EXPECT_TRUE(start_eal({}).ok());  // up already

  const auto lcores = worker_lcores();
  ASSERT_EQ(lcores.size(), 2u);  // two lcores on one CPU
  std::atomic<bool> go{false};
  std::atomic<int> done{0};
  cpu_set_t cpus;
  sigset_t mask;
  const auto body = [&] {
    ::sched_getaffinity(0, sizeof cpus, &cpus);
    ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    go.wait(false);
    ++done;
  };
  ASSERT_TRUE(launch(lcores[0], body).ok());
  EXPECT_EQ(launch(lcores[0], [] {}).code(), Code::kBusy);
  ASSERT_TRUE(launch(lcores[1], [&] { ++done; }).ok());
  join(lcores[1]);
  EXPECT_EQ(done, 1);
  go = true;
  go.notify_all();
  join(lcores[0]);
  EXPECT_EQ(done, 2);
  EXPECT_EQ(CPU_COUNT(&cpus), 1);
  EXPECT_TRUE(CPU_ISSET(cpu, &cpus));
  EXPECT_EQ(::sigismember(&mask, SIGTERM), 1);  // the caller's threads take signals, workers do not

  for (int round = 0; round < 1000; ++round) {
    ASSERT_TRUE(launch(lcores[0], [&] { ++done; }).ok());
    join(lcores[0]);
  }
  EXPECT_EQ(done, 1002);
  EXPECT_EQ(launch(0, [] {}).code(), Code::kNotFound);  // the main lcore
  EXPECT_EQ(launch(77, [] {}).code(), Code::kNotFound);
  EXPECT_EQ(launch(UINT32_MAX, [] {}).code(), Code::kNotFound);
  join(77);
}

}  // namespace
}  // namespace sluice
