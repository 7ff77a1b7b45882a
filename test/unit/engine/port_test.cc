// A port by itself: the test is the agents at the other end of its rings.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "engine/port_impl.h"

extern std::atomic<uint64_t> g_heap_calls;  // heap.cc

namespace sluice::test {
namespace {

class PortAlone : public ::testing::TestWithParam<uint16_t> {
 protected:
  static constexpr uint32_t kRing = 32, kOpen = kRing / 2;

  void SetUp() override {
    std::unique_ptr<Region> region;
    ASSERT_TRUE(Region::import(memory_.data(), memory_.size(), &region).ok());
    ASSERT_TRUE(table_.add(&region, &handle_).ok());
    auto open = std::make_unique<OpenSegment>();
    open->peer = PeerId{1};
    open->peer_generation = 1;
    open->lanes = GetParam();
    open->buffers = {{0, 1 << 20}};
    ASSERT_EQ(segments_->open(std::move(open), &segment_), Code::kOk);
    auto rings = std::make_unique<PortRings>();
    ASSERT_TRUE(rings->open(GetParam(), kRing, 64).ok());
    rings_ = rings.get();
    port_ = std::make_unique<PortImpl>(std::move(rings), &table_, segments_.get(), 4u,
                                       [this](PortRings*) { return agents_answer_; });
  }
  Code submit(BatchHandle batch, uint32_t tasks, uint64_t length = 8) {
    const std::vector<Request> requests(tasks, Request{TransferOp::kWrite, 0, memory_.data(), segment_, 0, length});
    return port_->submit(batch, requests, nullptr);
  }
  // As the workers: take what is in the rings. Cancels are counted apart.
  std::vector<std::pair<uint16_t, Submission>> take() {
    std::vector<std::pair<uint16_t, Submission>> all;
    for (uint16_t w = 0; w < GetParam(); ++w) {
      Submission s;
      while (rings_->submissions(WorkerId{w}).take({&s, 1}) == 1) all.emplace_back(w, s);
      for (Cancel c; rings_->cancels(WorkerId{w}).take({&c, 1}) == 1;) ++cancels_;
    }
    return all;
  }
  void end(const std::pair<uint16_t, Submission>& s, TaskEnd end = TaskEnd::kDone, Code code = Code::kOk) {
    ASSERT_TRUE(rings_->completions(WorkerId{s.first}).put(TaskDone{s.second.ref, 0, end, code, 0}));
  }
  BatchStatus status(BatchHandle batch) const {
    BatchStatus s;
    EXPECT_EQ(port_->status(batch, &s), Code::kOk);
    return s;
  }

  std::array<std::byte, 4096> memory_{};
  MemoryTable table_{8};
  MemoryHandle handle_{};
  std::unique_ptr<SegmentTable> segments_ = std::make_unique<SegmentTable>();
  SegmentHandle segment_{};
  PortRings* rings_ = nullptr;
  std::unique_ptr<PortImpl> port_;
  uint32_t cancels_ = 0;
  bool agents_answer_ = true;
};

TEST_P(PortAlone, MoreTasksThanTheRingsHoldGoOnInOrder) {
  constexpr uint32_t kTasks = 500;
  BatchHandle batch;
  ASSERT_EQ(port_->allocate_batch(kTasks, &batch), Code::kOk);
  ASSERT_EQ(submit(batch, kTasks), Code::kOk);
  std::vector<uint32_t> times(kTasks, 0);
  uint32_t ended = 0;
  for (int round = 0; round < 1000 && !status(batch).final; ++round) {
    const auto all = take();
    EXPECT_LE(all.size(), kOpen);
    for (const auto& s : all) {
      ++times[s.second.ref & 0xffffff];
      end(s);
      ++ended;
    }
    (void)port_->poll();
    EXPECT_EQ(status(batch).done, ended);
    EXPECT_EQ(port_->open_tasks(), kTasks - ended);
  }
  EXPECT_TRUE(status(batch).ok());
  for (const uint32_t n : times) EXPECT_EQ(n, 1u);
  EXPECT_TRUE(table_.remove(handle_).ok()) << "no use is left";
}

TEST_P(PortAlone, CancelsTakeNoRoomFromTasksAndMarkWhatIsOnItsWay) {
  BatchHandle one, two;
  ASSERT_EQ(port_->allocate_batch(8, &one), Code::kOk);
  ASSERT_EQ(port_->allocate_batch(4, &two), Code::kOk);
  ASSERT_EQ(submit(one, 4), Code::kOk);
  for (uint32_t i = 0; i < kRing; ++i) ASSERT_EQ(port_->cancel(one), Code::kOk);
  ASSERT_EQ(submit(two, 4), Code::kOk);
  ASSERT_EQ(port_->cancel(two), Code::kOk);
  const auto all = take();
  EXPECT_EQ(all.size(), 8u) << "some waited behind cancels";
  EXPECT_EQ(cancels_, (kRing + 1) * GetParam());
  for (const auto& s : all) EXPECT_TRUE(rings_->cancelled(s.second.phase));
  for (const auto& s : all) end(s, TaskEnd::kCancelled, Code::kCancelled);
  while (port_->poll() != 0) {}
  EXPECT_EQ(status(two).cancelled, 4u);
  ASSERT_EQ(port_->release(one), Code::kOk);
  ASSERT_EQ(port_->allocate_batch(8, &one), Code::kOk);
  ASSERT_EQ(submit(one, 8), Code::kOk);
  for (const auto& s : take()) EXPECT_FALSE(rings_->cancelled(s.second.phase)) << "a mark of an earlier task";
}

TEST_P(PortAlone, SubmitPollAndStatusDoNotAllocate) {
  constexpr uint32_t kBatches = 40, kTasks = 20;
  std::array<BatchHandle, kBatches> batches{};
  for (BatchHandle& batch : batches) ASSERT_EQ(port_->allocate_batch(kTasks, &batch), Code::kOk);
  const std::vector<Request> requests(kTasks, Request{TransferOp::kWrite, 0, memory_.data(), segment_, 0, 8});
  const uint64_t before = g_heap_calls;
  for (const BatchHandle batch : batches) ASSERT_EQ(port_->submit(batch, requests, nullptr), Code::kOk);
  for (uint32_t i = 0; i < PortRings::kNotifies; ++i)
    ASSERT_EQ(port_->attach_notify(batches[i], segment_, "n", "m"), Code::kOk);
  BatchStatus status;
  for (uint32_t left = kBatches; left != 0;) {
    for (uint16_t w = 0; w < GetParam(); ++w)
      for (Submission s; rings_->submissions(WorkerId{w}).take({&s, 1}) == 1;)
        (void)rings_->completions(WorkerId{w}).put(TaskDone{s.ref, 0, TaskEnd::kDone, Code::kOk, 0});
    for (NotifyOut n; rings_->notifies().take({&n, 1}) == 1;)
      (void)rings_->notify_results().put(TaskDone{n.ref, 0, TaskEnd::kDone, Code::kOk, 0});
    (void)port_->poll();
    left = 0;
    for (const BatchHandle batch : batches) {
      if (port_->status(batch, &status) != Code::kOk || !status.final) ++left;
    }
  }
  EXPECT_EQ(g_heap_calls, before);
  for (const BatchHandle batch : batches) EXPECT_EQ(port_->release(batch), Code::kOk);
}

TEST_P(PortAlone, RingsThatAgentsMayStillUseAreLeftToThem) {
  BatchHandle batch;
  ASSERT_EQ(port_->allocate_batch(4, &batch), Code::kOk);
  ASSERT_EQ(submit(batch, 4), Code::kOk);
  agents_answer_ = false;
  port_.reset();
  const std::unique_ptr<PortRings> still(rings_);  // the agents
  for (const auto& s : take()) end(s);
  EXPECT_EQ(table_.remove(handle_).code(), Code::kBusy) << "they may still read the memory";
}

TEST_P(PortAlone, ACancelEndsQueuedTasksAtOnceAndAsksForTheRest) {
  constexpr uint32_t kTasks = 100;
  BatchHandle batch;
  ASSERT_EQ(port_->allocate_batch(kTasks, &batch), Code::kOk);
  ASSERT_EQ(submit(batch, kTasks), Code::kOk);
  const auto with_workers = take();
  ASSERT_GT(with_workers.size(), 0u);
  ASSERT_EQ(port_->cancel(batch), Code::kOk);
  EXPECT_EQ(status(batch).cancelled, kTasks - with_workers.size());
  EXPECT_EQ(port_->release(batch), Code::kBusy);
  EXPECT_EQ(table_.remove(handle_).code(), Code::kBusy);
  EXPECT_TRUE(take().empty());
  EXPECT_EQ(cancels_, GetParam()) << "one for each lane";
  for (const auto& s : with_workers) end(s, TaskEnd::kCancelled, Code::kCancelled);
  while (port_->poll() != 0) {}
  EXPECT_EQ(status(batch).cancelled, kTasks);
  EXPECT_EQ(port_->release(batch), Code::kOk);
  EXPECT_EQ(port_->cancel(batch), Code::kStale);
}

TEST_P(PortAlone, AReleasedBatchIsUsedAgainUnderAnotherHandle) {
  BatchHandle first, second;
  ASSERT_EQ(port_->allocate_batch(10, &first), Code::kOk);
  ASSERT_EQ(port_->release(first), Code::kOk);
  ASSERT_EQ(port_->allocate_batch(5, &second), Code::kOk);
  EXPECT_NE(first, second);
  EXPECT_EQ(static_cast<uint32_t>(first), static_cast<uint32_t>(second)) << "the same place";
  BatchStatus s;
  EXPECT_EQ(port_->status(first, &s), Code::kStale);
  EXPECT_EQ(submit(first, 1), Code::kStale);
  EXPECT_EQ(submit(second, 6), Code::kLimit) << "its room is what was asked for";
  EXPECT_EQ(submit(second, 5, 0), Code::kOk);
  EXPECT_TRUE(status(second).ok()) << "nothing to move";
}

TEST_P(PortAlone, ANotifyOfAnEmptyBatchGoesAtOnce) {
  BatchHandle batch;
  ASSERT_EQ(port_->allocate_batch(1, &batch), Code::kOk);
  ASSERT_EQ(port_->attach_notify(batch, segment_, "name", "text"), Code::kOk);
  EXPECT_EQ(port_->attach_notify(batch, segment_, "name", "text"), Code::kExists);
  NotifyOut out;
  ASSERT_EQ(rings_->notifies().take({&out, 1}), 1u);
  EXPECT_EQ(std::string_view(rings_->notify_text(out.index), 8), "nametext");
  EXPECT_EQ(status(batch).notify, NotifyState::kPending);
  EXPECT_EQ(port_->release(batch), Code::kBusy);
  ASSERT_TRUE(rings_->notify_results().put(TaskDone{out.ref, 0, TaskEnd::kFailed, Code::kLimit, 0}));
  (void)port_->poll();
  EXPECT_EQ(status(batch).notify, NotifyState::kFailed);
  EXPECT_FALSE(status(batch).ok());
  EXPECT_EQ(port_->release(batch), Code::kOk);
}

TEST_P(PortAlone, ANotifyWaitsForEveryTaskAndIsNotSentIfOneFailed) {
  for (const TaskEnd last : {TaskEnd::kDone, TaskEnd::kFailed}) {
    BatchHandle batch;
    ASSERT_EQ(port_->allocate_batch(2, &batch), Code::kOk);
    ASSERT_EQ(submit(batch, 2), Code::kOk);
    ASSERT_EQ(port_->attach_notify(batch, segment_, "n", "t"), Code::kOk);
    (void)port_->poll();
    const auto all = take();
    ASSERT_EQ(all.size(), 2u);
    end(all[0]);
    (void)port_->poll();
    EXPECT_TRUE(rings_->notifies().empty());
    end(all[1], last);
    (void)port_->poll();
    NotifyOut out;
    EXPECT_EQ(rings_->notifies().take({&out, 1}), last == TaskEnd::kDone ? 1u : 0u);
    if (last == TaskEnd::kFailed) {
      EXPECT_EQ(status(batch).notify, NotifyState::kFailed);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Workers, PortAlone, ::testing::Values(uint16_t{1}, uint16_t{2}));

}  // namespace
}  // namespace sluice::test
