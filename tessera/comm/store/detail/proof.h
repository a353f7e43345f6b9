// Proofs that a process knows a secret, without sending the secret. Both sides send a random nonce; each then sends an
// HMAC-SHA256, keyed with the secret, over its role and everything that was exchanged:
//
//   prove(secret, "store client", {client_nonce, server_nonce, label})
//
// A recorded proof is useless later, since the other side's nonce is new. A proof cannot be reflected, since the roles
// differ. libsodium does the cryptography.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

namespace tessera::comm::detail {

inline constexpr std::size_t kNonceBytes = 32;
inline constexpr std::size_t kProofBytes = 32;
inline constexpr std::size_t kMaxSecretBytes = 256;

/// Throws InvalidArgument if the secret is too long, or if it is empty and `may_be_empty` is false. `who` begins the
/// message, which shows how to set a secret.
void check_secret(std::string_view who, std::string_view secret, bool may_be_empty);

/// Returns kNonceBytes random bytes.
std::string random_nonce();
/// Returns 256 random bits as 64 hexadecimal digits.
std::string random_secret();
/// Returns the HMAC-SHA256 over a role and parts, each preceded by its length.
std::string prove(std::string_view secret, std::string_view role, std::initializer_list<std::string_view> parts);
/// Compares two proofs in a time that depends only on their sizes.
bool is_same_proof(std::string_view a, std::string_view b);

}  // namespace tessera::comm::detail
