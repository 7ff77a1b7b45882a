/// @file driver.h
/// The one door between the data plane and a device: what every driver implements, and nothing else.
///
/// Model    A Driver finds devices. A Device registers memory and opens queues. A Queue belongs to one lcore; it posts
///          operations to paths, polls completions, and is refilled with receives. A driver translates: credit,
///          retry, chunking, rails, deadlines and fairness live above it.
/// Threads  Driver and Device: slow calls, service thread or control core, one at a time. A Queue: its owner's lcore.
/// Memory   post, poll, refill and flush never allocate. Buffers named in an op stay the caller's and must not
///          change until its completion. A driver keeps each cookie and hands it back unchanged.
/// Errors   post and refill take a prefix and return its length: the rest is untouched and still the caller's ("again"
///          is not an error). Each accepted op gives exactly one completion, failed or not, also after close().
/// Order    Messages on one path arrive in the order posted when caps().ordered. Completions of different ops may
///          come in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "mem/region.h"
#include "xport/pair_options.h"

namespace sluice {

inline constexpr uint32_t kMaxBurst = 32;  ///< The most a hot call takes at once.

/// A device that could be opened.
struct DeviceInfo {
  std::string name;      ///< "lo", "mlx5_0", "efa_0-rdm": what --list prints and options select.
  std::string provider;  ///< libfabric's provider name; empty for other drivers.
  std::string pci;       ///< "0000:c1:00.0"; empty when there is none.
  std::string address;   ///< For people.
  int numa_node = -1;
  uint64_t bits_per_s = 0;  ///< 0: unknown.
  bool loopback = false;
  std::string left_out = {};  ///< Of list(): why probe() does not offer it; empty: it does.
};

/// What a device is opened for.
struct DeviceUse {
  bool rma = false;            ///< One-sided operations too, in both directions.
  bool device_memory = false;  ///< Regions of kind kDevice too.
  uint64_t max_region_bytes =
      0;  ///< Chunks of regions no larger than this, below the device's own cap; 0: the device's.
  PairOptions pair{};
};

/// What an opened device really gives.
struct DeviceCaps {
  uint32_t tx_depth = 0;  ///< Operations outstanding per queue, as the provider reports it.
  uint32_t rx_depth = 0;  ///< Receives outstanding per queue.
  uint64_t max_msg_bytes = 0;
  uint64_t max_region_bytes = 0;  ///< 0: no cap.
  uint64_t page_entries = 0;      ///< Pages that the device can map, of all regions together; 0: no known limit.
  uint32_t inject_bytes = 0;
  uint32_t sge = 1;            ///< Local pieces per op (1 or 2 are used).
  bool rma = false;            ///< As DeviceUse asked for: OpKind kWrite and kRead work.
  bool device_memory = false;  ///< As DeviceUse asked for.
  bool one_target = false;     ///< Memory is reached through the first queue opened only: peers connect to that one.
  bool ordered = false;
  bool delivery_complete = false;  ///< A kWrite completes once its bytes are in the peer's memory. Else it may complete
                                   ///< before, and a kRead posted behind it on its path completes after that.
  bool needs_local_reg = false;    ///< Local buffers of send and receive must be registered.
  bool idle_poll_costly = false;   ///< An empty poll costs over a microsecond: do not poll an idle queue on each turn.
  bool closes_paths = false;       ///< close() ends a path's ops soon. Else each comes when the provider lets it go,
                                   ///< at the latest with shutdown(), and its buffer must stay as it is until then.
  bool target_polls = false;       ///< One-sided operations on a node's memory go on only while it polls its queues.
  bool paired = false;             ///< A path is a pair of ends, each with an address of its own: both are opened, and
                                   ///< closed, together.
};

enum class OpKind : uint8_t { kSend, kWrite, kRead };

/// One operation. The first piece is required; the second may be empty (bytes1 = 0).
struct Op {
  OpKind kind;
  PathId path;
  uint64_t cookie;
  const std::byte* addr0;
  uint64_t desc0;
  const std::byte* addr1;
  uint64_t desc1;
  uint32_t bytes0;
  uint32_t bytes1;
  uint64_t remote_addr;  ///< For kWrite and kRead: as the peer's device names it.
  uint64_t remote_key;
};

/// One receive buffer.
struct RecvBuf {
  std::byte* addr;
  uint64_t desc;
  uint64_t cookie;
  uint32_t bytes;
};

enum class CompletionKind : uint8_t { kOp, kRecv };

struct Completion {
  uint64_t cookie;
  uint32_t bytes;  ///< Received bytes for kRecv; undefined for kOp.
  CompletionKind kind;
  Code code;  ///< kOk, kPeerDead, kCancelled, kBadArgument, kDeviceError.
};

struct QueueParams {
  uint32_t tx_depth = 256;  ///< Clamped to the device's; the queue says what it gives.
  uint32_t rx_depth = 512;
  uint32_t max_paths = 1024;
  uint32_t msg_bytes = 0;  ///< Largest message that will be sent or received.
};

struct QueueDepth {
  uint32_t tx;
  uint32_t rx;
};

class Queue {
 public:
  virtual ~Queue() = default;  ///< Releases everything; what was outstanding is home.

  /// Post a prefix of @p ops (at most kMaxBurst). An op to a path that is not connected is accepted and completes
  /// with kPeerDead. @return how many were accepted.
  virtual uint32_t post(std::span<const Op> ops) noexcept = 0;
  /// @return how many of @p out were filled.
  virtual uint32_t poll(std::span<Completion> out) noexcept = 0;
  /// Post a prefix of @p bufs as receives. @return how many were accepted.
  virtual uint32_t refill(std::span<const RecvBuf> bufs) noexcept = 0;
  /// Ask that the posted receives with these cookies come back through poll() with kCancelled, where the device can
  /// withdraw receives at all. Slow. @return how many will.
  virtual uint32_t recall(std::span<const uint64_t> cookies) noexcept {
    (void)cookies;
    return 0;
  }
  /// Ring the doorbell for what was posted since the last flush.
  virtual void flush() noexcept = 0;
  virtual QueueDepth depth() const noexcept = 0;

  /// The blob that the other end of @p path needs for its connect(). Where caps().paired it is this path's own, made
  /// here if the path has none yet, and made anew if it has and was not connected. Also from the service thread, as
  /// long as the path is not connected. @return kLimit.
  virtual Status address(PathId path, std::vector<std::byte>* out) = 0;
  /// Make @p path lead to @p peer. @return kBadArgument for a blob that does not parse, kExists, kLimit.
  virtual Status connect(PathId path, std::span<const std::byte> peer) = 0;
  /// Give up @p path: its outstanding ops come back through poll() with kCancelled or their true result, soon, even
  /// if the peer is stopped. @return kNotFound.
  virtual Code close(PathId path) noexcept = 0;
  /// The process that @p path led to has ended for certain (not merely silent): nothing reads the memory of ops on it
  /// any more, and they come back with kPeerDead, on a path closed before as well. Where closes_paths is false this is
  /// what frees them. @pre the path has not been connected again.
  virtual void peer_gone(PathId path) noexcept { (void)path; }
  /// Stop: every outstanding op and receive comes back through poll(); nothing is accepted any more.
  virtual void shutdown() noexcept = 0;
};

class Device {
 public:
  virtual ~Device() = default;  ///< @pre its queues are gone and its regions deregistered.

  virtual const DeviceInfo& info() const noexcept = 0;
  virtual const DeviceCaps& caps() const noexcept = 0;
  /// How many of caps().page_entries the regions that are registered use.
  virtual uint64_t mapped_pages() const noexcept { return 0; }
  /// Register @p region as device @p index of the process: all chunks or none; fills region.keys(index).
  /// @p remote: peers that know a chunk's key may read and write it; keys cannot be guessed where the device lets us
  /// choose them. @return kExists, kLimit, kNoMemory, kDeviceError.
  virtual Status reg(Region& region, uint16_t index, bool remote) = 0;
  /// Undo reg(). Tries every chunk; returns the first error.
  virtual Status dereg(Region& region, uint16_t index) = 0;
  virtual Status open_queue(const QueueParams& params, std::unique_ptr<Queue>* out) = 0;
  /// Take what the device tells on its own: ports, addresses, its end. On the service thread, now and then.
  virtual void tend() noexcept {}
};

class Driver {
 public:
  virtual ~Driver() = default;

  virtual std::string_view name() const noexcept = 0;
  /// Devices that exist, without opening them, at least one. @p provider narrows the search; "auto": the best that
  /// there is; empty: all.
  /// @return kUnsupported with the reason when the driver cannot work here, kNotFound when it finds none.
  virtual Status probe(std::string_view provider, std::vector<DeviceInfo>* out) = 0;
  /// All that exists, for people: what probe() offers, then what it leaves out, with the reason. An entry without a
  /// name is a provider that has no device here.
  virtual Status list(std::string_view provider, std::vector<DeviceInfo>* out) { return probe(provider, out); }
  /// @return kNotFound, kUnsupported when it cannot be used as @p use asks.
  virtual Status open(const DeviceInfo& info, const DeviceUse& use, std::unique_ptr<Device>* out) = 0;
};

}  // namespace sluice
