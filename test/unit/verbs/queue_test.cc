// The queue against a device that does as it is told: doorbells, signals, and every op home once whatever fails.
#include "verbs/queue.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <map>

#include "fake_verbs.h"

namespace sluice::verbs {
namespace {
constexpr PathId kPath{3};

class PairQueue : public testing::Test {
 protected:
  void SetUp() override { make_fake_host(&host_); }
  void TearDown() override {
    queue_.reset();
    EXPECT_EQ(fake().pairs + fake().cqs + fake().srqs, 0u) << "an object was left";
  }
  void open(uint32_t tx = 64, uint32_t rx = 64) {
    std::unique_ptr<Queue> made;
    ASSERT_TRUE(VerbsQueue::make(host_, {tx, rx, 16, 4096}, &made).ok());
    queue_.reset(static_cast<VerbsQueue*>(made.release()));
  }
  EndAddress peer_of(uint8_t mtu_code = 5) {
    EndAddress peer;
    peer.mtu_code = mtu_code;
    peer.port = 1;
    peer.qp_number = 77;
    peer.psn = 99;
    peer.msg_bytes = 4096;
    peer.reads = 4;
    peer.gid = host_.port.gid.gid;
    return peer;
  }
  void connect(PathId path = kPath) { ASSERT_TRUE(queue_->connect(path, encode_address(peer_of())).ok()); }
  Op op(uint32_t bytes = 1024, PathId path = kPath, OpKind kind = OpKind::kSend) {
    Op out{};
    out.kind = kind;
    out.path = path;
    out.cookie = next_++;
    out.addr0 = memory_;
    out.bytes0 = bytes;
    return out;
  }
  uint32_t send(uint32_t count, PathId path = kPath) {
    std::vector<Op> ops;
    for (uint32_t i = 0; i < count; ++i) ops.push_back(op(1024, path));
    return queue_->post(ops);
  }
  uint32_t refill(uint32_t count) {
    std::vector<RecvBuf> bufs;
    for (uint32_t i = 0; i < count; ++i) bufs.push_back({memory_, 0, 1000 + next_++, 4096});
    return queue_->refill(bufs);
  }
  static void complete(uint64_t id, ibv_wc_status status = IBV_WC_SUCCESS, uint32_t bytes = 0) {
    ibv_wc wc{};
    wc.wr_id = id;
    wc.status = status;
    wc.byte_len = bytes;
    fake().completions.push_back(wc);
  }
  /// Poll until nothing comes; how ops ended, by cookie.
  std::map<uint64_t, Code> poll() {
    std::map<uint64_t, Code> ends;
    std::array<Completion, 8> out;
    for (uint32_t n = 1; n != 0;) {
      n = queue_->poll(out);
      for (uint32_t i = 0; i < n; ++i) EXPECT_TRUE(ends.emplace(out[i].cookie, out[i].code).second) << "told twice";
    }
    return ends;
  }
  /// Poll for what comes by a deadline of the queue's own.
  std::map<uint64_t, Code> poll_until(size_t count) {
    std::map<uint64_t, Code> ends;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (ends.size() < count && std::chrono::steady_clock::now() < until) ends.merge(poll());
    return ends;
  }

  QueueHost host_;
  std::unique_ptr<VerbsQueue> queue_;
  uint64_t next_ = 1;
  std::byte memory_[8192] = {};
};

TEST_F(PairQueue, OneDoorbellForEachPathAndFlush) {
  open();
  connect(PathId{0});
  connect(PathId{1});
  ASSERT_EQ(send(10, PathId{0}), 10u);
  ASSERT_EQ(send(5, PathId{1}), 5u);
  ASSERT_EQ(send(7, PathId{0}), 7u);
  EXPECT_TRUE(fake().sends.empty()) << "posted before the flush";
  queue_->flush();
  EXPECT_EQ(fake().send_chains, (std::vector<size_t>{17, 5}));
  EXPECT_EQ(queue_->counters().doorbells, 2u);
  queue_->flush();
  EXPECT_EQ(queue_->counters().doorbells, 2u);
}

TEST_F(PairQueue, TheLastOfADoorbellAsksForACompletionAndEndsAllBeforeIt) {
  open();
  connect();
  send(20);
  queue_->flush();
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(fake().sends[i].signalled, i == 19) << i;
  complete(fake().sends[19].id);
  const auto ends = poll();
  EXPECT_EQ(ends.size(), 20u);
  for (const auto& [cookie, code] : ends) EXPECT_EQ(code, Code::kOk) << cookie;
}

TEST_F(PairQueue, OneOfEachHalfDepthAsksForACompletion) {
  for (const uint32_t depth : {8u, 256u}) {
    make_fake_host(&host_);
    open(depth);
    connect();
    const uint32_t every = std::min(depth / 2, 64u);
    for (uint32_t left = depth; left != 0; left -= std::min(left, 4u)) send(std::min(left, 4u));
    queue_->flush();
    uint32_t since = 0;
    for (const FakeWork& work : fake().sends) {
      since = work.signalled ? 0 : since + 1;
      EXPECT_LT(since, every);
    }
    queue_.reset();
  }
}

TEST_F(PairQueue, TheDepthHoldsAndTheTailStaysTheCallers) {
  open(8);
  connect();
  EXPECT_EQ(send(20), 8u);
  queue_->flush();
  EXPECT_EQ(send(1), 0u);
  complete(fake().sends[3].id);
  EXPECT_EQ(poll().size(), 4u);
  EXPECT_EQ(send(20), 4u);
}

TEST_F(PairQueue, SmallOnesGoInlineAndTwoPiecesAsTwo) {
  open();
  connect();
  Op two = op(64);
  two.addr1 = memory_;
  two.bytes1 = 1000;
  const std::array<Op, 5> ops{op(128), op(129), two, op(0), op(64, kPath, OpKind::kRead)};
  host_.caps.rma = true;
  ASSERT_EQ(queue_->post(ops), 5u);
  queue_->flush();
  EXPECT_TRUE(fake().sends[0].inlined);
  EXPECT_FALSE(fake().sends[1].inlined);
  EXPECT_EQ(fake().sends[2].pieces, 2);
  EXPECT_EQ(fake().sends[3].pieces, 0);
  EXPECT_FALSE(fake().sends[4].inlined) << "a READ has nothing to send";
  EXPECT_EQ(fake().sends[4].opcode, IBV_WR_RDMA_READ);
}

TEST_F(PairQueue, WhatIsWrongByItselfIsNotPosted) {
  open();
  connect();
  const std::array<Op, 2> ops{op(4097), op(8, kPath, OpKind::kWrite)};
  EXPECT_EQ(queue_->post(ops), 2u);
  queue_->flush();
  EXPECT_TRUE(fake().sends.empty());
  EXPECT_EQ(poll(), (std::map<uint64_t, Code>{{1, Code::kBadArgument}, {2, Code::kBadArgument}}));
  send(1);
  queue_->flush();
  EXPECT_EQ(fake().sends.size(), 1u) << "the path lives on";
}

TEST_F(PairQueue, AChainThatBreaksInTheMiddleComesHomeOnce) {
  open();
  connect();
  send(10);
  fake().post_fails_at = 6;
  queue_->flush();
  auto ends = poll();
  EXPECT_EQ(ends.size(), 4u);
  for (const auto& [cookie, code] : ends) EXPECT_EQ(code, Code::kDeviceError) << cookie;
  for (const FakeWork& work : fake().sends) complete(work.id, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(poll().size(), 6u);
  send(1);
  EXPECT_EQ(poll().begin()->second, Code::kDeviceError) << "later ops end with why the path broke";
}

TEST_F(PairQueue, AnErrorInTheMiddleOfABatchEndsEachOpOnceWithItsCause) {
  open();
  connect();
  send(10);
  queue_->flush();
  complete(fake().sends[4].id, IBV_WC_RETRY_EXC_ERR);
  for (size_t i = 5; i < 10; ++i) complete(fake().sends[i].id, IBV_WC_WR_FLUSH_ERR);
  const auto ends = poll();
  ASSERT_EQ(ends.size(), 10u);
  for (const auto& [cookie, code] : ends) EXPECT_EQ(code, cookie <= 4 ? Code::kOk : Code::kPeerDead) << cookie;
  EXPECT_EQ(queue_->counters().failures, 1u) << "one for the burst";
}

TEST_F(PairQueue, ADeviceThatFlushesOnlyWhatAskedForACompletion) {
  open();
  connect();
  send(10);
  queue_->flush();
  complete(fake().sends[9].id, IBV_WC_WR_FLUSH_ERR);
  const auto ends = poll();
  ASSERT_EQ(ends.size(), 10u);
  for (const auto& [cookie, code] : ends) EXPECT_EQ(code, Code::kPeerDead) << cookie;
}

TEST_F(PairQueue, ADeviceThatNeverFlushesIsGivenADeadline) {
  open();
  connect();
  send(3);
  queue_->flush();
  ASSERT_EQ(queue_->close(kPath), Code::kOk);
  EXPECT_EQ(fake().states[1], IBV_QPS_ERR);
  const auto ends = poll_until(3);
  ASSERT_EQ(ends.size(), 3u);
  for (const auto& [cookie, code] : ends) EXPECT_EQ(code, Code::kCancelled) << cookie;
  EXPECT_EQ(fake().pairs, 0u) << "the pair is destroyed before its ops are given back";
  EXPECT_EQ(queue_->counters().not_flushed, 3u);
  complete(fake().sends[0].id);  // of a record that has another life
  EXPECT_TRUE(poll().empty());
  EXPECT_EQ(queue_->counters().stale, 1u);
}

TEST_F(PairQueue, AnOldCompletionEndsNoNewOp) {
  open(4);
  connect();
  send(1);
  queue_->flush();
  const uint64_t old = fake().sends[0].id;
  complete(old);
  EXPECT_EQ(poll().size(), 1u);
  send(1);  // takes the same record
  queue_->flush();
  EXPECT_EQ(static_cast<uint32_t>(old), static_cast<uint32_t>(fake().sends[1].id));
  complete(old);
  EXPECT_TRUE(poll().empty());
  complete(fake().sends[1].id);
  EXPECT_EQ(poll().size(), 1u);
}

TEST_F(PairQueue, BothSidesTakeTheSmallerMtuAndTheOthersNumbers) {
  open();
  host_.pair.timeout = 17;
  host_.pair.retries = 3;
  host_.pair.rnr_retries = 2;
  host_.pair.rnr_timer = 9;
  host_.pair.traffic_class = 104;
  ASSERT_TRUE(queue_->connect(kPath, encode_address(peer_of(3))).ok());
  EXPECT_EQ(fake().to_receive.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(fake().to_receive.dest_qp_num, 77u);
  EXPECT_EQ(fake().to_receive.rq_psn, 99u);
  EXPECT_EQ(fake().to_receive.min_rnr_timer, 9);
  EXPECT_EQ(fake().to_receive.ah_attr.grh.traffic_class, 104);
  EXPECT_EQ(fake().to_receive.ah_attr.grh.sgid_index, 1);
  EXPECT_EQ(fake().to_send.timeout, 17);
  EXPECT_EQ(fake().to_send.retry_cnt, 3);
  EXPECT_EQ(fake().to_send.rnr_retry, 2);
  EXPECT_EQ(fake().to_send.max_rd_atomic, 1);
  host_.port.mtu_code = 1;
  ASSERT_TRUE(queue_->connect(PathId{4}, encode_address(peer_of(3))).ok());
  EXPECT_EQ(fake().to_receive.path_mtu, IBV_MTU_256);
}

TEST_F(PairQueue, AnOfferIsThePathsOwnUntilItIsConnected) {
  open();
  std::vector<std::byte> first, again, other, connected;
  ASSERT_TRUE(queue_->address(kPath, &first).ok());
  ASSERT_TRUE(queue_->address(PathId{4}, &other).ok());
  EXPECT_NE(first, other);
  ASSERT_TRUE(queue_->address(kPath, &again).ok());  // the first peer never came
  EXPECT_NE(first, again);
  EXPECT_EQ(fake().pairs, 2u);
  connect();
  ASSERT_TRUE(queue_->address(kPath, &connected).ok());
  EXPECT_EQ(again, connected);
  EXPECT_EQ(fake().pairs, 2u) << "connect() takes the pair that was offered";
  EXPECT_EQ(queue_->address(PathId{16}, &other).code(), Code::kLimit);
}

TEST_F(PairQueue, PeersOfAnotherLinkOrFamilyAreRefused) {
  open();
  EndAddress peer = peer_of();
  peer.kind = GidKind::kRoceV1;
  EXPECT_EQ(queue_->connect(kPath, encode_address(peer)).code(), Code::kBadArgument);
  peer = peer_of();
  peer.gid = {0xfe, 0x80};
  const Status status = queue_->connect(kPath, encode_address(peer));
  EXPECT_EQ(status.code(), Code::kBadArgument);
  EXPECT_NE(status.text().find("gid-index"), std::string::npos) << status.text();
  EXPECT_EQ(fake().pairs, 0u);
  connect();
}

TEST_F(PairQueue, ReceivesGoAsOneChainAndFailedOnesAreNotTold) {
  open(8, 16);
  connect();
  EXPECT_EQ(refill(20), 16u);
  EXPECT_EQ(fake().receive_chains, std::vector<size_t>{16});
  complete(fake().receives[0], IBV_WC_SUCCESS, 300);
  complete(fake().receives[1], IBV_WC_WR_FLUSH_ERR);
  std::array<Completion, 4> out;
  ASSERT_EQ(queue_->poll(out), 1u);
  EXPECT_EQ(out[0].kind, CompletionKind::kRecv);
  EXPECT_EQ(out[0].bytes, 300u);
  EXPECT_EQ(fake().receive_chains, (std::vector<size_t>{16, 1})) << "the flushed one was posted again";
  EXPECT_EQ(refill(20), 1u);
}

TEST_F(PairQueue, WithoutSharedReceivesTheyAreDealtOut) {
  host_.shared_receives = false;
  open(8, 64);
  EXPECT_EQ(refill(32), 32u);
  EXPECT_TRUE(fake().receives_of.empty()) << "there is no pair yet";
  connect(PathId{0});
  connect(PathId{1});
  EXPECT_EQ(fake().receives_of[1].size(), 4u);
  EXPECT_EQ(fake().receives_of[2].size(), 4u);
  complete(fake().receives_of[1][0], IBV_WC_SUCCESS, 8);
  EXPECT_EQ(poll().size(), 1u);
  refill(1);
  EXPECT_EQ(fake().receives_of[1].size(), 9u) << "one was used; a busy pair may hold twice as many";
  EXPECT_EQ(fake().receives_of[2].size(), 4u);
  // What a pair held goes to the others when it ends, though its device gives nothing back.
  ASSERT_EQ(queue_->close(PathId{0}), Code::kOk);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (fake().pairs == 2 && std::chrono::steady_clock::now() < until) EXPECT_TRUE(poll().empty());
  queue_->shutdown();
  EXPECT_EQ(poll().size(), 32u) << "each receive once";
}

TEST_F(PairQueue, ASmallCompletionQueueCutsTheDepths) {
  host_.max_cqe = 100;
  open(256, 256);
  EXPECT_LE(queue_->depth().tx + queue_->depth().rx, 100u);
  EXPECT_GE(queue_->depth().tx, 1u);
  EXPECT_LE(fake().cqe_asked, 100u);
}

TEST_F(PairQueue, AnOpenThatFailsLeavesNothing) {
  std::unique_ptr<Queue> made;
  fake().no_cq = true;
  EXPECT_EQ(VerbsQueue::make(host_, {8, 8, 8, 64}, &made).code(), Code::kNoMemory);
  fake().no_cq = false;
  fake().no_srq = true;
  EXPECT_EQ(VerbsQueue::make(host_, {8, 8, 8, 64}, &made).code(), Code::kNoMemory);
  EXPECT_EQ(fake().cqs, 0u);
  fake().no_srq = false;
  EXPECT_EQ(VerbsQueue::make(host_, {0, 8, 8, 64}, &made).code(), Code::kBadArgument);
  open();
  fake().no_qp = true;
  std::vector<std::byte> out;
  EXPECT_EQ(queue_->address(kPath, &out).code(), Code::kNoMemory);
  fake().no_qp = false;
  fake().modify_error = ETIMEDOUT;
  EXPECT_FALSE(queue_->connect(kPath, encode_address(peer_of())).ok());
  EXPECT_EQ(fake().pairs, 0u);
}

TEST_F(PairQueue, PairsEndBeforeTheReceiveQueueAndThatBeforeTheCompletionQueue) {
  open();
  connect();
  refill(5);
  send(2);
  queue_->flush();
  for (const FakeWork& work : fake().sends) complete(work.id, IBV_WC_WR_FLUSH_ERR);
  queue_->shutdown();
  EXPECT_EQ(poll().size(), 7u);
  ASSERT_EQ(fake().destroyed.size(), 3u);
  EXPECT_STREQ(fake().destroyed[0], "qp");
  EXPECT_STREQ(fake().destroyed[1], "srq");
  EXPECT_STREQ(fake().destroyed[2], "cq");
  EXPECT_EQ(send(1) + refill(1), 0u);
}

TEST_F(PairQueue, ADeviceThatIsGoneEndsEveryPath) {
  open();
  connect();
  send(2);
  queue_->flush();
  host_.gone.store(true);
  for (const FakeWork& work : fake().sends) complete(work.id, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(poll().size(), 2u);
  send(1);
  EXPECT_EQ(poll().begin()->second, Code::kDeviceError);
}

}  // namespace
}  // namespace sluice::verbs
