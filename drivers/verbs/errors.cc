#include "errors.h"

#include <cerrno>
#include <cstring>
#include <string>

namespace sluice::verbs {

Code code_of_completion(ibv_wc_status status) noexcept {
  switch (status) {
    case IBV_WC_SUCCESS: return Code::kOk;
    case IBV_WC_WR_FLUSH_ERR: return Code::kCancelled;
    // The op itself was wrong: its length or its memory here, its key or range there.
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_ACCESS_ERR: return Code::kBadArgument;
    // Nobody answers, or nobody takes what is sent, or the other end gave up.
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
    case IBV_WC_REM_ABORT_ERR: return Code::kPeerDead;
    // A device at fault, here or there, and what this driver never asks for.
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_LOC_EEC_OP_ERR:
    case IBV_WC_MW_BIND_ERR:
    case IBV_WC_BAD_RESP_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_LOC_RDD_VIOL_ERR:
    case IBV_WC_REM_INV_RD_REQ_ERR:
    case IBV_WC_INV_EECN_ERR:
    case IBV_WC_INV_EEC_STATE_ERR:
    case IBV_WC_FATAL_ERR:
    case IBV_WC_GENERAL_ERR:
    case IBV_WC_TM_ERR:
    case IBV_WC_TM_RNDV_INCOMPLETE: break;
  }
  return Code::kDeviceError;
}

Status status_of(std::string_view call, std::string_view subject, int err) {
  if (err == 0) return Code::kOk;
  Code code = Code::kDeviceError;
  std::string remedy;
  switch (err) {
    case ENOMEM:
      code = Code::kNoMemory;
      remedy = "; is enough memory free, and does the limit of locked memory (ulimit -l) allow it?";
      break;
    case EINVAL: code = Code::kBadArgument; break;
    case EOPNOTSUPP:
    case ENOSYS: code = Code::kUnsupported; break;
    case EACCES:
    case EPERM:
      code = Code::kUnsupported;
      remedy = "; may this user open /dev/infiniband?";
      break;
    case EMFILE:
    case ENFILE:
      code = Code::kLimit;
      remedy = "; raise the limit of open files (ulimit -n)";
      break;
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
      code = Code::kPeerDead;
      remedy = "; can the two addresses reach each other?";
      break;
    default: break;
  }
  std::string text(call);
  text.append(" on ").append(subject).append(": ").append(std::strerror(err)).append(remedy);
  return {code, std::move(text)};
}

}  // namespace sluice::verbs
