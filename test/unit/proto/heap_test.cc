// Nothing in proto touches the heap once it is set up: operator new is counted here for the whole program.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>

#include "proto/credit.h"
#include "proto/ctrl_channel.h"
#include "proto/ctrl_frame.h"
#include "proto/grant_share.h"
#include "proto/msg_header.h"
#include "proto/rx_track.h"
#include "proto/session.h"

namespace {
std::atomic<uint64_t> heap_calls{0};

void* counted(std::size_t size) {
  ++heap_calls;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
}  // namespace

void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace sluice {
namespace {

TEST(Heap, TheCounterCounts) {
  const uint64_t before = heap_calls;
  const auto memory = std::make_unique<std::array<char, 100>>();
  EXPECT_NE(memory.get(), nullptr);
  EXPECT_GT(heap_calls, before);
}

struct Everything {
  CreditLedger ledger;
  CreditGranter granter;
  CtrlChannel channel;
  SeqWindow window;
  RxTasks tasks;
  GrantShare share{8};
  std::array<std::byte, 256> frame;
  std::array<std::byte, 128> message{};
};

// One message and its grant, through every part. Returns false when something refused.
bool move_one(Everything& e, uint32_t i) {
  const Charge charge = message_charge(64, true, 128);
  bool good = e.granter.raise_to(window_charge(8, 8, 128, 64)) || i != 0;
  const FrameHeader header{FrameType::kCreditGrant, kFlagNeedsAck, SessionId{1}, Epoch{1}, i + 1, 0};
  const size_t bytes = encode_grant(e.frame, header, e.granter.totals());
  Frame frame;
  CreditGrant grant;
  good &= parse_frame(std::span(e.frame).first(bytes), kLastType, &frame) == Code::kOk;
  good &= parse_grant(frame.payload, &grant) == Code::kOk;
  good &= e.ledger.apply_grant(Epoch{1}, frame.header.seq, grant) == Code::kOk;
  good &= e.ledger.reserve(charge);
  e.ledger.posted(charge);
  encode_message(e.message.data(), {kMsgMagic, kMsgVersion, MsgType::kWrite, 0, 0, 0, SessionId{1}, 1, 64,
                                    TaskId{i / 2}, 0, 128, 0, i % 2, i + 1, 0});
  MsgHeader parsed;
  if (parse_message(e.message, &parsed) != Code::kOk) return false;
  good &= e.window.take(parsed.seq) == Code::kOk;
  uint64_t done = false;
  good &= e.tasks.add(parsed.task, parsed.total, parsed.length, &done) == Code::kOk && (done != 0) == (i % 2 == 1);
  good &= e.granter.accept(charge) == Code::kOk && e.granter.release(charge) == Code::kOk;
  e.channel.send(FrameType::kNotify, i, i);
  CtrlChannel::Verdict verdict;
  good &= e.channel.on_frame(i + 1, i + 1, true, i, &verdict) == Code::kOk && e.channel.ack_to_send() == i + 1;
  uint64_t cookie;
  good &= e.channel.take_acked(&cookie) && cookie == i;
  e.share.update(i % 8, i % 5, i % 3 != 0);
  std::array<GrantShare::Window, 8> windows;
  e.share.share(windows);
  if (i % 16 == 0) good &= e.share.remove(i / 16 % 8) == Code::kOk && e.share.add(i / 16 % 8, 1, 9) == Code::kOk;
  return good;
}

TEST(Heap, NoCallsInTenThousandOperations) {
  auto e = std::make_unique<Everything>();
  const Charge committed = window_charge(8, 8, 128, 64);
  e->ledger.open(Epoch{1}, committed);
  e->granter.open(Epoch{1}, committed);
  e->channel.open(1000, 1000);
  e->share.set_capacity(200);
  for (uint32_t s = 0; s < 8; ++s) ASSERT_EQ(e->share.add(s, 1, 9), Code::kOk);
  const uint64_t before = heap_calls;
  bool good = true;
  for (uint32_t i = 0; i < 10000; ++i) good &= move_one(*e, i);
  const uint64_t calls = heap_calls - before;
  EXPECT_TRUE(good);
  EXPECT_EQ(calls, 0u);
}

}  // namespace
}  // namespace sluice
