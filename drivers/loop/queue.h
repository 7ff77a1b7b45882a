/// @file queue.h
/// The queue of the loop driver.
///
/// Model    A path is two rings: one that this queue made at connect() and reads, and one that the peer made and this
///          queue opens when it first sends. Sending copies into a cell; poll copies from cells into posted receives.
///          A send is complete once it is in the ring; a
///          one-sided op is carried out at once (remote.h). Until the peer has connected too, post takes nothing.
/// Threads  Its owner's; the peer may be any other thread or process.
/// Memory   Tables are sized at open. The first pass through a ring takes page faults.
/// Errors   What the peer writes is copied once and checked: an index or a length that cannot be ends the path with
///          kDeviceError. A peer whose process ended is noticed while it refuses, and its ops end with kPeerDead.
///          Two paths of one queue to the same peer queue are refused with kExists.
/// Order    Per path, as posted.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "loop/address.h"
#include "loop/fifo.h"
#include "loop/ring.h"
#include "xport/driver.h"

namespace sluice {

struct LoopCounters {
  uint64_t ring_full = 0;      ///< Posts refused since the peer's ring had no cell.
  uint64_t peer_not_here = 0;  ///< Posts refused since the peer has not connected yet.
  uint64_t no_receive = 0;     ///< Polls that found a message and no posted receive.
  uint64_t bad_peer = 0;       ///< Paths ended for what the peer wrote.
};

class LoopQueue final : public Queue {
 public:
  /// @pre @p params are within the device's caps.
  LoopQueue(const QueueParams& params, const LoopAddress& self, bool rma);
  ~LoopQueue() override;

  uint32_t post(std::span<const Op> ops) noexcept override;
  uint32_t poll(std::span<Completion> out) noexcept override;
  uint32_t refill(std::span<const RecvBuf> bufs) noexcept override;
  uint32_t recall(std::span<const uint64_t> cookies) noexcept override;
  void flush() noexcept override {}  // post publishes once per path and burst
  QueueDepth depth() const noexcept override { return depth_; }
  Status address(PathId path, std::vector<std::byte>* out) override;
  Status connect(PathId path, std::span<const std::byte> peer) override;
  Code close(PathId path) noexcept override;
  void shutdown() noexcept override;

  const LoopCounters& counters() const noexcept { return counters_; }

 private:
  struct Path {
    Ring tx;
    uint64_t tx_tail = 0;
    uint64_t tx_head = 0;  // the peer's, as last seen
    Ring rx;
    uint64_t rx_head = 0;
    uint32_t peer_msg_bytes = 0;
    Code broken = Code::kOk;  // what every further op ends with
    bool connected = false;
    uint32_t refusals = 0;  // since the last success
    uint32_t next_check = 0;
    LoopAddress peer;
    std::string tx_name;
  };
  struct Done {
    uint64_t cookie;
    Code code;
  };

  Path* find(PathId path) noexcept;
  Code ready(Path& path) noexcept;
  uint32_t send(Path* path, std::span<const Op> ops) noexcept;
  uint32_t fill(Path& path, std::span<const Op> ops) noexcept;
  Code refuse(Path& path) noexcept;
  Code reclaim(Path& path) noexcept;
  void open_tx(Path& path) noexcept;
  void condemn(Path& path) noexcept;
  uint32_t reap(std::span<Completion> out) noexcept;
  uint32_t receive(std::span<Completion> out) noexcept;
  uint32_t receive_from(Path& path, std::span<Completion> out) noexcept;
  uint32_t return_recalled(std::span<Completion> out) noexcept;

  QueueDepth depth_;
  LoopAddress self_;
  uint32_t cells_;
  const bool rma_;
  bool shut_ = false;
  bool receive_first_ = false;
  std::vector<Path> paths_;
  std::vector<uint32_t> active_;  // the connected ones
  uint32_t cursor_ = 0;           // into active_: where the next poll begins
  Fifo<Done> done_;
  Fifo<RecvBuf> posted_;
  Fifo<uint64_t> recalled_;  // receives on their way back
  LoopCounters counters_;
};

}  // namespace sluice
