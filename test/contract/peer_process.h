/// @file peer_process.h
/// A peer in a process of its own, to be killed.
///
/// Model    The test program starts itself again with --peer; the two exchange addresses as hex lines over pipes.
///          The child opens its own device, sends all the time, and takes what comes, until it is killed. A fresh
///          program instead of a bare fork, since providers keep threads and state that do not survive one.
/// Threads  One.
/// Memory   Nothing to note.
/// Errors   Test failures.
#pragma once

#include <sys/types.h>

#include <string>

#include "side.h"

namespace sluice::contract {

class PeerProcess {
 public:
  /// Start a peer over @p row that connects its path 0 to @p own. @p silent: it never polls.
  PeerProcess(const Row& row, const Bytes& own, bool silent);
  ~PeerProcess() { kill(); }
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  const Bytes& address() const noexcept { return address_; }
  void kill() noexcept;

 private:
  pid_t pid_ = -1;
  Bytes address_;
};

/// What the child does. @return its exit status.
int run_peer(std::string_view row_name, bool silent);

}  // namespace sluice::contract
