/// @file side.h
/// One end of a contract test: a queue with its memory, and the books on every op and receive.
///
/// Model    Each row of the table is a transport. A Side posts messages from its own slots, keeps its receives posted,
///          and checks at each completion that it is owed: one per accepted op, one per posted receive, cookies intact.
/// Threads  One.
/// Memory   One registered region: receive slots, then send slots.
/// Errors   A broken promise is a test failure, at once.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "xport/driver.h"

namespace sluice::contract {

/// One transport under test.
struct Row {
  const char* name;
  const char* driver;
  const char* provider;
  bool through_fault;  ///< Behind the fault decorator, with a plan that does nothing.
  bool checks_keys;    ///< A one-sided op with a wrong key or range fails. Else the layer above must never post one.
  bool shared_receives = true;
};
std::span<const Row> rows();
void PrintTo(const Row& row, std::ostream* out);
std::string row_name(const testing::TestParamInfo<Row>& test);

/// Open the first device of @p row, a loopback one if there is one. @return kNotFound, kUnsupported: cannot run here.
Status open_row(const Row& row, const DeviceUse& use, std::unique_ptr<Driver>* driver, std::unique_ptr<Device>* device);

using Bytes = std::vector<std::byte>;
/// Contents that depend on @p seed and on the place in the message.
Bytes pattern(size_t bytes, uint64_t seed);

struct SideParams {
  uint32_t tx_depth = 64;
  uint32_t rx_depth = 64;
  uint32_t msg_bytes = 4096;
  bool receives = true;  ///< Keep all receives posted.
};

class Side {
 public:
  Side(Device& device, const SideParams& params = {});
  ~Side();
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  Queue& queue() noexcept { return *queue_; }
  Bytes address(PathId path = PathId{0}) const;
  void connect(PathId path, const Bytes& peer);

  /// Offer one message, in two pieces when @p first_piece is less than its size. @return whether it was accepted.
  bool send(PathId path, const Bytes& message, size_t first_piece = SIZE_MAX);
  /// Offer @p count messages of @p bytes in one burst, with patterns seed, seed + 1, ... @return how many were
  /// accepted.
  uint32_t send_burst(PathId path, uint32_t count, size_t bytes, uint64_t seed);
  /// Offer a write of @p bytes, or a read of @p count bytes, whose contents go to fetched() when it has ended well.
  bool write(PathId path, const Bytes& bytes, const ChunkKey& to, uint64_t offset, size_t first_piece = SIZE_MAX);
  bool read(PathId path, size_t count, const ChunkKey& from, uint64_t offset);
  /// Poll once, and post the receives again that came back with a message.
  void turn();
  /// Post as many receives as the depth allows.
  void post_receives();
  void set_receives(bool on) noexcept { receives_ = on; }
  void shutdown() { queue_->shutdown(), receives_ = false; }

  std::vector<Bytes>& inbox() noexcept { return inbox_; }      ///< Messages, in the order of arrival.
  std::vector<Bytes>& fetched() noexcept { return fetched_; }  ///< What reads brought, in the order of completion.
  size_t accepted() const noexcept { return accepted_; }
  size_t completed() const noexcept { return completed_; }
  size_t outstanding() const noexcept { return ops_.size(); }
  size_t posted_receives() const noexcept { return posted_.size(); }
  /// How many ops ended with @p code.
  size_t ended(Code code) const;

 private:
  Op make_op(PathId path, uint32_t slot, const Bytes& message, size_t first_piece);
  uint32_t offer(std::span<const Op> ops, std::span<const uint32_t> slots);
  uint64_t desc(const std::byte* at) const;
  std::byte* slot(uint32_t index) noexcept { return region_->base() + uint64_t{index} * slot_bytes_; }
  void on_op(const Completion& completion);
  void on_receive(const Completion& completion);

  Device& device_;
  std::unique_ptr<Region> region_;
  std::unique_ptr<Queue> queue_;
  SideParams params_;
  uint64_t slot_bytes_;
  bool receives_;
  uint64_t next_cookie_ = 0x8000'0000'0000'0001;  // the highest bit and the lowest are both in use
  std::vector<uint32_t> free_rx_, free_tx_;
  struct Posted {
    uint32_t slot;
    size_t fetch;  // bytes that a read brings
  };
  std::unordered_map<uint64_t, Posted> ops_;       // by cookie, what is outstanding
  std::unordered_map<uint64_t, uint32_t> posted_;  // cookie of a posted receive to its slot
  std::vector<Bytes> inbox_;
  std::vector<Bytes> fetched_;
  std::unordered_map<Code, size_t> ends_;
  size_t accepted_ = 0;
  size_t completed_ = 0;
};

inline constexpr std::chrono::seconds kPatience{10};

/// Turn all @p sides, since providers may need both ends to be polled, until @p done. @return false after @p patience.
bool wait_for(std::initializer_list<Side*> sides, const std::function<bool()>& done,
              std::chrono::milliseconds patience = kPatience);
/// Offer @p message until it is accepted, turning all @p sides. @return false when it never was.
bool send_soon(Side& from, PathId path, const Bytes& message, std::initializer_list<Side*> sides,
               size_t first_piece = SIZE_MAX);

/// The base of every test: the device of the row, or a skip with the reason.
class Contract : public testing::TestWithParam<Row> {
 protected:
  explicit Contract(const DeviceUse& use = {}) : use_(use) {}
  void SetUp() override;
  /// Connect @p a and @p b both ways over @p path.
  static void join(Side& a, Side& b, PathId path = PathId{0});

  Device& device() noexcept { return *device_; }

 private:
  const DeviceUse use_;
  std::unique_ptr<Driver> driver_;
  std::unique_ptr<Device> device_;
};

}  // namespace sluice::contract
