// Learns merges from text: again and again the most frequent pair of neighbouring tokens becomes a token.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tessera/train/data/detail/bpe.h"
#include "tessera/train/on_progress.h"

namespace tessera::train::detail {

/// A vocabulary of this size: tokens 0 to 255 are the bytes, 256 is <|endoftext|>, the others in the order they were
/// learned. The same for the same texts in any order; of pairs that are equally frequent the one of the smaller tokens
/// is first. Calls `on_progress` after each merge, with tokens. InvalidArgument: fewer than 257 tokens, or more than
/// the texts have pairs for.
Bpe learn_bpe(std::span<const std::string_view> texts, std::int64_t vocabulary, const OnProgress& on_progress = {});

}  // namespace tessera::train::detail
