/// @file oob_stream.h
/// Frames over one non-blocking TCP socket: u32 length, body, and a code when the stream is authenticated.
///
/// Model    Output is a queue of whole frames in one buffer, so frames never interleave. Input is assembled as bytes
///          come; a peer's length is checked against the cap before it is believed, and never allocated for.
/// Threads  One at a time.
/// Memory   Input: one frame at the cap and one read. Output: @p max_output_bytes and one last frame.
/// Errors   kPeerDead (closed or reset), kTimeout (the way to the peer broke), kBadFrame (over the cap), kPeerRefused
///          (a wrong code).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "meta/frame_auth.h"

namespace sluice {

class OobStream {
 public:
  /// Takes @p fd over.
  OobStream(int fd, size_t max_output_bytes) noexcept : fd_(fd), max_output_bytes_(max_output_bytes) {}
  ~OobStream();
  OobStream(const OobStream&) = delete;
  OobStream& operator=(const OobStream&) = delete;

  int fd() const noexcept { return fd_; }
  FrameAuth& auth() noexcept { return auth_; }

  /// Queue one frame. @p last: room or not, since nothing follows. @return kAgain.
  Code put(std::string_view body, bool last = false);
  bool has_output() const noexcept { return sent_ < output_.size(); }
  /// Write what the socket takes. @return kPeerDead, kTimeout.
  Status flush();
  /// No more output: the peer reads to its end and then sees ours.
  void finish_output() noexcept;

  /// Read what is there, up to one bounded read. @p more: there may be more. @return kPeerDead, kTimeout.
  Status fill(bool* more);
  /// Drop what is there. @return kPeerDead, kTimeout.
  Status discard();
  /// Take the next whole frame of at most @p cap bytes. @p found: there was one. @return kBadFrame, kPeerRefused.
  Status next(size_t cap, std::string* body, bool* found);

 private:
  int fd_;
  size_t max_output_bytes_;
  std::string input_;
  size_t taken_ = 0;
  std::string output_;
  size_t sent_ = 0;
  bool finished_ = false;
  FrameAuth auth_;
};

}  // namespace sluice
