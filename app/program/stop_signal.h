/// @file stop_signal.h
/// SIGTERM and SIGINT as something to ask for, for programs that serve until they are told to stop.
///
/// Model    hold() keeps both from ending the process; came() takes one that is there.
/// Threads  hold() before any thread is made, since threads inherit the mask.
/// Memory   No heap.
/// Errors   None.
#pragma once

#include <signal.h>
#include <time.h>

#include <cerrno>

namespace sluice {

class StopSignal {
 public:
  void hold() noexcept {
    sigemptyset(&set_);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &set_, nullptr);
  }
  /// Wait up to @p ns. @return whether one came.
  bool came(long ns) const noexcept {
    const timespec wait{ns / 1'000'000'000, ns % 1'000'000'000};
    return sigtimedwait(&set_, nullptr, &wait) > 0;
  }

 private:
  sigset_t set_;
};

}  // namespace sluice
