#include "tessera/train/data/detail/added_tokens.h"

#include <algorithm>

#include "tessera/train/data/detail/unicode.h"

namespace tessera::train::detail {
namespace {

std::uint32_t value_at(std::string_view text, std::size_t position) {
  const CodePoint point = code_point_at(text, position);
  return point.is_valid ? point.value : kNoCodePoint;
}

bool is_inside_word(std::string_view text, std::size_t begin, std::size_t end) {
  return (begin != 0 && is_word(value_at(text, before(text, begin)))) ||
         (end != text.size() && is_word(value_at(text, end)));
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)), nodes_(1) {
  for (const AddedToken& token : tokens_) {
    std::uint32_t at = 0;
    for (const char c : token.content) {
      const auto byte = static_cast<unsigned char>(c);
      const auto found = std::ranges::find(nodes_[at].next, byte, &std::pair<unsigned char, std::uint32_t>::first);
      if (found != nodes_[at].next.end()) {
        at = found->second;
        continue;
      }
      const auto made = static_cast<std::uint32_t>(nodes_.size());
      nodes_[at].next.emplace_back(byte, made);
      nodes_.emplace_back();
      at = made;
    }
    if (at == 0) continue;
    begins_.set(static_cast<unsigned char>(token.content[0]));
    if (nodes_[at].token == nullptr) nodes_[at].token = &token;
  }
}

const AddedTokenMatcher::Node* AddedTokenMatcher::child(const Node& node, char byte) const {
  for (const auto& [each, index] : node.next) {
    if (each == static_cast<unsigned char>(byte)) return &nodes_[index];
  }
  return nullptr;
}

const AddedToken* AddedTokenMatcher::longest_at(std::string_view text, std::size_t position) const {
  const AddedToken* longest = nullptr;
  const Node* node = nodes_.data();
  for (; position < text.size(); ++position) {
    node = child(*node, text[position]);
    if (node == nullptr) break;
    if (node->token != nullptr) longest = node->token;
  }
  return longest;
}

void AddedTokenMatcher::split(std::string_view text, bool finds_special,
                              const std::function<void(const Piece&)>& on_piece, const OnTick& on_tick) const {
  Ticks ticks(on_tick);
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size() && begins_.any();) {
    ticks.at(at);
    const AddedToken* token = begins_[static_cast<unsigned char>(text[at])] ? longest_at(text, at) : nullptr;
    if (token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at;
    std::size_t end = at += token->content.size();
    if (token->is_special && !finds_special) continue;
    if (token->is_single_word && is_inside_word(text, begin, end)) continue;
    while (token->strips_left && begin > done && is_space(value_at(text, before(text, begin)))) {
      begin = before(text, begin);
    }
    while (token->strips_right && end < text.size() && is_space(value_at(text, end))) {
      end += code_point_at(text, end).nbytes;
    }
    begin = std::max(begin, done);
    if (begin != done) on_piece({done, begin, nullptr});
    on_piece({begin, end, token});
    done = end;
    at = std::max(at, done);
  }
  if (done != text.size()) on_piece({done, text.size(), nullptr});
}

}  // namespace tessera::train::detail
