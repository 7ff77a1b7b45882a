// Notifies: in order, exactly once, also after a reconnect, and flushed by a stop.
#include <sstream>

#include "wires.h"

namespace sluice::func {
namespace {

class NotifyTest : public Wires {
 protected:
  /// What the child took until it had @p count, as "peer/name/message".
  static std::vector<std::string> taken(Child& child, size_t count) {
    std::vector<std::string> all;
    (void)wait_for(20, [&] {
      std::istringstream words(child.ask("notifies"));
      size_t n = 0;
      words >> n;
      for (std::string word; words >> word;) all.push_back(word);
      return all.size() >= count;
    });
    return all;
  }
};

TEST_P(NotifyTest, ThreeHundredAfterAReconnect) {
  constexpr size_t kCount = 300;
  start();
  Child peer;
  ASSERT_TRUE(peer.start(GetParam(), "peer")) << peer.first_line;
  const std::string address = peer.address;
  SegmentHandle to = open(address);
  ASSERT_TRUE(here_.engine->send_notify(to, "first", "life").ok());
  EXPECT_EQ(taken(peer, 1), std::vector<std::string>{"here/first/life"});
  peer.kill();
  ASSERT_TRUE(peer.start(GetParam(), "peer", {{"listen", address}})) << peer.first_line;
  to = open(address);
  std::vector<std::string> sent;
  for (size_t i = 0; i < kCount; ++i) {
    Status s;
    ASSERT_TRUE(wait_for(20,
                         [&] {
                           s = here_.engine->send_notify(to, "n", std::to_string(i));
                           return s.code() != Code::kAgain;
                         }))
        << "notify " << i;
    ASSERT_TRUE(s.ok()) << s.describe();
    sent.push_back("here/n/" + std::to_string(i));
  }
  EXPECT_EQ(taken(peer, kCount), sent);
  EXPECT_TRUE(here_.engine->send_notify(to, "the", "end").ok());
  EXPECT_EQ(taken(peer, 1), std::vector<std::string>{"here/the/end"}) << "something came twice";
}

TEST_P(NotifyTest, NoneForABatchWithAFailedTask) {
  start();
  Child peer;
  ASSERT_TRUE(peer.start(GetParam(), "peer")) << peer.first_line;
  const SegmentHandle to = open(peer);
  ASSERT_TRUE(here_.move(TransferOp::kWrite, to, 0, 1 << 20));
  ASSERT_EQ(peer.ask("withdraw"), "ok");
  const BatchHandle batch = here_.submit(TransferOp::kWrite, to, 0, 1 << 20, 128 << 10);
  if (GetParam().one_sided()) {  // the peer has said that the buffer ends
    EXPECT_EQ(here_.last_code, Code::kStale);
    return;
  }
  ASSERT_EQ(here_.last_code, Code::kOk);
  ASSERT_EQ(here_.port->attach_notify(batch, to, "never", "sent"), Code::kOk);
  ASSERT_TRUE(here_.finish(batch));
  const BatchStatus s = here_.status(batch);
  EXPECT_GT(s.failed, 0u);
  EXPECT_EQ(s.notify, NotifyState::kFailed);
  EXPECT_FALSE(s.ok());
  EXPECT_EQ(here_.port->release(batch), Code::kOk);
  ASSERT_TRUE(here_.engine->send_notify(to, "the", "end").ok());
  EXPECT_EQ(taken(peer, 1), std::vector<std::string>{"here/the/end"});
}

TEST_P(NotifyTest, AStopRightBehindThemFlushesThem) {
  constexpr size_t kCount = 40;
  start();
  Child sender;
  ASSERT_TRUE(sender.start(GetParam(), "sender")) << sender.first_line;
  ASSERT_EQ(sender.ask("dial " + here_.address), "ok");
  EXPECT_EQ(sender.ask("notify-stop " + std::to_string(kCount)), "ok");
  sender.kill();
  std::vector<NotifyMessage> got;
  EXPECT_TRUE(wait_for(5,
                       [&] {
                         (void)here_.engine->take_notifies(1000, &got).ok();
                         return got.size() >= kCount;
                       }))
      << got.size() << " of " << kCount;
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].message, std::to_string(i));
}

INSTANTIATE_TEST_SUITE_P(Func, NotifyTest, ::testing::Values(kRxm, kShm, kLoop, kRxmOneSided), wire_name);
INSTANTIATE_TEST_SUITE_P(Verbs, NotifyTest, ::testing::ValuesIn(in_machine({kRailB})), wire_name);

}  // namespace
}  // namespace sluice::func
