// SHA-256 by OpenSSL: content addresses of candidates, compiled code and records.
#include <openssl/evp.h>

#include "harness/stages.h"

namespace stepbench {

std::string sha256_hex(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  SB_ASSERT(EVP_Digest(bytes.data(), bytes.size(), digest, &length, EVP_sha256(), nullptr) == 1);
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  text.reserve(size_t{2} * length);
  for (unsigned int i = 0; i < length; ++i) {
    text += kHex[digest[i] >> 4];
    text += kHex[digest[i] & 15];
  }
  return text;
}

}  // namespace stepbench
