// The queue against a library that does as it is told: depth, prefixes, one completion for each op, closing.
#include <gtest/gtest.h>

#include <array>

#include "fabric/fabric_driver.h"
#include "fake_ofi.h"

namespace sluice::fabric {
namespace {

class QueueOf : public testing::TestWithParam<uint64_t> {
 protected:
  void SetUp() override { reset_fake(); }
  void TearDown() override {
    queue_.reset();
    EXPECT_FALSE(fake().removed_after_ep);
  }
  void open(QueueParams params, FakeInfo info = {}) {
    info.mode = GetParam();
    fake().list = {info};
    DeviceInfo wanted;
    wanted.name = "eth0";
    wanted.provider = "tcp;ofi_rxm";
    ASSERT_TRUE(FabricDriver(load_fake).open(wanted, {}, &device_).ok());
    ASSERT_TRUE(device_->open_queue(params, &queue_).ok());
    ASSERT_TRUE(queue_->address(PathId{1}, &blob_).ok());
    ASSERT_TRUE(queue_->connect(PathId{1}, blob_).ok());
  }
  uint32_t send(uint32_t count, uint64_t cookie = 100, PathId path = PathId{1}) {
    std::vector<Op> ops;
    for (uint32_t i = 0; i < count; ++i)
      ops.push_back({OpKind::kSend, path, cookie + i, bytes_, 0, nullptr, 0, 64, 0, 0, 0});
    return queue_->post(ops);
  }
  uint32_t poll() { return queue_->poll(out_); }
  void done(void* context) { fake().done.push_back({context, FI_SEND, 64}); }
  void fail(void* context, int err) {
    fi_cq_err_entry entry{};
    entry.op_context = context;
    entry.err = err;
    fake().errors.push_back(entry);
  }
  std::unique_ptr<Device> device_;
  std::unique_ptr<Queue> queue_;
  std::vector<std::byte> blob_;
  std::array<Completion, kMaxBurst> out_;
  std::byte bytes_[64] = {};
};
INSTANTIATE_TEST_SUITE_P(Context, QueueOf, testing::Values(uint64_t{0}, uint64_t{FI_CONTEXT2}),
                         [](const auto& test) { return test.param == 0 ? "Plain" : "Context2"; });

TEST_P(QueueOf, DepthIsTheProvidersNotTheOneAskedFor) {
  open({.tx_depth = 512, .rx_depth = 512, .max_paths = 4}, {.tx_size = 5, .rx_size = 7});
  EXPECT_EQ(queue_->depth().tx, 5u);
  EXPECT_EQ(queue_->depth().rx, 7u);
  EXPECT_EQ(send(8), 5u);  // the provider itself never says "again"
  done(fake().sends[2]);
  ASSERT_EQ(poll(), 1u);
  EXPECT_EQ(out_[0].cookie, 102u);
  EXPECT_EQ(send(8), 1u);
}

TEST_P(QueueOf, ASmallCompletionQueueCutsTheDepth) {
  fake().cq_size = 8;
  open({.tx_depth = 32, .rx_depth = 32, .max_paths = 4});
  EXPECT_EQ(queue_->depth().tx + queue_->depth().rx, 8u);
}

TEST_P(QueueOf, AgainLeavesTheTailAndTakesNoRecord) {
  open({.tx_depth = 4, .rx_depth = 4, .max_paths = 4});
  fake().send_ret = -FI_EAGAIN;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(send(3), 0u);
  EXPECT_EQ(poll(), 0u);
  fake().send_ret = 0;
  EXPECT_EQ(send(5), 4u);
}

TEST_P(QueueOf, WhatIsRefusedAtOnceCompletesOnce) {
  open({.tx_depth = 4, .rx_depth = 4, .max_paths = 4});
  fake().send_ret = -FI_EINVAL;
  fake().recv_ret = -FI_ENOMEM;
  EXPECT_EQ(send(1, 7), 1u);
  const RecvBuf buf{bytes_, 0, 9, 64};
  EXPECT_EQ(queue_->refill({&buf, 1}), 1u);
  ASSERT_EQ(poll(), 2u);
  EXPECT_EQ(out_[0].cookie, 7u);
  EXPECT_EQ(out_[0].code, Code::kBadArgument);
  EXPECT_EQ(out_[1].cookie, 9u);
  EXPECT_EQ(out_[1].kind, CompletionKind::kRecv);
  EXPECT_EQ(out_[1].code, Code::kDeviceError);
  EXPECT_EQ(poll(), 0u);
}

TEST_P(QueueOf, ErrorsAreReadToTheirEndAndStraysAreNotOurs) {
  open({.tx_depth = 8, .rx_depth = 4, .max_paths = 4});
  ASSERT_EQ(send(3), 3u);
  fail(fake().sends[0], -FI_ECANCELED);
  fail(nullptr, FI_EIO);
  fail(&bytes_, FI_EIO);
  fail(fake().sends[1], FI_ECONNRESET);
  fail(fake().sends[1], FI_ECONNRESET);  // told twice
  fail(fake().sends[2], 0);
  ASSERT_EQ(poll(), 3u);
  EXPECT_EQ(out_[0].code, Code::kCancelled);
  EXPECT_EQ(out_[1].code, Code::kPeerDead);
  EXPECT_EQ(out_[2].code, Code::kDeviceError);
  EXPECT_EQ(poll(), 0u);
  EXPECT_EQ(send(9), 8u);  // every record is home, once
}

TEST_P(QueueOf, AnAddressGoesOnlyWhenItsLastOpIsHome) {
  open({.tx_depth = 8, .rx_depth = 4, .max_paths = 4});
  ASSERT_EQ(send(2), 2u);
  EXPECT_EQ(queue_->close(PathId{1}), Code::kOk);
  EXPECT_EQ(queue_->close(PathId{1}), Code::kNotFound);
  EXPECT_EQ(fake().removes, 0);
  done(fake().sends[0]);
  EXPECT_EQ(poll(), 1u);
  EXPECT_EQ(fake().removes, 0);
  fail(fake().sends[1], FI_ECANCELED);
  EXPECT_EQ(poll(), 1u);
  EXPECT_EQ(fake().removes, 1);
}

TEST_P(QueueOf, EqualAddressesShareOneEntry) {
  open({.tx_depth = 8, .rx_depth = 4, .max_paths = 4});
  ASSERT_TRUE(queue_->connect(PathId{2}, blob_).ok());
  EXPECT_EQ(fake().inserts, 1);
  EXPECT_EQ(queue_->close(PathId{1}), Code::kOk);
  EXPECT_EQ(fake().removes, 0);
  EXPECT_EQ(send(1, 5, PathId{2}), 1u);
  done(fake().sends[0]);
  EXPECT_EQ(poll(), 1u);
  EXPECT_EQ(queue_->close(PathId{2}), Code::kOk);
  EXPECT_EQ(fake().removes, 1);
}

TEST_P(QueueOf, AGonePeersOpsComeBackAndALateCompletionIsDropped) {
  open({.tx_depth = 2, .rx_depth = 4, .max_paths = 4});
  ASSERT_EQ(send(2), 2u);
  EXPECT_EQ(queue_->close(PathId{1}), Code::kOk);
  queue_->peer_gone(PathId{1});
  ASSERT_EQ(poll(), 2u);
  EXPECT_EQ(out_[0].cookie, 100u);
  EXPECT_EQ(out_[0].code, Code::kPeerDead);
  EXPECT_EQ(out_[1].cookie, 101u);
  EXPECT_EQ(fake().removes, 1);
  ASSERT_TRUE(queue_->connect(PathId{1}, blob_).ok());
  const auto late = fake().sends;
  if (GetParam() == 0) {
    ASSERT_EQ(send(2, 200), 2u);  // the same records, another generation
  } else {
    ASSERT_EQ(send(2, 200), 0u);  // their contexts may still be held
  }
  done(late[0]);
  fail(late[1], FI_ECANCELED);
  EXPECT_EQ(poll(), 0u);
  EXPECT_EQ(poll(), 0u);
  if (GetParam() != 0) {
    EXPECT_EQ(send(2, 200), 2u);
  }
  queue_->shutdown();
  EXPECT_EQ(poll(), 2u);
}

// The peer of an earlier life of the path may only be stopped: what was posted to it is still read.
TEST_P(QueueOf, AGonePeerTakesNothingOfAnEarlierLifeAlong) {
  open({.tx_depth = 8, .rx_depth = 4, .max_paths = 4});
  ASSERT_EQ(send(2, 100), 2u);
  EXPECT_EQ(queue_->close(PathId{1}), Code::kOk);
  ASSERT_TRUE(queue_->connect(PathId{1}, blob_).ok());
  ASSERT_EQ(send(1, 200), 1u);
  EXPECT_EQ(queue_->close(PathId{1}), Code::kOk);
  queue_->peer_gone(PathId{1});
  ASSERT_EQ(poll(), 1u);
  EXPECT_EQ(out_[0].cookie, 200u);
  EXPECT_EQ(out_[0].code, Code::kPeerDead);
  EXPECT_EQ(poll(), 0u);
  done(fake().sends[0]);
  EXPECT_EQ(poll(), 1u);
  queue_->shutdown();
  EXPECT_EQ(poll(), 1u);
}

TEST_P(QueueOf, ShutdownGivesEverythingBack) {
  open({.tx_depth = 40, .rx_depth = 40, .max_paths = 4});
  ASSERT_EQ(send(32), 32u);
  const RecvBuf buf{bytes_, 0, 9, 64};
  for (int i = 0; i < 8; ++i) ASSERT_EQ(queue_->refill({&buf, 1}), 1u);
  queue_->shutdown();
  EXPECT_EQ(send(1), 0u);
  EXPECT_EQ(queue_->refill({&buf, 1}), 0u);
  done(fake().sends[3]);  // flushed by the close
  uint32_t back = 0;
  for (uint32_t n; (n = poll()) > 0;) back += n;
  EXPECT_EQ(back, 40u);
}

TEST_P(QueueOf, ConnectJudgesTheBlob) {
  open({.tx_depth = 4, .rx_depth = 4, .max_paths = 4});
  EXPECT_EQ(queue_->connect(PathId{1}, blob_).code(), Code::kExists);
  EXPECT_EQ(queue_->connect(PathId{4}, blob_).code(), Code::kLimit);
  auto other = blob_;
  other[12] = std::byte{'u'};  // another provider's name
  const Status status = queue_->connect(PathId{2}, other);
  EXPECT_EQ(status.code(), Code::kBadArgument);
  EXPECT_NE(status.text().find("tcp;ofi_rxm"), std::string::npos);
  other = blob_;
  other[8] = std::byte{FI_SOCKADDR_IN6};
  EXPECT_EQ(queue_->connect(PathId{2}, other).code(), Code::kBadArgument);
}

}  // namespace
}  // namespace sluice::fabric
