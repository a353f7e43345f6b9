// Converts text to tokens and back: one token per byte, or byte-level BPE of a `tokenizer.json` file.
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

/// Byte or BPE tokenizer. Immutable. Copies share the tables.
class TESSERA_API Tokenizer {
 public:
  /// Returns a tokenizer with one token per byte, 256 in total. Token 0, which text does not contain, ends a document.
  static Tokenizer bytes();
  /// Reads a tokenizer.json with a BPE model and byte-level pre-tokenization. Throws NotSupported if the file requests
  /// an unsupported feature, and IoError if it is missing or inconsistent. Tokens that the file would add around a text
  /// are ignored. The end of text is the added token `<|endoftext|>`, `<|end_of_text|>`, `</s>` or `<eos>`.
  static Tokenizer read(const std::filesystem::path& path);
  /// Learns merges until there are `vocabulary` tokens, including the 256 bytes and <|endoftext|>. The result does not
  /// depend on the order of the texts. Calls `on_progress` after each merge, with tokens. Throws InvalidArgument if the
  /// texts have too few pairs.
  static Tokenizer learn(std::span<const std::string_view> texts, std::int64_t vocabulary,
                         const OnProgress& on_progress = {});
  /// Writes a tokenizer.json that read() reads back to an equal tokenizer, and that other programs can read. Not
  /// available for bytes().
  void write(const std::filesystem::path& path) const;

  /// Returns the tokens of a text. Special tokens in it count as text. Calls `on_progress` about every 256 KiB, with
  /// bytes of the text.
  [[nodiscard]] std::vector<std::uint32_t> encode(std::string_view text, const OnProgress& on_progress = {}) const;
  /// Returns the bytes of tokens. Throws for a value that is not a token.
  [[nodiscard]] std::string decode(std::span<const std::uint32_t> tokens) const;
  /// Returns the number of tokens; valid tokens are in [0, vocabulary()).
  [[nodiscard]] std::int64_t vocabulary() const;
  /// Returns the token between documents.
  [[nodiscard]] std::uint32_t end_of_text() const;
  /// Returns a 128-bit digest as hex, which identifies the tokenizer in token files.
  [[nodiscard]] const std::string& digest() const;

 private:
  struct State;
  explicit Tokenizer(std::shared_ptr<const State> state);
  std::shared_ptr<const State> state_;
};

}  // namespace tessera::train
