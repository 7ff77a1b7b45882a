/// @file node.h
/// A node in this process, as the tests of suite func use one: an engine, a segment "pool", a port, and transfers.
///
/// Model    Settings are named options on top of small defaults, so that a node here and one in a child process are
///          started from the same words.
/// Threads  One.
/// Memory   kSegment bytes of managed memory, exported as "pool".
/// Errors   Status of the engine.
#pragma once

#include <unistd.h>

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"

namespace sluice::func {

using Options = std::map<std::string, std::string>;  ///< Name of a setting, without dashes, and its value.

struct Wire {
  const char* name;
  const char* transport;
  const char* provider;
  const char* device = "";       ///< Of the node in the test's process.
  const char* peer_device = "";  ///< Of the others.
  bool one_sided() const { return !std::string_view(transport).ends_with("_twosided"); }
};
inline constexpr Wire kRxm{"tcp_rxm", "fabric_twosided", "tcp;ofi_rxm"};
inline constexpr Wire kNet{"net", "fabric_twosided", "net"};
inline constexpr Wire kShm{"shm", "fabric_twosided", "shm"};
inline constexpr Wire kLoop{"loop", "loop_twosided", "auto"};
inline constexpr Wire kRxmOneSided{"tcp_rxm_onesided", "fabric", "tcp;ofi_rxm"};
inline constexpr Wire kNetOneSided{"net_onesided", "fabric", "net"};
inline constexpr Wire kShmOneSided{"shm_onesided", "fabric", "shm"};
inline constexpr Wire kLoopOneSided{"loop_onesided", "loop", "auto"};
/// Two rails of soft RDMA, in the machine of usertools/sluice-vm.sh.
inline constexpr Wire kRailA{"rail_a", "rdma_twosided", "auto", "rxe_a0", "rxe_a1"};
inline constexpr Wire kRailB{"rail_b", "rdma_twosided", "auto", "rxe_b0", "rxe_b1"};
inline constexpr Wire kRailAOneSided{"rail_a_onesided", "rdma", "auto", "rxe_a0", "rxe_a1"};
/// @p wires in that machine; elsewhere none.
std::vector<Wire> in_machine(std::initializer_list<Wire> wires);
/// What deadlines are multiplied by: in an emulated machine everything takes longer.
double patience();

inline constexpr uint64_t kSegment = 16 << 20;

/// The words of a command line: the defaults of the suite, the wire, then @p changes.
std::vector<std::string> words_of(const Wire& wire, const std::string& name, const Options& changes);

/// Bytes that follow from their position and @p seed.
void fill(std::byte* at, uint64_t length, uint64_t seed);

/// Ask @p done again and again until it says yes. @return false: not within @p seconds.
bool wait_for(double seconds, const std::function<bool()>& done);

/// A clock for what a test reports.
double now_seconds();

size_t open_fds();

class TestNode {
 public:
  ~TestNode() { stop(); }
  Status start(const std::vector<std::string>& words, bool own_lcores = true);
  void stop();

  std::byte* at(uint64_t offset) const { return static_cast<std::byte*>(memory.addr) + offset; }
  /// Take completions until @p batch is final. @return false: not within @p seconds.
  bool finish(BatchHandle batch, double seconds = 30);
  BatchStatus status(BatchHandle batch) const;
  /// A new batch of tasks of @p piece bytes that together cover [offset, offset + length), here and there.
  BatchHandle submit(TransferOp op, SegmentHandle to, uint64_t offset, uint64_t length, uint64_t piece,
                     uint32_t times = 1);
  /// Submit, wait and release. @return whether all of it was done.
  bool move(TransferOp op, SegmentHandle to, uint64_t offset, uint64_t length, uint64_t piece = 256 << 10,
            double seconds = 30);
  /// The codes of the failed tasks of @p batch, each once.
  std::vector<Code> failures(BatchHandle batch) const;

  std::unique_ptr<Engine> engine;
  std::unique_ptr<Port> port;
  ManagedBuffer memory;
  std::string address;
  Code last_code = Code::kOk;  ///< Of the last submit().
};

}  // namespace sluice::func
