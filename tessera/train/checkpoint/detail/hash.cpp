#include "tessera/train/checkpoint/detail/hash.h"

#define XXH_INLINE_ALL  // nothing of it is linked or exported
#include <xxhash.h>

namespace tessera::train::detail {
namespace {

std::string hex_of(const XXH128_hash_t& hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  std::string text;
  text.reserve(kHashLetters);
  for (const unsigned char byte : canonical.digest) {
    text += "0123456789abcdef"[byte >> 4U];
    text += "0123456789abcdef"[byte & 0xFU];
  }
  return text;
}

}  // namespace

struct Hasher::State {
  XXH3_state_t state;
};

Hasher::Hasher() : state_(std::make_unique<State>()) { reset(); }
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

void Hasher::reset() { XXH3_128bits_reset(&state_->state); }
void Hasher::add(std::span<const std::byte> bytes) { XXH3_128bits_update(&state_->state, bytes.data(), bytes.size()); }
std::string Hasher::hex() const { return hex_of(XXH3_128bits_digest(&state_->state)); }

std::string hash_of(std::string_view bytes) { return hex_of(XXH3_128bits(bytes.data(), bytes.size())); }

}  // namespace tessera::train::detail
