#include "base/status.h"

namespace sluice {
namespace {
struct CodeRow {
  Code code;
  CodeClass cls;
  std::string_view name;
};
constexpr CodeRow kRows[] = {
    {Code::kOk, CodeClass::kNone, "ok"},
    {Code::kAgain, CodeClass::kRetry, "again"},
    {Code::kWaiting, CodeClass::kRetry, "waiting"},
    {Code::kBadArgument, CodeClass::kLocal, "bad_argument"},
    {Code::kNotFound, CodeClass::kLocal, "not_found"},
    {Code::kExists, CodeClass::kLocal, "exists"},
    {Code::kBusy, CodeClass::kRetry, "busy"},
    {Code::kStale, CodeClass::kPeer, "stale"},
    {Code::kNotRegistered, CodeClass::kLocal, "not_registered"},
    {Code::kOutOfRange, CodeClass::kLocal, "out_of_range"},
    {Code::kNoMemory, CodeClass::kLocal, "no_memory"},
    {Code::kLimit, CodeClass::kLocal, "limit"},
    {Code::kUnsupported, CodeClass::kLocal, "unsupported"},
    {Code::kBadFrame, CodeClass::kPeer, "bad_frame"},
    {Code::kPeerDead, CodeClass::kPeer, "peer_dead"},
    {Code::kPeerRefused, CodeClass::kPeer, "peer_refused"},
    {Code::kTimeout, CodeClass::kPeer, "timeout"},
    {Code::kCancelled, CodeClass::kLocal, "cancelled"},
    {Code::kDeviceError, CodeClass::kLocal, "device_error"},
    {Code::kSystemError, CodeClass::kLocal, "system_error"},
    {Code::kClosed, CodeClass::kLocal, "closed"},
    {Code::kInternal, CodeClass::kBug, "internal"},
};
constexpr bool in_order() {
  int i = 0;
  for (const CodeRow& row : kRows)
    if (static_cast<int>(row.code) != i++) return false;
  return i == kCodeCount;
}
static_assert(in_order(), "one row for each code, in the order of the enumeration");
}  // namespace

std::string_view code_name(Code code) noexcept {
  const auto i = static_cast<unsigned>(code);
  return i < kCodeCount ? kRows[i].name : "unknown";
}

CodeClass code_class(Code code) noexcept {
  const auto i = static_cast<unsigned>(code);
  return i < kCodeCount ? kRows[i].cls : CodeClass::kBug;
}

std::string Status::describe() const {
  std::string out(code_name(code_));
  if (!text_.empty()) out.append(": ").append(text_);
  return out;
}

}  // namespace sluice
