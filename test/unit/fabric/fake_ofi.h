/// @file fake_ofi.h
/// libfabric without a fabric: the six entry points over canned fi_info values and objects that do as they are told.
///
/// Model    One global state, reset by each test. Sends and receives are kept until a test completes them.
/// Threads  One.
/// Memory   The objects are static; what getinfo gives is copied deep enough for freeinfo.
/// Errors   Each call can be told what to return.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <deque>
#include <string>
#include <vector>

#include "fabric/ofi_loader.h"

namespace sluice::fabric {

/// One entry that fi_getinfo lists.
struct FakeInfo {
  std::string provider = "tcp;ofi_rxm";
  std::string domain = "eth0";
  std::string address = "192.0.2.7";  // IPv4, or IPv6 when it has a colon
  size_t tx_size = 64;
  size_t rx_size = 64;
  uint64_t mode = 0;
  int mr_mode = 0;
  fi_threading threading = FI_THREAD_SAFE;
};

struct FakeOfi {
  std::vector<FakeInfo> list;
  uint32_t version = FI_VERSION(1, 17);
  uint32_t asked_version = 0;
  int getinfo_ret = 0;
  size_t cq_size = 0;  // what fi_cq_open answers; 0: leaves it as asked
  int64_t send_ret = 0;
  int64_t recv_ret = 0;
  std::vector<void*> sends;
  std::vector<void*> receives;
  std::deque<fi_cq_msg_entry> done;
  std::deque<fi_cq_err_entry> errors;
  int inserts = 0;
  int removes = 0;
  bool ep_open = false;
  bool removed_after_ep = false;
  bool missing = false;
};

FakeOfi& fake();
void reset_fake();
Status load_fake(const OfiApi** out);

}  // namespace sluice::fabric
