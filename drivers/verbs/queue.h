/// @file queue.h
/// One completion queue, one shared receive queue, and a reliable queue pair for each path.
///
/// Model    Each accepted op and receive has a record; the work request's id is its index and generation. The records
///          of a path's ops form a list in the order posted: queue pairs complete in that order, so one completion ends
///          all before it, and only some ask for one: the last of a doorbell and each min(depth/2, 64)th.
///          post() builds a chain of work requests for each path; flush() rings one doorbell for each chain.
///          A path has an end (End) with a queue pair. address() makes the pair, connect() takes it to the end. When a
///          pair fails, its first failed op says why, and what follows ends with the same code. Of a pair that fails or
///          is closed everything is flushed by the device; what it has not given back at a deadline ends when the pair
///          is destroyed, after which the device touches nothing of it.
///          Without shared receives the receives are dealt out to the pairs (plain_receives.cc). A receive that comes
///          back for its pair's failure is posted again here, and nobody hears of it.
/// Threads  One owner; address() also from the service thread, for a path that its owner does not use.
/// Memory   Tables are made at open. Each pair has a send queue of the whole depth.
/// Errors   What is wrong with an op by itself (too long, one-sided on a device for messages) is not posted.
/// Order    Pairs are destroyed before the receive queue, that before the completion queue.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <span>
#include <vector>

#include "blob.h"
#include "device.h"
#include "xport/driver.h"

namespace sluice::verbs {

struct QueueCounters {
  uint64_t doorbells = 0;       ///< Calls of ibv_post_send.
  uint64_t sends = 0;           ///< Work requests posted by them.
  uint64_t signalled = 0;       ///< Of those, how many asked for a completion.
  uint64_t receive_chains = 0;  ///< Calls that posted receives.
  uint64_t failures = 0;        ///< Ends of paths that failed.
  uint64_t not_flushed = 0;     ///< Ops that the device did not give back by the deadline.
  uint64_t stale = 0;           ///< Completions of what was given back before.
};

class VerbsQueue final : public Queue {
 public:
  /// @pre @p host outlives the queue. @return kBadArgument, kLimit, kNoMemory, kDeviceError.
  static Status make(const QueueHost& host, const QueueParams& params, std::unique_ptr<Queue>* out);
  ~VerbsQueue() override;

  uint32_t post(std::span<const Op> ops) noexcept override;
  uint32_t poll(std::span<Completion> out) noexcept override;
  uint32_t refill(std::span<const RecvBuf> bufs) noexcept override;
  void flush() noexcept override;
  QueueDepth depth() const noexcept override { return {tx_depth_, rx_depth_}; }

  Status address(PathId path, std::vector<std::byte>* out) override;
  Status connect(PathId path, std::span<const std::byte> peer) override;
  Code close(PathId path) noexcept override;
  void shutdown() noexcept override;

  const QueueCounters& counters() const noexcept { return counters_; }
  /// The queue pair of a connected path, for tests that break it; null when there is none.
  ibv_qp* pair_of(PathId path) noexcept;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  enum class State : uint8_t { kFree, kPosted, kDone };

  struct Record {
    uint64_t cookie;
    uint32_t next;        // free list, done list, the ops of an end, or the receives without a pair
    uint32_t end;         // of an op, or of a receive that a pair has alone
    uint32_t generation;  // grows each time the record is freed
    uint32_t bytes;       // received, in the done list
    State state;
    Code code;  // in the done list
  };
  struct End {
    ibv_qp* qp = nullptr;
    PathId path{kNone};
    uint32_t head = kNone, tail = kNone;  // ops, in the order posted
    uint32_t outstanding = 0;
    ibv_send_wr* first = nullptr;  // the chain that no doorbell was rung for
    ibv_send_wr* last = nullptr;
    uint32_t unsignalled = 0;
    uint32_t peer_msg_bytes = 0;
    uint32_t receives = 0, receives_wanted = 0;  // of its own
    uint64_t settle_ns = 0, deadline_ns = 0;     // once it has failed or is closed; 0: not looked at yet
    Code broken = Code::kOk;                     // what every further op ends with
    bool closing = false, listed = false;
  };
  /// What address() made for a path.
  struct Offer {
    ibv_qp* qp = nullptr;  // until connect() takes it
    EndAddress self;
    uint32_t gid_index = 0;
    bool made = false;
  };

  explicit VerbsQueue(const QueueHost& host) : host_(host) {}

  // queue.cc: the hot half
  uint32_t take(uint32_t* free_list) noexcept;
  void untake(uint32_t* free_list, uint32_t index) noexcept;
  uint64_t id_of(uint32_t index) const noexcept { return uint64_t{records_[index].generation} << 32 | index; }
  uint32_t index_of(uint64_t id) const noexcept;
  void give(uint32_t index, Code code, uint32_t bytes) noexcept;
  uint32_t take_done(std::span<Completion> out) noexcept;
  Code judge(const Op& op, const End* end) const noexcept;
  void chain(const Op& op, uint32_t index, uint32_t end) noexcept;
  void ring(End& end) noexcept;
  void end_until(End& end, uint32_t index, Code code) noexcept;
  bool on_receive(uint32_t index, const ibv_wc& wc, Completion* out) noexcept;
  void on_send(uint32_t index, const ibv_wc& wc) noexcept;
  void repost(uint32_t index) noexcept;
  uint32_t post_shared(std::span<const uint32_t> indices) noexcept;

  // queue_ends.cc: ends that fail or are closed
  void break_end(uint32_t end, Code code) noexcept;
  void settle_ends() noexcept;
  bool settled(End& end, uint64_t now) noexcept;
  void end_pair(End& end) noexcept;
  void drop_unrung(End& end, const ibv_send_wr* from) noexcept;
  void take_back_receives(uint32_t end) noexcept;
  void drain() noexcept;
  void sweep() noexcept;

  // queue_open.cc
  Status open(const QueueParams& params);
  Status open_objects();
  void make_tables(const QueueParams& params);
  Status make_pair(ibv_qp** out);
  Status make_offer(PathId path);
  Status judge_peer(const EndAddress& self, const EndAddress& peer) const;
  Status raise(ibv_qp* qp, const Offer& offer, const EndAddress& peer);

  // plain_receives.cc
  void deal() noexcept;
  uint32_t neediest() const noexcept;
  bool post_plain(End& end, uint32_t end_index) noexcept;

  const QueueHost& host_;
  uint32_t tx_depth_ = 0, rx_depth_ = 0, msg_bytes_ = 0;
  uint32_t inline_bytes_ = 0;
  uint32_t signal_every_ = 1;
  bool shut_ = false;
  uint32_t free_tx_ = kNone, free_rx_ = kNone;
  uint32_t done_head_ = kNone, done_tail_ = kNone;
  uint32_t stock_ = kNone;         // receives that no pair has yet
  std::vector<Record> records_;    // tx_depth_ of sends, then rx_depth_ of receives
  std::vector<ibv_send_wr> work_;  // by index of a send
  std::vector<ibv_sge> pieces_;    // two for each send, then one for each receive
  std::vector<uint32_t> paths_;    // PathId to end
  std::vector<Offer> offers_;      // by PathId
  std::vector<End> ends_;          // twice as many as paths: a closed one stays until its ops are home
  std::vector<uint32_t> free_ends_;
  std::vector<uint32_t> unrung_;   // ends with a chain
  std::vector<uint32_t> failing_;  // ends that failed or are closed, until they have settled
  ibv_cq* cq_ = nullptr;
  ibv_srq* srq_ = nullptr;
  QueueCounters counters_;
};

}  // namespace sluice::verbs
