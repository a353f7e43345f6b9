#include "tessera/comm/store/detail/proof.h"

#include <sodium.h>

#include <cstdint>

#include "tessera/base/error.h"

namespace tessera::comm::detail {
namespace {

static_assert(kProofBytes == crypto_auth_hmacsha256_BYTES);

void require_sodium() {
  static const int made = ::sodium_init();
  TESSERA_CHECK_AS(IoError, made >= 0, "libsodium: needs random bytes of the system, got none");
}

const unsigned char* bytes_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

void add_part(crypto_auth_hmacsha256_state& state, std::string_view part) {
  const std::uint64_t size = part.size();
  ::crypto_auth_hmacsha256_update(&state, reinterpret_cast<const unsigned char*>(&size), sizeof size);
  ::crypto_auth_hmacsha256_update(&state, bytes_of(part), part.size());
}

}  // namespace

void check_secret(std::string_view who, std::string_view secret, bool may_be_empty) {
  TESSERA_CHECK(secret.size() <= kMaxSecretBytes, who, ": the secret must have at most ", kMaxSecretBytes,
                " bytes, got ", secret.size());
  TESSERA_CHECK(may_be_empty || !secret.empty(), who,
                ": needs a secret, got none; set the same one on all ranks (export TESSERA_STORE_SECRET=$(openssl rand "
                "-hex 32)), or set TESSERA_STORE_INSECURE=1 to let in every process that reaches the port");
}

std::string random_nonce() {
  require_sodium();
  std::string bytes(kNonceBytes, '\0');
  ::randombytes_buf(bytes.data(), bytes.size());
  return bytes;
}

std::string random_secret() {
  const std::string bytes = random_nonce();
  std::string text(2 * bytes.size() + 1, '\0');
  ::sodium_bin2hex(text.data(), text.size(), bytes_of(bytes), bytes.size());
  text.pop_back();
  return text;
}

std::string prove(std::string_view secret, std::string_view role, std::initializer_list<std::string_view> parts) {
  require_sodium();
  crypto_auth_hmacsha256_state state;
  ::crypto_auth_hmacsha256_init(&state, bytes_of(secret), secret.size());
  add_part(state, role);
  for (const std::string_view part : parts) add_part(state, part);
  std::string proof(kProofBytes, '\0');
  ::crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char*>(proof.data()));
  ::sodium_memzero(&state, sizeof state);
  return proof;
}

bool is_same_proof(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace tessera::comm::detail
