// A queue that moves bytes as a device for one-sided operations does, and that refuses, fails and withholds as the test
// decides. It holds the worker to what a real device demands: no operation crosses a seam of either side.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <span>
#include <vector>

#include "mem/region.h"
#include "xport/driver.h"

namespace sluice::test {

class FakeRma final : public Queue {
 public:
  explicit FakeRma(uint32_t depth) : depth_(depth) {}

  // What the test decides.
  uint32_t accept = UINT32_MAX;  ///< Of each post, so many ops are taken.
  uint32_t fail_next = 0;        ///< So many accepted ops fail with fail_code.
  Code fail_code = Code::kDeviceError;
  bool dead = false;        ///< Every op fails.
  bool withhold = false;    ///< Accepted ops complete only with release(); what they move, moves then.
  bool keeps_dead = false;  ///< peer_gone() gives nothing back.
  bool late = false;        ///< A write completes at once, and is placed by the next read.
  // What the test sees.
  std::vector<Op> ops;
  uint64_t torn = 0;  ///< Ops that crossed a seam, or whose key or descriptor is not that of their chunk.
  uint64_t polls = 0, polls_open = 0;  ///< In all, and before shutdown().
  uint32_t connects = 0, closes = 0, shutdowns = 0, gone = 0;

  /// A span that ops may touch: remotely with @p key, locally with @p desc.
  void chunk(std::byte* base, uint64_t bytes, uint64_t key, uint64_t desc) {
    chunks_.push_back({base, bytes, key, desc});
  }
  size_t held() const { return held_.size(); }
  size_t out() const { return held_.size() + done_.size(); }
  void release(size_t count = SIZE_MAX, Code code = Code::kOk) {
    for (; count != 0 && !held_.empty(); --count) {
      finish(held_.front(), code);
      held_.pop_front();
    }
  }

  uint32_t post(std::span<const Op> all) noexcept override {
    uint32_t n = 0;
    for (; n < all.size() && n < accept && out() < depth_ && shutdowns == 0; ++n) {
      ops.push_back(all[n]);
      check(all[n]);
      if (withhold)
        held_.push_back(all[n]);
      else
        finish(all[n], Code::kOk);
    }
    return n;
  }
  uint32_t poll(std::span<Completion> out) noexcept override {
    ++polls;
    polls_open += shutdowns == 0 ? 1 : 0;
    uint32_t n = 0;
    for (; n < out.size() && !done_.empty(); ++n) {
      out[n] = done_.front();
      done_.pop_front();
    }
    return n;
  }
  uint32_t refill(std::span<const RecvBuf>) noexcept override { return 0; }
  void flush() noexcept override {}
  QueueDepth depth() const noexcept override { return {depth_, 1}; }
  Status address(PathId, std::vector<std::byte>*) override { return Code::kOk; }
  Status connect(PathId, std::span<const std::byte>) override {
    ++connects;
    return Code::kOk;
  }
  Code close(PathId) noexcept override {
    ++closes;
    return Code::kOk;
  }
  void peer_gone(PathId) noexcept override {
    ++gone;
    if (!keeps_dead) release(SIZE_MAX, Code::kPeerDead);
  }
  void shutdown() noexcept override {
    ++shutdowns;
    release(SIZE_MAX, Code::kCancelled);
  }

 private:
  struct Chunk {
    std::byte* base;
    uint64_t bytes, key, desc;
    bool holds(const std::byte* at, uint64_t length) const { return at >= base && at + length <= base + bytes; }
  };
  void check(const Op& op) {
    bool local = false, remote = false;
    for (const Chunk& chunk : chunks_) {
      local = local || (chunk.desc == op.desc0 && chunk.holds(op.addr0, op.bytes0));
      remote = remote ||
               (chunk.key == op.remote_key && chunk.holds(reinterpret_cast<std::byte*>(op.remote_addr), op.bytes0));
    }
    if (!local || !remote || op.bytes0 == 0) ++torn;
  }
  void place(const Op& op) {
    auto* remote = reinterpret_cast<std::byte*>(op.remote_addr);
    if (op.kind == OpKind::kWrite)
      std::memcpy(remote, op.addr0, op.bytes0);
    else
      std::memcpy(const_cast<std::byte*>(op.addr0), remote, op.bytes0);
  }
  void finish(const Op& op, Code code) {
    if (code == Code::kOk && (dead || fail_next != 0)) {
      if (fail_next != 0) --fail_next;
      code = fail_code;
    }
    if (code == Code::kOk && late && op.kind == OpKind::kWrite) {
      unplaced_.push_back(op);
    } else if (code == Code::kOk) {
      for (const Op& write : unplaced_) place(write);
      unplaced_.clear();
      place(op);
    }
    done_.push_back({op.cookie, 0, CompletionKind::kOp, code});
  }

  const uint32_t depth_;
  std::vector<Chunk> chunks_;
  std::deque<Op> held_;
  std::vector<Op> unplaced_;
  std::deque<Completion> done_;
};

}  // namespace sluice::test
