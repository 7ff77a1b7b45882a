#include "meta/frame_auth.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/bytes.h"

namespace sluice {
namespace {

void append_u64(uint64_t value, std::string* out) {
  char bytes[sizeof value];
  store_le(bytes, value);
  out->append(bytes, sizeof bytes);
}
}  // namespace

bool FrameAuth::hmac(std::string_view key, std::string_view data, Digest* out) {
  unsigned length = 0;
  return HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
              reinterpret_cast<const unsigned char*>(data.data()), data.size(), out->data(), &length) != nullptr &&
         length == kCodeBytes;
}

void FrameAuth::open(std::string_view secret, std::string_view dialer_hello, std::string_view acceptor_hello,
                     bool dialer) {
  std::string both = "sluice out-of-band 1";
  append_u64(dialer_hello.size(), &both);  // so that the seam between the two cannot be moved
  both.append(dialer_hello).append(acceptor_hello);
  open_ = hmac(secret, both, &key_);
  dialer_ = dialer;
  sent_ = received_ = 0;
}

bool FrameAuth::code_of(bool from_dialer, uint64_t number, std::string_view body, Digest* out) const {
  std::string data(1, from_dialer ? 'D' : 'A');
  append_u64(number, &data);
  data.append(body);
  return hmac({reinterpret_cast<const char*>(key_.data()), key_.size()}, data, out);
}

std::string FrameAuth::sign(std::string_view body) {
  Digest code{};
  code_of(dialer_, sent_++, body, &code);
  return {reinterpret_cast<const char*>(code.data()), code.size()};
}

bool FrameAuth::verify(std::string_view body, std::string_view code) {
  Digest want{};
  if (code.size() != kCodeBytes || !code_of(!dialer_, received_, body, &want)) return false;
  if (CRYPTO_memcmp(want.data(), code.data(), kCodeBytes) != 0) return false;
  ++received_;
  return true;
}

}  // namespace sluice
