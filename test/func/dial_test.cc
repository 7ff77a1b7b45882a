// Two nodes that open each other's segment at the same moment, again and again.
#include "wires.h"

namespace sluice::func {
namespace {

class DialTest : public Wires {};

// Two processes. In each round both start an engine (their EAL stays), both are told one moment of the clock at which
// to dial, both write to the other, and both stop the engine.
TEST_P(DialTest, TwoHundredRoundsAtTheSameMoment) {
  constexpr int kRounds = 200;
  Child one, two;
  ASSERT_TRUE(one.start(GetParam(), "one", {}, Child::Mode::kHost)) << one.first_line;
  ASSERT_TRUE(two.start(GetParam(), "two", {}, Child::Mode::kHost)) << two.first_line;
  const auto both = [&](const std::string& to_one, const std::string& to_two) {
    one.send(to_one);
    two.send(to_two);
    return std::pair{one.receive(), two.receive()};
  };
  const std::pair<std::string, std::string> ok{"ok", "ok"};
  for (int round = 0; round < kRounds; ++round) {
    const auto ready = both("new", "new");
    ASSERT_TRUE(one.on_ready(ready.first) && two.on_ready(ready.second)) << ready.first << ", " << ready.second;
    const std::string at = " " + std::to_string(now_seconds() + 0.003);
    ASSERT_EQ(both("dial " + two.address + at, "dial " + one.address + at), ok) << "round " << round;
    ASSERT_EQ(both("write 0 40000 " + std::to_string(round), "write 50000 40000 7"), ok) << "round " << round;
    ASSERT_TRUE(two.holds(0, 40'000, one.read(0, 40'000).data()));
    ASSERT_TRUE(one.holds(50'000, 40'000, two.read(50'000, 40'000).data()));
    ASSERT_EQ(one.stats()["peers"], 1u) << "round " << round;
    ASSERT_EQ(two.stats()["peers"], 1u) << "round " << round;
    ASSERT_EQ(both("drop", "drop"), ok);
  }
}

INSTANTIATE_TEST_SUITE_P(Func, DialTest, ::testing::Values(kRxm, kLoop), wire_name);

}  // namespace
}  // namespace sluice::func
