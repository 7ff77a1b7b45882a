// A queue whose every answer the test decides: it refuses posts, fails or withholds completions, loses messages, and
// delivers crafted ones. Two of them can be linked, so that what one sends arrives at the other.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "xport/driver.h"

namespace sluice::test {

template <typename T>
class Fifo {
 public:
  explicit Fifo(size_t capacity) : items_(capacity) {}
  size_t size() const { return count_; }
  void push(const T& item) {
    if (count_ == items_.size()) std::abort();
    items_[(head_ + count_++) % items_.size()] = item;
  }
  T pop() {
    const T item = items_[head_];
    head_ = (head_ + 1) % items_.size();
    --count_;
    return item;
  }

 private:
  std::vector<T> items_;
  size_t head_ = 0, count_ = 0;
};

class FakeQueue final : public Queue {
 public:
  struct Sent {
    PathId path;
    uint64_t cookie;
    std::vector<std::byte> bytes;
  };

  FakeQueue(uint32_t tx, uint32_t rx) : depth_{tx, rx}, rx_(rx), held_(tx), done_(tx + rx) {}

  // What the test decides.
  uint32_t accept = UINT32_MAX;       ///< Of each post, so many ops are taken.
  uint32_t accept_recv = UINT32_MAX;  ///< Of each refill.
  uint32_t fail_next = 0;             ///< So many accepted ops fail.
  uint32_t lose_next = 0;             ///< So many accepted ops complete, and their messages arrive nowhere.
  bool withhold = false;              ///< Accepted ops complete only with release().
  uint32_t withheld_paths = 0;        ///< By bit of the path: the same, for some of them.
  bool record = true;
  // What the test sees.
  std::vector<Sent> sent;
  uint64_t overruns = 0;   ///< Messages that found no receive: somebody broke the credit laws.
  uint64_t delivered = 0;  ///< Messages that found one.
  uint32_t connects = 0, closes = 0, flushes = 0;

  void link(PathId path, FakeQueue* peer) { links_[raw(path)] = peer; }
  uint32_t posted_receives() const { return static_cast<uint32_t>(rx_.size()); }
  uint32_t received() const { return pending_recv_; }  ///< Messages that were not polled yet.
  size_t held() const { return held_.size(); }
  void release(Code code = Code::kOk) {
    while (held_.size() != 0) finish(held_.pop(), code);
  }
  bool deliver(std::span<const std::byte> bytes) {
    if (rx_.size() == 0) {
      ++overruns;
      return false;
    }
    const RecvBuf to = rx_.pop();
    if (bytes.size() > to.bytes) std::abort();
    std::memcpy(to.addr, bytes.data(), bytes.size());
    done_.push({to.cookie, static_cast<uint32_t>(bytes.size()), CompletionKind::kRecv, Code::kOk});
    ++pending_recv_;
    ++delivered;
    return true;
  }

  uint32_t post(std::span<const Op> ops) noexcept override {
    uint32_t n = 0;
    for (; n < ops.size() && n < accept && out_ < depth_.tx; ++n) {
      const Op& op = ops[n];
      ++out_;
      if (record) sent.push_back({op.path, op.cookie, {op.addr0, op.addr0 + op.bytes0}});
      if (withhold || (withheld_paths >> raw(op.path) & 1) != 0)
        held_.push(op);
      else
        finish(op, fail_next != 0 ? (--fail_next, Code::kDeviceError) : Code::kOk);
    }
    return n;
  }
  uint32_t poll(std::span<Completion> out) noexcept override {
    uint32_t n = 0;
    for (; n < out.size() && done_.size() != 0; ++n) {
      out[n] = done_.pop();
      --(out[n].kind == CompletionKind::kOp ? out_ : pending_recv_);
    }
    return n;
  }
  uint32_t refill(std::span<const RecvBuf> bufs) noexcept override {
    uint32_t n = 0;
    for (; n < bufs.size() && n < accept_recv && rx_.size() < depth_.rx; ++n) rx_.push(bufs[n]);
    return n;
  }
  uint32_t recall(std::span<const uint64_t> cookies) noexcept override {
    uint32_t n = 0;
    for (size_t left = rx_.size(); left != 0; --left) {
      const RecvBuf buf = rx_.pop();
      if (std::find(cookies.begin(), cookies.end(), buf.cookie) == cookies.end()) {
        rx_.push(buf);
        continue;
      }
      done_.push({buf.cookie, 0, CompletionKind::kRecv, Code::kCancelled});
      ++pending_recv_;
      ++n;
    }
    return n;
  }
  void flush() noexcept override { ++flushes; }
  QueueDepth depth() const noexcept override { return depth_; }
  Status address(PathId, std::vector<std::byte>*) override { return Code::kOk; }
  Status connect(PathId, std::span<const std::byte>) override {
    ++connects;
    return Code::kOk;
  }
  Code close(PathId) noexcept override {
    ++closes;
    return Code::kOk;
  }
  void shutdown() noexcept override {}

 private:
  void finish(const Op& op, Code code) {
    FakeQueue* peer = links_[raw(op.path)];
    if (code == Code::kOk && lose_next != 0)
      --lose_next;
    else if (code == Code::kOk && peer != nullptr)
      (void)peer->deliver({op.addr0, op.bytes0});
    done_.push({op.cookie, 0, CompletionKind::kOp, code});
  }

  const QueueDepth depth_;
  std::array<FakeQueue*, 8> links_{};
  Fifo<RecvBuf> rx_;
  Fifo<Op> held_;
  Fifo<Completion> done_;
  uint32_t out_ = 0, pending_recv_ = 0;
};

}  // namespace sluice::test
