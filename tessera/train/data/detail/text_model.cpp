#include "tessera/train/data/detail/text_model.h"

#include "tessera/train/detail/digest.h"

namespace tessera::train::detail {

void TextModel::finish() {
  bpe.finish();
  std::vector<AddedToken> in_text_tokens;
  std::vector<AddedToken> in_normalized_tokens;
  special.assign(bpe.tokens.size(), false);
  for (const auto& [content, token] : added) {
    special[token.id] = token.is_special;
    if (!token.is_normalized) {
      in_text_tokens.push_back(token);
      continue;
    }
    in_normalized_tokens.push_back(token);
    in_normalized_tokens.back().content = normalizer.apply(content);
  }
  in_text = AddedTokenMatcher(std::move(in_text_tokens));
  in_normalized = AddedTokenMatcher(std::move(in_normalized_tokens));
  texts.clear();
  for (std::size_t id = 0; id < bpe.tokens.size(); ++id) {
    texts.push_back(decoder.apply(written(static_cast<std::uint32_t>(id)), false));
  }
}

std::string TextModel::written(std::uint32_t token) const {
  const bool has_bytes = bpe.is_byte_level && !bpe.is_added[token];
  return has_bytes ? characters_of_bytes(bpe.tokens[token]) : bpe.tokens[token];
}

std::string TextModel::digest() const {
  Digest digest;
  digest.add("bpe");
  const bool has_pattern = !pre_tokenizer.steps.empty() && pre_tokenizer.steps.back().pattern.regex;
  digest.add(has_pattern ? std::string_view(pre_tokenizer.steps.back().pattern.regex->pattern()) : "");
  digest.add(std::uint64_t{bpe.ignore_merges ? 1U : 0U});
  digest.add(std::uint64_t{bpe.end_of_text});
  digest.add(std::uint64_t{bpe.tokens.size()});
  for (std::size_t id = 0; id < bpe.tokens.size(); ++id) {
    digest.add(bpe.tokens[id]);
    digest.add(std::uint64_t{bpe.is_added[id] ? 1U : 0U});
  }
  for (const auto& [left, right] : bpe.merges) digest.add(pair_key(left, right));
  if (!features.empty()) digest.add(features);
  return digest.hex();
}

}  // namespace tessera::train::detail
