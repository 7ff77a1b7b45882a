/// @file fake_ofi.h
/// libfabric without a fabric: the entry points over canned fi_info values and objects that do as they are told.
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
#include <functional>
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
  std::string fabric = "fabric0";
  size_t key_size = 8;
  size_t max_msg = 1 << 20;
  size_t inject = 64;
  bool pci = false;  // 0001:c1:00.2, at 100 Gbit/s
};

/// One registration: what the driver asked for, and what became of it.
struct FakeRegion {
  const void* base = nullptr;
  size_t bytes = 0;
  uint64_t access = 0, requested_key = 0;
  fi_hmem_iface iface = FI_HMEM_SYSTEM;
  int device = 0;
  bool bound = false, enabled = false, closed = false;
};

struct FakeOfi {
  std::vector<FakeInfo> list;
  uint32_t version = FI_VERSION(1, 17);
  uint32_t asked_version = 0;
  uint64_t asked_caps = 0;
  int asked_mr_mode = 0;
  int getinfo_ret = 0;
  size_t cq_size = 0;  // what fi_cq_open answers; 0: leaves it as asked
  int64_t send_ret = 0;
  int64_t recv_ret = 0;
  std::vector<void*> sends;
  std::vector<void*> receives;
  std::deque<fi_cq_msg_entry> done;
  std::deque<fi_cq_err_entry> errors;
  int emulates = 0;  // options of the endpoint that are on: 1 reads, 2 writes; -1: it knows none
  std::vector<int> asked_options;
  int inserts = 0;
  int removes = 0;
  bool ep_open = false;
  bool removed_after_ep = false;
  bool missing = false;
  std::vector<FakeRegion> regions;   // in the order in which they were made
  size_t failing_region = SIZE_MAX;  // the one that is refused
  int region_ret = -FI_ENOMEM;       // with what
  int bind_ret = 0;
  int close_region_ret = 0;
  uint64_t max_region = 0;               // what libibverbs says
  std::string asked_device;              // of what
  std::function<void()> on_region = {};  // called in each registration and each close of one
  bool closed_before_its_regions = false;
  bool enabled_unbound = false;
};

FakeOfi& fake();
void reset_fake();
Status load_fake(const OfiApi** out);

}  // namespace sluice::fabric
