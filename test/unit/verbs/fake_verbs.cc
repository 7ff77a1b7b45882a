#include "fake_verbs.h"

#include <cerrno>

namespace sluice::verbs {
namespace {
FakeVerbs g_fake;
ibv_context g_context;

int post_send(ibv_qp* qp, ibv_send_wr* work, ibv_send_wr** bad) {
  size_t count = 0;
  for (; work != nullptr; work = work->next, ++count) {
    if (count == g_fake.post_fails_at) {
      *bad = work;
      return ENOMEM;
    }
    g_fake.sends.push_back({work->wr_id, (work->send_flags & IBV_SEND_SIGNALED) != 0,
                            (work->send_flags & IBV_SEND_INLINE) != 0, work->num_sge, work->opcode, qp->qp_num});
  }
  g_fake.send_chains.push_back(count);
  return 0;
}

int keep(std::deque<uint64_t>* where, ibv_recv_wr* work) {
  size_t count = 0;
  for (; work != nullptr; work = work->next, ++count) where->push_back(work->wr_id);
  g_fake.receive_chains.push_back(count);
  return 0;
}
int post_srq_recv(ibv_srq*, ibv_recv_wr* work, ibv_recv_wr**) { return keep(&g_fake.receives, work); }
int post_recv(ibv_qp* qp, ibv_recv_wr* work, ibv_recv_wr**) { return keep(&g_fake.receives_of[qp->qp_num], work); }

int poll_cq(ibv_cq*, int want, ibv_wc* out) {
  int count = 0;
  for (; count < want && !g_fake.completions.empty(); ++count) {
    out[count] = g_fake.completions.front();
    g_fake.completions.pop_front();
  }
  return count;
}

ibv_cq* create_cq(ibv_context* context, int cqe, void*, ibv_comp_channel*, int) {
  errno = ENOMEM;
  if (g_fake.no_cq) return nullptr;
  g_fake.cqe_asked = static_cast<uint32_t>(cqe);
  auto* cq = new ibv_cq{};
  cq->context = context;
  ++g_fake.cqs;
  return cq;
}
int destroy_cq(ibv_cq* cq) {
  g_fake.destroyed.push_back("cq");
  --g_fake.cqs;
  delete cq;
  return 0;
}
ibv_srq* create_srq(ibv_pd*, ibv_srq_init_attr*) {
  errno = ENOMEM;
  if (g_fake.no_srq) return nullptr;
  auto* srq = new ibv_srq{};
  srq->context = &g_context;
  ++g_fake.srqs;
  return srq;
}
int destroy_srq(ibv_srq* srq) {
  g_fake.destroyed.push_back("srq");
  --g_fake.srqs;
  delete srq;
  return 0;
}
ibv_qp* create_qp(ibv_pd*, ibv_qp_init_attr*) {
  errno = ENOMEM;
  if (g_fake.no_qp) return nullptr;
  auto* qp = new ibv_qp{};
  qp->context = &g_context;
  qp->qp_num = ++g_fake.last_qp_number;
  ++g_fake.pairs;
  return qp;
}
int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int) {
  if (g_fake.modify_error != 0) return g_fake.modify_error;
  g_fake.states[qp->qp_num] = attr->qp_state;
  if (attr->qp_state == IBV_QPS_RTR) g_fake.to_receive = *attr;
  if (attr->qp_state == IBV_QPS_RTS) g_fake.to_send = *attr;
  return 0;
}
int destroy_qp(ibv_qp* qp) {
  g_fake.destroyed.push_back("qp");
  --g_fake.pairs;
  delete qp;
  return 0;
}
}  // namespace

FakeVerbs& fake() { return g_fake; }

void make_fake_host(QueueHost* host) {
  g_fake = FakeVerbs{};
  g_context.ops.post_send = post_send;
  g_context.ops.post_recv = post_recv;
  g_context.ops.post_srq_recv = post_srq_recv;
  g_context.ops.poll_cq = poll_cq;
  host->api = {create_cq, destroy_cq, create_srq, destroy_srq, create_qp, modify_qp, destroy_qp};
  host->context = &g_context;
  host->caps.tx_depth = 256;
  host->caps.rx_depth = 256;
  host->caps.max_msg_bytes = 1u << 30;
  host->caps.sge = 2;
  host->caps.inject_bytes = 128;
  host->caps.paired = true;
  host->max_cqe = 4096;
  host->flush_ns = 30'000'000;
  host->port.mtu_code = 5;
  host->port.gid = {1, GidKind::kRoceV2, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1}, true};
  host->subject = "RDMA device fake";
}

}  // namespace sluice::verbs
