#include "env/eal_args.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace sluice {
namespace {

EalFacts machine(uint64_t free_hugepages = 0) {
  EalFacts facts;
  facts.allowed_cpus = {0, 1, 2, 5};
  facts.memory = {.available_bytes = 1u << 30,
                  .hugepages_total = free_hugepages,
                  .hugepages_free = free_hugepages,
                  .hugepage_bytes = 2u << 20};
  return facts;
}

EalArgs made(const EalOptions& options, const EalFacts& facts) {
  EalArgs args;
  const Status status = make_eal_args(options, facts, &args);
  EXPECT_TRUE(status.ok()) << status.text();
  return args;
}

bool has(const EalArgs& args, const std::string& word) { return std::ranges::count(args.list, word) == 1; }

TEST(EalArgs, OneLcorePerWorkerAndTheMainFloats) {
  const EalArgs args = made({.worker_cpus = {5, 0, 5}}, machine());
  EXPECT_TRUE(has(args, "--lcores=0@(0-2,5),1@5,2@0,3@5"));
  EXPECT_TRUE(has(args, "--main-lcore=0"));
  EXPECT_TRUE(has(args, "--no-pci"));
}

TEST(EalArgs, RefusesACpuOutsideTheAffinity) {
  EalArgs args;
  const Status status = make_eal_args({.worker_cpus = {3}}, machine(), &args);
  EXPECT_EQ(status.code(), Code::kBadArgument);
  EXPECT_EQ(status.text(),
            "cpu 3 is not among the CPUs that this process may use (0-2,5): choose from these, or widen its affinity");
}

TEST(EalArgs, HugepagesFollowPolicyAndStock) {
  EXPECT_FALSE(made({}, machine(127)).hugepages);
  EXPECT_TRUE(has(made({}, machine(127)), "--no-huge"));
  EXPECT_FALSE(has(made({}, machine(127)), "--in-memory"));
  EXPECT_TRUE(made({}, machine(128)).hugepages);
  EXPECT_TRUE(has(made({}, machine(128)), "--in-memory"));
  EXPECT_FALSE(made({.hugepages = HugePolicy::kOff}, machine(128)).hugepages);
  EXPECT_TRUE(made({.hugepages = HugePolicy::kOn}, machine(128)).hugepages);
  EalArgs args;
  const Status status = make_eal_args({.hugepages = HugePolicy::kOn}, machine(1), &args);
  EXPECT_EQ(status.code(), Code::kNoMemory);
  EXPECT_EQ(status.text(),
            "128 hugepages of 2048 kB needed, 1 of 1 free: raise /proc/sys/vm/nr_hugepages by 127, or run without "
            "(hugepages=off)");
}

TEST(EalArgs, TheUsersArgumentsReplaceDefaultsTheyContradict) {
  const EalArgs args = made({.worker_cpus = {99}, .user_args = {"-l", "0-1", "-m64", "-a", "0000:01:00.0"}}, machine());
  EXPECT_EQ(args.list, (std::vector<std::string>{"--no-huge", "--no-shconf", "--no-telemetry", "--log-level=error",
                                                 "-l", "0-1", "-m64", "-a", "0000:01:00.0"}));
  const EalArgs own = made({.user_args = {"--no-huge", "--log-level=debug", "--main-lcore=0"}}, machine(1000));
  EXPECT_FALSE(own.hugepages);
  EXPECT_TRUE(has(own, "--no-huge"));
  EXPECT_FALSE(has(own, "--in-memory"));
  EXPECT_FALSE(has(own, "--log-level=error"));
  EXPECT_FALSE(has(made({.telemetry = true}, machine()), "--no-telemetry"));
}

TEST(Preflight, OneLineForEachThingThatIsShort) {
  EalFacts facts = machine(2);
  EXPECT_TRUE(preflight(facts, 1u << 20, 0).empty());
  EXPECT_TRUE(preflight(facts, 4u << 20, 4u << 20).empty());
  facts.memlock_bytes = 65536;
  const auto lines = preflight(facts, 3ull << 30, 6u << 20);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_NE(lines[0].find("3221225472 bytes needed, the limit is 65536"), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find("ulimit -l"), std::string::npos);
  EXPECT_NE(lines[1].find("3 hugepages"), std::string::npos) << lines[1];
  EXPECT_NE(lines[2].find("1073741824 available"), std::string::npos) << lines[2];
}

TEST(Cpus, AreWrittenAsRanges) {
  EXPECT_EQ(format_cpus({}), "");
  EXPECT_EQ(format_cpus({7}), "7");
  EXPECT_EQ(format_cpus({0, 1, 3, 4, 5, 9}), "0-1,3-5,9");
  EXPECT_FALSE(read_eal_facts().allowed_cpus.empty());
}

}  // namespace
}  // namespace sluice
