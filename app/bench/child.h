/// @file child.h
/// The target as a child process of --self.
///
/// Model    fork and exec of this program with --target; its first line on stdout names its address. It ends with
///          SIGTERM, or SIGKILL when it takes too long; and when this process dies, by the kernel.
/// Threads  The main thread, which must outlive it.
/// Memory   Allocates.
/// Errors   Status with one line; a child that ended early is told with how.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/status.h"

namespace sluice::bench {

/// What the target's line on stdout begins with; its address follows, up to a blank.
inline constexpr const char* kReadyLine = "sluice-bench: ready at ";

class Child {
 public:
  Child() = default;
  ~Child() { (void)stop(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  Status start(const std::vector<std::string>& words);
  /// Wait for its address.
  Status ready(std::string* address);
  /// How it ended; empty when it still runs. Waits a little for one that is ending: its sockets close before the kernel
  /// tells its end.
  std::string ended();
  /// @return what it said at its end.
  Status stop();

 private:
  bool reap(std::chrono::milliseconds patience);

  pid_t pid_ = -1;
  int out_ = -1;
  int wait_status_ = 0;
  bool reaped_ = false;
};

}  // namespace sluice::bench
