// Text to tokens and back: bytes as they are, or byte-level BPE as `tokenizer.json` files hold it.
//
//   const Tokenizer tokenizer = Tokenizer::read("tokenizer.json");
//   tokenizer.decode(tokenizer.encode(text)) == text          for every text, valid UTF-8 or not
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/train/on_progress.h"

namespace tessera::train {

/// See the head of this file. Immutable; copies share.
class TESSERA_API Tokenizer {
 public:
  /// A token a byte, 256 in all; 0, which text does not hold, ends a document.
  static Tokenizer bytes();
  /// From a tokenizer.json with a model of type BPE and byte-level pre-tokenization. NotSupported names what it asks
  /// for that encoding would not do; IoError: it is missing, or contradicts itself. Tokens that a file would put around
  /// a text are left out. The end of text is the added token `<|endoftext|>`, `<|end_of_text|>`, `</s>` or `<eos>`.
  static Tokenizer read(const std::filesystem::path& path);
  /// Learns merges until there are `vocabulary` tokens, the 256 bytes and <|endoftext|> included. Depends on the texts
  /// alone, not on their order. Calls `on_progress` after each merge, with tokens. InvalidArgument: the texts have not
  /// enough pairs for so many.
  static Tokenizer learn(std::span<const std::string_view> texts, std::int64_t vocabulary,
                         const OnProgress& on_progress = {});
  /// As a tokenizer.json that read() reads back to the same tokenizer, and others read too. Not of bytes().
  void write(const std::filesystem::path& path) const;

  /// Tokens of a text. Special tokens in it are taken as text. Calls `on_progress` about every 256 KiB of text, with
  /// bytes of the text.
  [[nodiscard]] std::vector<std::uint32_t> encode(std::string_view text, const OnProgress& on_progress = {}) const;
  /// The bytes of tokens; a number that is no token is an error.
  [[nodiscard]] std::string decode(std::span<const std::uint32_t> tokens) const;
  /// How many tokens there are; their numbers are 0 to vocabulary() - 1.
  [[nodiscard]] std::int64_t vocabulary() const;
  /// The token between documents.
  [[nodiscard]] std::uint32_t end_of_text() const;
  /// For files of tokens: which tokenizer made them. 128 bits, as hex.
  [[nodiscard]] const std::string& digest() const;

 private:
  struct State;
  explicit Tokenizer(std::shared_ptr<const State> state);
  std::shared_ptr<const State> state_;
};

}  // namespace tessera::train
