// Tokens that stand in a text as themselves, such as <|im_end|>: they are found before the text is split into words.
#pragma once

#include <bitset>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/train/data/detail/ticks.h"

namespace tessera::train::detail {

/// An entry of added_tokens.
struct AddedToken {
  std::uint32_t id = 0;
  std::string content;
  bool is_special = false;      ///< Control token: found only if the caller requests it, and left out of shown text.
  bool is_single_word = false;  ///< Not found inside of a word.
  bool strips_left = false;     ///< Takes the white space before it.
  bool strips_right = false;    ///< Takes the white space after it.
  bool is_normalized = false;   ///< Found in normalized text.
};

/// Finds tokens in text: at each position the longest. Immutable.
class AddedTokenMatcher {
 public:
  /// Keeps no reference to `tokens`.
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens = {});
  AddedTokenMatcher(AddedTokenMatcher&&) = default;  // nodes refer to tokens, which keep their addresses
  AddedTokenMatcher& operator=(AddedTokenMatcher&&) = default;

  /// A piece of a text: a token, or text between tokens.
  struct Piece {
    std::size_t begin = 0;
    std::size_t end = 0;
    const AddedToken* token = nullptr;
  };
  /// Calls `on_piece` for each piece. Special tokens are text unless `finds_special`.
  void split(std::string_view text, bool finds_special, const std::function<void(const Piece&)>& on_piece,
             const OnTick& on_tick = {}) const;

 private:
  struct Node {
    std::vector<std::pair<unsigned char, std::uint32_t>> next;
    const AddedToken* token = nullptr;
  };
  [[nodiscard]] const Node* child(const Node& node, char byte) const;
  [[nodiscard]] const AddedToken* longest_at(std::string_view text, std::size_t position) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;  // a tree of bytes; the first is its root
  std::bitset<256> begins_;  // first bytes of all tokens
};

}  // namespace tessera::train::detail
