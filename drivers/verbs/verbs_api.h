/// @file verbs_api.h
/// The calls by which queues make and end their objects, as a table, so that tests can put theirs in its place.
///
/// Model    Only the slow calls: the hot ones (ibv_post_send and its kin) go through the device context's own table.
/// Threads  Constant.
/// Memory   No heap.
/// Errors   As libibverbs: create gives null and sets errno, the others return an errno.
#pragma once

#include <infiniband/verbs.h>

namespace sluice::verbs {

struct VerbsApi {
  ibv_cq* (*create_cq)(ibv_context*, int, void*, ibv_comp_channel*, int) = ibv_create_cq;
  int (*destroy_cq)(ibv_cq*) = ibv_destroy_cq;
  ibv_srq* (*create_srq)(ibv_pd*, ibv_srq_init_attr*) = ibv_create_srq;
  int (*destroy_srq)(ibv_srq*) = ibv_destroy_srq;
  ibv_qp* (*create_qp)(ibv_pd*, ibv_qp_init_attr*) = ibv_create_qp;
  int (*modify_qp)(ibv_qp*, ibv_qp_attr*, int) = ibv_modify_qp;
  int (*destroy_qp)(ibv_qp*) = ibv_destroy_qp;
};

}  // namespace sluice::verbs
