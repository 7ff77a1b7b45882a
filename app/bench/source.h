/// @file source.h
/// The half of the bench that makes the load: a node, the target's segment, and the generators.
///
/// Model    start(), connect(), then for each run: memory, orders to the target (wire.h), slices. Without lcores of its
///          own (mode submit) the main thread turns everything by Setup::turn.
/// Threads  The main thread. Generators run on the worker's lcore, or each slice in threads of their own.
/// Memory   Owns node, port and memory; the generators are the mode's and must outlive it.
/// Errors   Status with one line. Nothing waits for ever: what does not move for a task's deadline is given up.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "env/node_settings.h"
#include "generator.h"
#include "options.h"
#include "wire.h"

namespace sluice::bench {

/// What main hands to a mode.
struct Setup {
  NodeSettings node;
  BenchOptions options;
  std::vector<std::string> eal_args;
  std::string target;                         ///< "host:port".
  std::function<std::string()> target_ended;  ///< How the child ended; empty: it runs. May wait a little. May be null.
  std::function<void()> turn;                 ///< Turns the other node, when none has lcores; else null.
};

class Source {
 public:
  using Generators = std::span<const std::unique_ptr<Generator>>;

  Source(const Setup& setup, Generators generators) : setup_(setup), generators_(generators) {}
  ~Source() { stop(); }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  /// Bring the node up.
  Status start();
  void stop();
  /// Open the target's segment.
  Status connect();
  /// A port for a generator.
  Status open_port(std::unique_ptr<Port>* out) { return engine_->open_port(out); }
  /// At least @p bytes of registered memory, the same for each call that it is large enough for.
  Status reserve(uint64_t bytes, std::byte** out);
  /// Refuse what the target's segment has no room for.
  Status check_room(uint64_t bytes) const;

  /// Have the target do something, and wait for what came of it. Fills in nonce, number and kind.
  Status ask(Order order, OrderKind kind, Outcome* outcome);
  /// One slice on every generator. @p seconds: from the first start to the last end.
  Status run_slice(const Slice& slice, double* seconds);
  /// The first error of the generators, with what is known of the target; empty: none.
  std::string trouble() const;

  Engine& engine() noexcept { return *engine_; }
  SegmentHandle segment() const noexcept { return segment_; }
  uint64_t nonce() const noexcept { return nonce_; }
  uint64_t segment_bytes() const noexcept { return segment_bytes_; }

 private:
  Status wait(const std::function<bool()>& done);
  Status transfer(const Request& request, std::string_view notify);
  Status gone(std::string what, Code code) const;

  const Setup& setup_;
  Generators generators_;
  std::unique_ptr<Engine> engine_;
  std::string target_;  // once its segment is open
  SegmentHandle segment_{};
  uint64_t segment_bytes_ = 0;
  std::unique_ptr<Port> port_;
  ManagedBuffer records_, memory_;
  uint64_t nonce_ = 0, orders_ = 0;
};

}  // namespace sluice::bench
