/// @file fake_verbs.h
/// A device that does as it is told, below libibverbs' own tables: objects are counted, work is kept until a test
/// completes it.
///
/// Model    One global state, reset by each test.
/// Threads  One.
/// Memory   Objects are on the heap until they are destroyed.
/// Errors   Each call can be told what to return.
#pragma once

#include <infiniband/verbs.h>

#include <deque>
#include <map>
#include <vector>

#include "verbs/device.h"

namespace sluice::verbs {

struct FakeWork {
  uint64_t id;
  bool signalled, inlined;
  int pieces;
  ibv_wr_opcode opcode;
  uint32_t qp_number;
};

struct FakeVerbs {
  std::deque<FakeWork> sends;     // in the order posted
  std::deque<uint64_t> receives;  // shared, or of all pairs
  std::map<uint32_t, std::deque<uint64_t>> receives_of;
  std::deque<ibv_wc> completions;
  std::vector<size_t> send_chains, receive_chains;  // lengths
  std::map<uint32_t, ibv_qp_state> states;
  ibv_qp_attr to_receive{}, to_send{};  // the last of each
  std::vector<const char*> destroyed;
  size_t post_fails_at = SIZE_MAX;  // of a chain
  size_t pairs = 0, cqs = 0, srqs = 0;
  uint32_t last_qp_number = 0;
  uint32_t cqe_asked = 0;
  bool no_cq = false, no_srq = false, no_qp = false;
  int modify_error = 0;
};

FakeVerbs& fake();
/// A host whose calls are the fake's.
void make_fake_host(QueueHost* host);

}  // namespace sluice::verbs
