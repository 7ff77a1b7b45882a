/// @file frame_auth.h
/// Proves that frames come from a holder of the shared secret, on this very connection and in this order.
///
/// Model    Each connection has a key: HMAC-SHA256 of both hellos, whole, under the secret. Since each hello has a
///          fresh nonce, nothing recorded on another connection verifies. A frame's code covers its direction, its
///          number and its body.
/// Threads  One at a time.
/// Memory   A key and two counters.
/// Errors   verify() answers no; it takes the same time for each wrong code.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

class FrameAuth {
 public:
  static constexpr size_t kCodeBytes = 32;

  /// Begin, with both hellos as sent. @p dialer: we opened the connection. @pre @p secret is not empty.
  void open(std::string_view secret, std::string_view dialer_hello, std::string_view acceptor_hello, bool dialer);
  bool is_open() const noexcept { return open_; }
  /// The code of the next frame that we send.
  std::string sign(std::string_view body);
  /// Whether @p code belongs to the next frame that we receive.
  bool verify(std::string_view body, std::string_view code);

 private:
  using Digest = std::array<unsigned char, kCodeBytes>;
  static bool hmac(std::string_view key, std::string_view data, Digest* out);
  bool code_of(bool from_dialer, uint64_t number, std::string_view body, Digest* out) const;

  Digest key_{};
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
  bool dialer_ = false;
  bool open_ = false;
};

}  // namespace sluice
