#include "errors.h"

#include <cstdlib>
#include <string>

namespace sluice::fabric {

Code code_of_completion(int err) noexcept {
  switch (std::abs(err)) {
    case 0: return Code::kOk;
    case FI_ECANCELED: return Code::kCancelled;
    // What a connection says when it breaks, and what an address says when nobody is there.
    case FI_ECONNREFUSED:
    case FI_ECONNRESET:
    case FI_ECONNABORTED:
    case FI_ENOTCONN:
    case FI_ESHUTDOWN:
    case FI_EHOSTUNREACH:
    case FI_EHOSTDOWN:
    case FI_ENETUNREACH:
    case FI_ETIMEDOUT:
    case FI_ENOENT:
    case EPIPE:
    case ESRCH: return Code::kPeerDead;
    case FI_EINVAL:
    case FI_EMSGSIZE:
    case FI_ETRUNC:
    case FI_ETOOSMALL: return Code::kBadArgument;
    default: return Code::kDeviceError;
  }
}

Status status_of(const OfiApi& api, std::string_view call, std::string_view subject, int64_t ret) {
  if (ret >= 0) return Code::kOk;
  const int err = static_cast<int>(-ret);
  Code code = Code::kDeviceError;
  if (err == FI_ENOMEM) code = Code::kNoMemory;
  if (err == FI_EINVAL) code = Code::kBadArgument;
  if (err == FI_ENOSYS || err == FI_EOPNOTSUPP) code = Code::kUnsupported;
  if (err == FI_ENODATA) code = Code::kNotFound;
  if (err == EMFILE || err == ENFILE) code = Code::kLimit;
  std::string text(call);
  text.append(" on ").append(subject).append(" failed: ").append(api.strerror(err));
  text.append(" (").append(std::to_string(ret)).append(")");
  if (code == Code::kLimit) text.append("; raise the limit of open files (ulimit -n)");
  return {code, std::move(text)};
}

}  // namespace sluice::fabric
