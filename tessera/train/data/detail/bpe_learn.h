// Learns merges from text: repeatedly, the most frequent pair of adjacent tokens becomes a token.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tessera/train/data/detail/bpe.h"
#include "tessera/train/on_progress.h"

namespace tessera::train::detail {

/// Learns a vocabulary of this size: tokens 0 to 255 are the bytes, 256 is <|endoftext|>, the others follow in the
/// order of learning. The result does not depend on the order of the texts; of equally frequent pairs, the one with the
/// smaller tokens is first. Calls `on_progress` after each merge, with tokens. Throws InvalidArgument for fewer than
/// 257 tokens, or for more than the texts have pairs. The caller must call finish().
Bpe learn_bpe(std::span<const std::string_view> texts, std::int64_t vocabulary, const OnProgress& on_progress = {});

}  // namespace tessera::train::detail
