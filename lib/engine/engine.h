/// @file engine.h
/// A Sluice node: memory, segments, peers, and the lcores that move data. The entry point of the public API.
///
/// Model    start() brings up EAL, device, workers, control core and the service thread. Memory is registered once;
///          exported memory is named as a segment. open_segment() connects to a node and learns what it exports.
///          Transfers go through ports (port.h).
/// Threads  Every call from any thread. Calls may block for their documented deadline. Without lcores of its own
///          (RunOptions::own_lcores) every call comes from the thread that calls progress(), since it may turn agents.
/// Memory   The engine owns bounce memory and managed buffers; registered memory stays the application's and must stay
///          mapped until unregister() says kOk.
/// Errors   Status with one line that names the thing, the value and the remedy.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "engine/port.h"
#include "engine/types.h"

namespace sluice {

struct NodeSettings;  // env/node_settings.h: every setting with its unit, default and range
class Agent;          // agent/agent.h

/// How a node is run.
struct RunOptions {
  std::vector<std::string> eal_args;  ///< Added to the EAL's command line.
  bool own_lcores = true;             ///< false: no lcore is launched; the caller calls progress().
  /// Agents of the application's, run on the first worker's lcore. They must outlive the engine's stop().
  std::vector<Agent*> extra_agents;
};

class Engine {
 public:
  /// Bring up a node. @return what failed: settings, memory, EAL, driver, device, address.
  static Status start(const NodeSettings& settings, const RunOptions& options, std::unique_ptr<Engine>* out);
  /// The devices that @p settings' transport and provider could be opened on, without opening one. @return kNotFound.
  static Status list_devices(const NodeSettings& settings, std::vector<DeviceEntry>* out);
  virtual ~Engine() = default;  ///< stop(0) when it was not stopped.

  /// Register [addr, addr + bytes). @return kExists (overlaps a registration), kBadArgument, kNoMemory, kLimit.
  virtual Status register_memory(void* addr, uint64_t bytes, MemoryHandle* out) = 0;
  /// Allocate, touch and register @p bytes.
  virtual Status allocate_buffer(uint64_t bytes, ManagedBuffer* out) = 0;
  /// Undo either. @return kBusy while tasks use it or a segment exports it, kStale.
  virtual Status unregister_memory(MemoryHandle memory) = 0;
  /// Export registered memory as the next buffer of segment @p name. @return kStale, kBadArgument (name), kLimit.
  virtual Status export_memory(std::string_view name, MemoryHandle memory) = 0;
  /// Take a segment back: when this returns kOk, no peer's byte is placed in it any more.
  virtual Status withdraw_segment(std::string_view name) = 0;

  /// Open segment @p name of the node at @p node ("host:port"). Connects when needed, within connect-timeout-ms.
  /// Looking a name up (not a number) comes before that, and lasts as long as the system's resolver takes.
  /// @return kTimeout, kPeerDead (nobody listens there; names the addresses tried), kNotFound (no such segment),
  /// kPeerRefused (secret, transport, version), kLimit.
  virtual Status open_segment(std::string_view node, std::string_view name, SegmentHandle* out) = 0;
  virtual Status segment_info(SegmentHandle segment, SegmentInfo* out) const = 0;
  virtual Status close_segment(SegmentHandle segment) = 0;

  virtual Status open_port(std::unique_ptr<Port>* out) = 0;

  /// Send a notification by itself. One that cannot be delivered after all is logged, and counted in
  /// NodeStats::notifies_failed; a notify attached to a batch (port.h) has its own status.
  /// @return kAgain when too many are under way; kStale, kPeerDead, kLimit.
  virtual Status send_notify(SegmentHandle segment, std::string_view name, std::string_view message) = 0;
  /// Take up to @p max that came in, oldest first (in order per peer).
  virtual Status take_notifies(size_t max, std::vector<NotifyMessage>* out) = 0;

  /// One turn of every agent, for RunOptions::own_lcores = false. @return how much was done; 0: idle.
  virtual uint32_t progress() noexcept = 0;

  virtual TransportInfo transport() const = 0;
  virtual NodeStats stats() const = 0;
  /// Begin anew with what stats() gives as the longest, the most or the fewest.
  virtual void restart_peaks() = 0;
  /// Let accepted tasks and notifies end, and transfers that peers have begun, within @p deadline_ms; then tell peers
  /// and shut down.
  /// @return kOk, or kTimeout with a text that says what was left.
  virtual Status stop(uint32_t deadline_ms) = 0;
};

}  // namespace sluice
