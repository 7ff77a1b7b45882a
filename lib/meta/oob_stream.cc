#include "meta/oob_stream.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/bytes.h"

namespace sluice {
namespace {
constexpr size_t kReadBytes = size_t{16} << 10;
constexpr size_t kLengthBytes = 4;

bool try_later(int error) noexcept { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

/// A reset means that the process at the other end is gone; every other error may mean only the way to it.
Status broken(int error) {
  const bool dead = error == ECONNRESET || error == EPIPE;
  return Status(dead ? Code::kPeerDead : Code::kTimeout, std::string("connection broke: ") + strerror(error));
}
}  // namespace

OobStream::~OobStream() { ::close(fd_); }

Code OobStream::put(std::string_view body, bool last) {
  const size_t length = body.size() + (auth_.is_open() ? FrameAuth::kCodeBytes : 0);
  if (!last && output_.size() - sent_ + kLengthBytes + length > max_output_bytes_) return Code::kAgain;
  char prefix[kLengthBytes];
  store_le(prefix, static_cast<uint32_t>(length));
  output_.append(prefix, sizeof prefix).append(body);
  if (auth_.is_open()) output_.append(auth_.sign(body));
  return Code::kOk;
}

Status OobStream::flush() {
  while (has_output()) {
    const ssize_t wrote = ::send(fd_, output_.data() + sent_, output_.size() - sent_, MSG_NOSIGNAL);
    if (wrote < 0) {
      if (try_later(errno)) break;
      return broken(errno);
    }
    sent_ += static_cast<size_t>(wrote);
  }
  output_.erase(0, sent_);
  sent_ = 0;
  if (output_.empty() && output_.capacity() > kReadBytes) output_ = std::string();
  return {};
}

void OobStream::finish_output() noexcept {
  if (finished_) return;
  finished_ = true;
  ::shutdown(fd_, SHUT_WR);
}

Status OobStream::fill(bool* more) {
  *more = false;
  input_.erase(0, taken_);
  taken_ = 0;
  if (input_.empty() && input_.capacity() > kReadBytes) input_ = std::string();  // an idle peer holds no large buffer
  char bytes[kReadBytes];
  const ssize_t got = ::recv(fd_, bytes, sizeof bytes, 0);
  if (got == 0) return Status(Code::kPeerDead, "connection closed by the peer");
  if (got < 0 && !try_later(errno)) return broken(errno);
  if (got > 0) input_.append(bytes, static_cast<size_t>(got));
  *more = got == static_cast<ssize_t>(sizeof bytes);
  return {};
}

Status OobStream::discard() {
  bool more = false;
  Status status = fill(&more);
  input_.clear();
  taken_ = 0;
  return status;
}

Status OobStream::next(size_t cap, std::string* body, bool* found) {
  *found = false;
  const std::string_view rest = std::string_view(input_).substr(taken_);
  if (rest.size() < kLengthBytes) return {};
  const size_t length = load_le<uint32_t>(rest.data());
  const size_t code_bytes = auth_.is_open() ? FrameAuth::kCodeBytes : 0;
  if (length <= code_bytes || length > cap + code_bytes)
    return Status(Code::kBadFrame, "a frame announces " + std::to_string(length) + " bytes; from " +
                                       std::to_string(code_bytes + 1) + " to " + std::to_string(cap + code_bytes) +
                                       " are allowed here");
  if (rest.size() - kLengthBytes < length) return {};
  const std::string_view text = rest.substr(kLengthBytes, length - code_bytes);
  if (auth_.is_open() && !auth_.verify(text, rest.substr(kLengthBytes + text.size(), code_bytes)))
    return Status(Code::kPeerRefused,
                  "its frames do not verify under our shared secret: set the same secret on both nodes");
  *body = text;
  taken_ += kLengthBytes + length;
  *found = true;
  return {};
}

}  // namespace sluice
