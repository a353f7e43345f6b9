// Converts text to tokens and back: one token per byte, or byte pair encoding as a `tokenizer.json` describes it.
//
//   const Tokenizer tokenizer = Tokenizer::read("tokenizer.json");
//   TextStream stream(tokenizer);
//   for (const std::uint32_t token : tokenizer.encode(text)) std::cout << stream.add(token);
//   std::cout << stream.finish();
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/train/on_progress.h"

namespace tessera::train {

/// How a text is encoded.
struct EncodeOptions {
  bool finds_special = false;  ///< Special tokens in the text, such as `<|im_end|>`, become tokens. Otherwise, they are
                               ///< text, so that a user cannot write them.
  bool adds_template = false;  ///< Adds the tokens that the file puts around a text, such as `<s>`.
};

/// Byte or BPE tokenizer. Immutable. Copies share the tables. Thread-safe.
class TESSERA_API Tokenizer {
 public:
  /// Returns a tokenizer with one token per byte, 256 in total. Token 0, which text does not contain, ends a document.
  static Tokenizer bytes();
  /// Reads a tokenizer.json with a BPE model, or that of a directory. Throws NotSupported if the file requests an
  /// unsupported feature, and IoError if it is missing or inconsistent. The end of text is the added token
  /// `<|endoftext|>`, `<|end_of_text|>`, `</s>`, `<eos>` or DeepSeek's.
  static Tokenizer read(const std::filesystem::path& path);
  /// Returns the file that read() reads: `path`, or the tokenizer.json of the directory `path`.
  static std::filesystem::path file_of(const std::filesystem::path& path);
  /// Learns merges until there are `vocabulary` tokens, including the 256 bytes and <|endoftext|>. The result does not
  /// depend on the order of the texts. Calls `on_progress` after each merge, with tokens. Throws InvalidArgument if the
  /// texts have too few pairs.
  static Tokenizer learn(std::span<const std::string_view> texts, std::int64_t vocabulary,
                         const OnProgress& on_progress = {});
  /// Writes a tokenizer.json: the bytes of the file that was read, or one for a learned tokenizer that other programs
  /// can read. Not available for bytes().
  void write(const std::filesystem::path& path) const;

  /// Returns the tokens of a text. Special tokens in it count as text, and no template is added. Calls `on_progress`
  /// about every 256 KiB, with bytes of the text.
  [[nodiscard]] std::vector<std::uint32_t> encode(std::string_view text, const OnProgress& on_progress = {}) const;
  /// Returns the tokens of a text.
  [[nodiscard]] std::vector<std::uint32_t> encode(std::string_view text, const EncodeOptions& options,
                                                  const OnProgress& on_progress = {}) const;
  /// Returns the bytes of tokens, special ones included. They need not be UTF-8: a token may be part of a character.
  /// Throws InvalidArgument for a value that is not a token.
  [[nodiscard]] std::string decode(std::span<const std::uint32_t> tokens) const;

  /// Returns the number of tokens; valid tokens are in [0, vocabulary()).
  [[nodiscard]] std::int64_t vocabulary() const;
  /// Returns the token between documents.
  [[nodiscard]] std::uint32_t end_of_text() const;
  /// Returns the added token with this text, such as `<|im_end|>`.
  [[nodiscard]] std::optional<std::uint32_t> added_token(std::string_view content) const;
  /// Returns true for a control token, which a reader of the text should not see.
  [[nodiscard]] bool is_special(std::uint32_t token) const;
  /// Returns a 128-bit digest as hex, which identifies the tokenizer in token files.
  [[nodiscard]] const std::string& digest() const;

 private:
  friend class TextStream;
  struct State;
  explicit Tokenizer(std::shared_ptr<const State> state);
  std::shared_ptr<const State> state_;
};

/// Writes tokens as text, one by one. The text is UTF-8 and never ends inside of a character: the bytes of an
/// incomplete character are held back. Bytes that cannot be part of a character become U+FFFD. Not thread-safe.
class TESSERA_API TextStream {
 public:
  /// Leaves out special tokens unless `shows_special`.
  explicit TextStream(Tokenizer tokenizer, bool shows_special = false);
  /// Returns the text that the token completes; often nothing, if it is part of a character. Throws InvalidArgument for
  /// a value that is not a token.
  [[nodiscard]] std::string add(std::uint32_t token);
  /// Returns what was held back, as U+FFFD, and begins a new text.
  [[nodiscard]] std::string finish();

 private:
  friend class Tokenizer;
  void append(std::uint32_t token);

  Tokenizer tokenizer_;
  bool shows_special_;
  bool is_first_ = true;
  std::size_t strippable_ = 0;  // characters that the start of the text may still lose
  std::string held_;
};

}  // namespace tessera::train
