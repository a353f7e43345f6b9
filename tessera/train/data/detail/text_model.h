// A tokenizer.json in memory: added tokens, normalizer, pre-tokenizer, model, template and decoder.
//
//   text -> added tokens -> normalizer -> added tokens -> pre-tokenizer -> merges -> template
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/train/data/detail/added_tokens.h"
#include "tessera/train/data/detail/bpe.h"
#include "tessera/train/data/detail/decode.h"
#include "tessera/train/data/detail/pre_tokenize.h"
#include "tessera/train/data/detail/text_steps.h"

namespace tessera::train::detail {

/// Immutable after finish().
struct TextModel {
  Bpe bpe;
  std::map<std::string, AddedToken, std::less<>> added;  ///< By content.
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Decoder decoder;
  std::vector<std::uint32_t> prefix;  ///< Tokens that the template puts before a text.
  std::vector<std::uint32_t> suffix;  ///< Tokens that the template puts after a text.
  std::string source;                 ///< The file.
  std::string features;  ///< Parts of the file that change tokens, beyond the fields of a byte-level model without a
                         ///< normalizer: part of the digest.

  AddedTokenMatcher in_text;        ///< Set by finish().
  AddedTokenMatcher in_normalized;  ///< Set by finish().
  std::vector<std::string> texts;   ///< Bytes of each token after the first; set by finish().
  std::vector<bool> special;        ///< Which tokens are special; set by finish().

  /// Builds the look-up tables.
  void finish();
  /// Returns the text of a token in the file.
  [[nodiscard]] std::string written(std::uint32_t token) const;
  /// Returns the digest of everything that changes tokens.
  [[nodiscard]] std::string digest() const;
};

}  // namespace tessera::train::detail
