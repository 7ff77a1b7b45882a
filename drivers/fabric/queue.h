/// @file queue.h
/// One libfabric endpoint of type FI_EP_RDM with its completion queue and address table.
///
/// Model    Each accepted op and receive has a record. The context that libfabric hands back is the record's index and
///          generation, or the address of a fi_context2 where the provider asks for one. A path is a route: an address
///          and the count of ops outstanding on it. A closed path's route stays until its last op is home, and only
///          then is the address removed, so that no provider meets an op to an address that is gone. Routes to one
///          address share one entry of the address table: shm (1.17) crashes when one of two equal ones is removed.
///
///          What libfabric 1.17 does with sends in flight to a peer, measured with 32 of them, 64 B to 1 MiB:
///          (shm has a worse fault: its regions are guarded by spin locks in shared memory, and a peer killed
///          or stopped while it holds ours makes our next fi_cq_read spin for ever: 2 of 4 kills under full load here.)
///          | provider    | peer stopped                   | peer killed                       |
///          | tcp;ofi_rxm | to 16 KiB done at once; larger | to 16 KiB done; larger never end; |
///          |             | end when it wakes              | later sends "again" for ever      |
///          | net         | done until the socket is full, | the rest cancelled in 0.3 ms;     |
///          |             | the rest when it wakes         | later sends "again" for ever      |
///          | shm         | to 4 KiB done at once; larger  | to 4 KiB done; larger never end;  |
///          |             | end when it wakes              | later sends "succeed"             |
///          fi_cancel of a send and fi_av_remove change nothing anywhere; only closing the endpoint ends them (and
///          tcp;ofi_rxm then refuses to close the domain, which is left). So close() cannot give such ops back
///          (caps().closes_paths is false), and peer_gone() does: once the peer's process has ended nothing reads
///          their memory, and a completion that still came would bear an old generation.
///          Closing an endpoint of tcp;ofi_rxm while it fetches a large message crashes in fi_close (a cancelled read
///          without context; about one in 30 closes in full flight). shutdown() therefore recalls the receives and
///          polls for a while first; if something is still under way then, such an endpoint is left open and never
///          polled again, so that nothing moves through it.
/// Threads  One owner. libfabric's own locks make queues of one domain independent.
/// Memory   Tables are made at open. A record whose fi_context2 libfabric may still hold stays taken.
/// Errors   What libfabric refuses at once (other than "again") is accepted and completes with its code.
/// Order    Endpoint closed before address table and completion queue.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>

#include <memory>
#include <span>
#include <vector>

#include "device.h"
#include "xport/driver.h"

namespace sluice::fabric {

class FabricQueue final : public Queue {
 public:
  static Status make(FabricDevice& device, const QueueParams& params, std::unique_ptr<Queue>* out);
  ~FabricQueue() override;

  uint32_t post(std::span<const Op> ops) noexcept override;
  uint32_t poll(std::span<Completion> out) noexcept override;
  uint32_t refill(std::span<const RecvBuf> bufs) noexcept override;
  uint32_t recall(std::span<const uint64_t> cookies) noexcept override;
  void flush() noexcept override {}  // each post has rung already
  QueueDepth depth() const noexcept override { return {tx_depth_, rx_depth_}; }

  Status address(PathId path, std::vector<std::byte>* out) override;
  Status connect(PathId path, std::span<const std::byte> peer) override;
  Code close(PathId path) noexcept override;
  void peer_gone(PathId path) noexcept override;
  void shutdown() noexcept override;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  enum class State : uint8_t { kFree, kPosted, kDone, kLost };

  struct alignas(32) Record {
    uint64_t cookie;
    uint32_t next;        // in the free list or in the done list
    uint32_t route;       // kNone for receives and for ops that had none
    uint32_t generation;  // grows each time the record is freed
    uint32_t bytes;       // received, of a record in the done list
    State state;
    Code code;  // of a record in the done list
    bool lost;  // given up, but libfabric may still hold its fi_context2
  };
  struct Route {
    fi_addr_t address;
    uint32_t outstanding;
    uint32_t peer;  // in peers_
    PathId path;
    uint32_t life;  // which connect() of the path it is of
    bool closing;
  };
  /// One entry of the address table.
  struct Peer {
    std::vector<std::byte> bytes;
    fi_addr_t address = FI_ADDR_UNSPEC;
    uint32_t routes = 0;  // 0: free
  };

  explicit FabricQueue(FabricDevice& device) : device_(device) {}
  Status open(const QueueParams& params);
  Status open_objects();
  void make_tables(uint32_t max_paths);
  void tell_depth(const QueueParams& asked) const;
  void warn_of_emulation() const;
  Status bind(fid* object, uint64_t flags, const char* what);

  Status insert(std::span<const std::byte> bytes, uint32_t* peer);
  Status judge(std::span<const std::byte> blob, std::span<const std::byte>* address) const;

  uint32_t take(uint32_t* free_list) noexcept;
  void untake(uint32_t* free_list, uint32_t index) noexcept;
  void* context_of(uint32_t index) noexcept;
  uint32_t index_of(const void* context) const noexcept;
  int64_t post_one(const Op& op, const Route& route, void* context) noexcept;
  void complete_here(uint32_t index, Code code, uint64_t bytes = 0) noexcept;
  bool finish(const void* context, Code code, uint64_t bytes, Completion* out) noexcept;
  void release(uint32_t index, Code code, uint64_t bytes, Completion* out) noexcept;
  void drop_route(uint32_t route) noexcept;
  void settle() noexcept;
  bool busy() const noexcept;
  uint32_t take_done(std::span<Completion> out) noexcept;
  uint32_t read_errors(std::span<Completion> out) noexcept;
  uint32_t sweep(std::span<Completion> out) noexcept;

  FabricDevice& device_;
  InfoPtr info_;  // this endpoint's
  uint64_t cq_entries_ = 0;
  uint32_t tx_depth_ = 0;
  uint32_t rx_depth_ = 0;
  uint32_t free_tx_ = kNone;
  uint32_t free_rx_ = kNone;
  uint32_t done_head_ = kNone;
  uint32_t done_tail_ = kNone;
  uint32_t swept_ = 0;                 // records before it are home, after shutdown
  std::vector<Record> records_;        // tx_depth_ of sends, then rx_depth_ of receives
  std::vector<fi_context2> contexts_;  // empty unless the provider asks for them
  std::vector<uint32_t> paths_;        // PathId to route
  std::vector<uint32_t> lives_;        // of each path, how often it was connected
  std::vector<Route> routes_;          // twice as many as paths: a closed one stays until its ops are home
  std::vector<Peer> peers_;
  std::vector<uint32_t> free_routes_;
  FidPtr<fid_cq> cq_;
  FidPtr<fid_av> av_;
  FidPtr<fid_ep> ep_;  // last made, first closed
};

}  // namespace sluice::fabric
