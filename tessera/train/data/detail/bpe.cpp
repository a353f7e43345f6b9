#include "tessera/train/data/detail/bpe.h"

#include <algorithm>
#include <functional>

#include "tessera/train/data/detail/unicode.h"

namespace tessera::train::detail {
namespace {

// Positions in a word have 32 bits. Longer words are divided; only text without spaces or changes of kind reaches it.
constexpr std::size_t kMaxWordBytes = std::size_t{1} << 30;
// Bytes of a long word whose symbols are found at a time. Symbols take eight times the memory of their bytes.
constexpr std::size_t kBlockBytes = std::size_t{64} << 10;
// Number of symbols from which on a heap finds the next merge faster than a scan.
constexpr std::size_t kMany = 64;
constexpr std::size_t kPlaneSize = 0x10000;

}  // namespace

void Bpe::finish() {
  by_text.clear();
  by_text.reserve(tokens.size());
  of_character.assign(is_byte_level ? 0 : kPlaneSize, kNoToken);
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (is_added[id]) continue;
    by_text.emplace(tokens[id], static_cast<std::uint32_t>(id));
    if (is_byte_level || tokens[id].empty()) continue;
    const CodePoint point = code_point_at(tokens[id], 0);
    if (point.is_valid && point.nbytes == tokens[id].size() && point.value < kPlaneSize) {
      of_character[point.value] = static_cast<std::uint32_t>(id);
    }
  }
  by_pair = PairTable(merges.size());
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const auto [left, right] = merges[rank];
    const auto result = by_text.find(tokens[left] + tokens[right]);
    // Merges of special tokens are left out: text yields none.
    if (result == by_text.end() || is_added[left] || is_added[right]) continue;
    by_pair.add(pair_key(left, right), {static_cast<std::uint32_t>(rank), result->second});
  }
  find_joined();
}

std::uint32_t Bpe::symbol_of(std::string_view character, std::uint32_t code_point) const {
  if (code_point < kPlaneSize) return of_character[code_point];
  const auto found = by_text.find(character);
  return found == by_text.end() ? kNoToken : found->second;
}

// A merge joins the last symbol of its left token and the first of its right one.
void Bpe::find_joined() {
  const auto symbol = [&](const std::string& text, bool is_first) {
    if (is_byte_level) return of_byte[static_cast<unsigned char>(is_first ? text.front() : text.back())];
    const std::size_t at = is_first ? 0 : before(text, text.size());
    const CodePoint point = code_point_at(text, at);
    return point.is_valid ? symbol_of(std::string_view(text).substr(at, point.nbytes), point.value) : kNoToken;
  };
  // Symbols whose text is not one character: the tokens of byte fallback, and the unknown token.
  std::vector<bool> is_other(tokens.size());
  if (unknown != kNoToken) is_other[unknown] = true;
  for (const std::uint32_t token : of_byte) {
    if (!is_byte_level && token != kNoToken) is_other[token] = true;
  }
  joined = PairTable(merges.size());
  can_divide = true;
  for (const auto& [left, right] : merges) {
    if (is_added[left] || is_added[right]) continue;
    if (is_other[left] || is_other[right]) can_divide = false;
    const std::uint32_t last = symbol(tokens[left], false);
    const std::uint32_t first = symbol(tokens[right], true);
    if (last != kNoToken && first != kNoToken) joined.add(pair_key(last, first), {0, 0});
  }
}

void WordEncoder::add_character(std::string_view word, std::size_t begin, std::size_t nbytes,
                                std::uint32_t code_point) {
  const auto at = static_cast<std::uint32_t>(begin);
  const std::string_view character = word.substr(begin, nbytes);
  const std::uint32_t symbol = code_point == kNoCodePoint ? kNoToken : bpe_.symbol_of(character, code_point);
  if (symbol != kNoToken) {
    symbols_.push_back({symbol, at});
  } else if (bpe_.of_byte[0] != kNoToken) {
    for (std::size_t i = 0; i < nbytes; ++i) {
      symbols_.push_back({bpe_.of_byte[static_cast<unsigned char>(character[i])], static_cast<std::uint32_t>(at + i)});
    }
  } else if (bpe_.unknown != kNoToken) {
    const bool is_fused = bpe_.fuses_unknown && !symbols_.empty() && symbols_.back().token == bpe_.unknown;
    if (!is_fused) symbols_.push_back({bpe_.unknown, at});
  }
}

// Appends the symbols of the characters that begin in [begin, end). Returns the end of the last one.
std::size_t WordEncoder::add_symbols(std::string_view word, std::size_t begin, std::size_t end) {
  if (bpe_.is_byte_level) {
    for (std::size_t i = begin; i < end; ++i) {
      symbols_.push_back({bpe_.of_byte[static_cast<unsigned char>(word[i])], static_cast<std::uint32_t>(i)});
    }
    return end;
  }
  std::size_t at = begin;
  while (at < end) {
    const CodePoint point = code_point_at(word, at);
    add_character(word, at, point.nbytes, point.is_valid ? point.value : kNoCodePoint);
    at += point.nbytes;
  }
  return at;
}

void WordEncoder::merge(std::span<const Symbol> symbols, std::vector<std::uint32_t>& tokens) {
  if (symbols.size() < kMany) {
    merge_few(symbols, tokens);
  } else {
    merge_many(symbols, tokens);
  }
}

void WordEncoder::merge_few(std::span<const Symbol> symbols, std::vector<std::uint32_t>& tokens) {
  left_.clear();
  merges_.clear();
  for (const Symbol& symbol : symbols) left_.push_back(symbol.token);
  const auto find = [&](std::size_t i) { return bpe_.by_pair.find(pair_key(left_[i], left_[i + 1])); };
  for (std::size_t i = 0; i + 1 < left_.size(); ++i) merges_.push_back(find(i));
  while (!merges_.empty()) {
    const auto best = std::ranges::min_element(merges_, {}, &Merge::rank);
    if (best->rank == kNoToken) break;
    const auto at = static_cast<std::size_t>(best - merges_.begin());
    left_[at] = best->result;
    left_.erase(left_.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    merges_.erase(best);
    if (at < merges_.size()) merges_[at] = find(at);
    if (at > 0) merges_[at - 1] = find(at - 1);
  }
  tokens.insert(tokens.end(), left_.begin(), left_.end());
}

void WordEncoder::push(std::uint32_t at) {
  const std::uint32_t next = nodes_[at].after;
  if (next == kNoToken) return;
  const std::uint64_t pair = pair_key(nodes_[at].token, nodes_[next].token);
  const Merge merge = bpe_.by_pair.find(pair);
  if (merge.rank == kNoToken) return;
  queue_.push_back({merge.rank, at, pair, merge.result});
  std::ranges::push_heap(queue_, std::greater<>());
}

void WordEncoder::merge_many(std::span<const Symbol> symbols, std::vector<std::uint32_t>& tokens) {
  nodes_.clear();
  const auto count = static_cast<std::uint32_t>(symbols.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    nodes_.push_back({symbols[i].token, i == 0 ? kNoToken : i - 1, i + 1 == count ? kNoToken : i + 1});
  }
  for (std::uint32_t i = 0; i + 1 < count; ++i) push(i);
  while (!queue_.empty()) {
    std::ranges::pop_heap(queue_, std::greater<>());
    const Candidate best = queue_.back();
    queue_.pop_back();
    Node& left = nodes_[best.at];
    // A neighbor may have been merged meanwhile: then the pair is outdated.
    if (left.after == kNoToken || pair_key(left.token, nodes_[left.after].token) != best.pair) continue;
    Node& right = nodes_[left.after];
    left.token = best.result;
    left.after = right.after;
    right.token = kNoToken;
    if (left.after != kNoToken) nodes_[left.after].before = best.at;
    push(best.at);
    if (left.before != kNoToken) push(left.before);
  }
  for (std::uint32_t at = 0; at != kNoToken; at = nodes_[at].after) tokens.push_back(nodes_[at].token);
}

void WordEncoder::encode_part(std::string_view part, std::span<const Symbol> symbols,
                              std::vector<std::uint32_t>& tokens) {
  // With ignore_merges, the cache holds results that are only right for words.
  if (symbols.size() == 1) {
    tokens.push_back(symbols[0].token);
  } else if (bpe_.ignore_merges || part.size() > WordCache::kMaxWordBytes) {
    merge(symbols, tokens);
  } else if (const auto known = cache_.find(part)) {
    tokens.insert(tokens.end(), known->begin(), known->end());
  } else {
    made_.clear();
    merge(symbols, made_);
    cache_.add(part, made_);
    tokens.insert(tokens.end(), made_.begin(), made_.end());
  }
}

// Divides the word where no merge goes, so that the parts can be found in the cache and merged alone. Finds symbols
// block by block; the last part of a block may continue in the next one.
void WordEncoder::encode_long(std::string_view word, std::vector<std::uint32_t>& tokens, const OnBytes& on_bytes) {
  symbols_.clear();
  std::size_t end = 1;  // symbols [0, end) are known to belong to the first part
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t start = at;
    at = add_symbols(word, at, std::min(at + kBlockBytes, word.size()));
    std::size_t begin = 0;
    while (begin < symbols_.size()) {
      while (end < symbols_.size()) {
        const std::uint64_t boundary = pair_key(symbols_[end - 1].token, symbols_[end].token);
        if (bpe_.can_divide && bpe_.joined.find(boundary).rank == kNoToken) break;
        ++end;
      }
      if (end >= symbols_.size() && at < word.size()) break;
      const std::size_t next = end < symbols_.size() ? symbols_[end].begin : word.size();
      encode_part(word.substr(symbols_[begin].begin, next - symbols_[begin].begin),
                  std::span(symbols_).subspan(begin, end - begin), tokens);
      begin = end++;
    }
    symbols_.erase(symbols_.begin(), symbols_.begin() + static_cast<std::ptrdiff_t>(begin));
    end -= begin;
    on_bytes(at - start);
  }
}

void WordEncoder::encode(std::string_view word, std::vector<std::uint32_t>& tokens, const OnBytes& on_bytes) {
  const bool is_short = word.size() <= WordCache::kMaxWordBytes;
  if (is_short) {
    if (const auto known = cache_.find(word)) {
      tokens.insert(tokens.end(), known->begin(), known->end());
      return on_bytes(word.size());
    }
  }
  const auto whole = bpe_.ignore_merges ? bpe_.by_text.find(word) : bpe_.by_text.end();
  const bool is_token = whole != bpe_.by_text.end();
  if (!is_short && !is_token) {
    for (std::size_t start = 0; start < word.size(); start += kMaxWordBytes) {
      encode_long(word.substr(start, kMaxWordBytes), tokens, on_bytes);
    }
    return;
  }
  made_.clear();
  if (is_token) {
    made_.push_back(whole->second);
  } else {
    symbols_.clear();
    add_symbols(word, 0, word.size());
    merge(symbols_, made_);
  }
  if (is_short) cache_.add(word, made_);
  tokens.insert(tokens.end(), made_.begin(), made_.end());
  on_bytes(word.size());
}

}  // namespace tessera::train::detail
