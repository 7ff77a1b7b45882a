/// @file status.h
/// What a call says about its outcome: a code, its class, and (for slow calls) one line of text.
///
/// Model    Hot and pure calls return Code. Slow calls return Status: a Code plus a line, written where the
///          cause was seen, that names the thing, the value and the remedy.
/// Threads  Plain data.
/// Memory   Code never allocates. Status allocates only when it carries text.
/// Errors   None of its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {

enum class Code : uint8_t {
  kOk = 0,
  kAgain,          ///< No room now; the same call may succeed later.
  kWaiting,        ///< Accepted and short of credit.
  kBadArgument,    ///< A value of the caller's is out of range or malformed.
  kNotFound,       ///< No such name, handle or address.
  kExists,         ///< Already there.
  kBusy,           ///< In use by something that has not ended.
  kStale,          ///< A handle, epoch, incarnation or key of an earlier life.
  kNotRegistered,  ///< Local memory that no registered region covers.
  kOutOfRange,     ///< An offset or length beyond its buffer.
  kNoMemory,       ///< Memory, hugepages or locked memory are short.
  kLimit,          ///< A configured or device limit is reached.
  kUnsupported,    ///< This build, driver or device cannot do it.
  kBadFrame,       ///< Bytes from a peer that do not parse, or break a law.
  kPeerDead,       ///< The peer's process ended or was given up.
  kPeerRefused,    ///< The peer answered no.
  kTimeout,        ///< A deadline passed.
  kCancelled,      ///< Ended by the caller.
  kDeviceError,    ///< The device or provider reported a failure.
  kSystemError,    ///< A system call failed; the text has errno's words.
  kClosed,         ///< The object is shut down.
  kInternal,       ///< A fault of ours.
};
inline constexpr int kCodeCount = static_cast<int>(Code::kInternal) + 1;

/// What a caller can do about a code.
enum class CodeClass : uint8_t {
  kNone,   ///< Not an error.
  kRetry,  ///< The same call may succeed later.
  kPeer,   ///< The other node.
  kLocal,  ///< This node's arguments, limits or machine.
  kBug,    ///< This library.
};

/// The lower-case name that logs, JSON and the documentation use.
std::string_view code_name(Code code) noexcept;
CodeClass code_class(Code code) noexcept;

/// The result of a slow call.
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  Status(Code code) noexcept : code_(code) {}  // NOLINT: a bare code is a status without text
  Status(Code code, std::string text) noexcept : code_(code), text_(std::move(text)) {}

  bool ok() const noexcept { return code_ == Code::kOk; }
  Code code() const noexcept { return code_; }
  /// The line kept at the cause; empty when there is none.
  const std::string& text() const noexcept { return text_; }
  /// "name: text" for people.
  std::string describe() const;

 private:
  Code code_ = Code::kOk;
  std::string text_;
};

}  // namespace sluice
