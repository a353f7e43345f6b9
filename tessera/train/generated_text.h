// The text of generated tokens as it grows: complete characters, up to the first stop string.
//
//   GeneratedText text(tokenizer, {"\nUser:"}, [](std::string_view more) { print(more); });
//   while (text.add(next_token())) {}
//   text.finish();
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/train/data/tokenizer.h"

namespace tessera::train {

/// Decodes tokens to text. Bytes that are not UTF-8 become U+FFFD. Not thread-safe.
class TESSERA_API GeneratedText {
 public:
  /// Receives complete characters.
  using Sink = std::function<void(std::string_view more)>;
  /// `sink` may be empty. Throws InvalidArgument if a stop string is empty.
  GeneratedText(Tokenizer tokenizer, std::vector<std::string> stops, Sink sink = {});

  /// Adds a token. Returns false if the text contains a stop string; the text then ends before it. Characters that may
  /// begin a stop string are passed to the sink when they do not.
  bool add(std::uint32_t token);
  /// Passes the rest of the text to the sink.
  void finish();
  /// Returns the text that the sink has received.
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void pass(std::size_t end, bool is_last);

  Tokenizer tokenizer_;
  std::vector<std::string> stops_;
  Sink sink_;
  std::vector<std::uint32_t> tokens_;
  std::string bytes_;       // of all tokens
  std::size_t passed_ = 0;  // bytes that the sink has received
  bool is_stopped_ = false;
  std::string text_;
};

/// Returns the number of bytes of complete characters at the start of `bytes`: all, unless they end within one.
TESSERA_API std::size_t complete_characters(std::string_view bytes);
/// Returns the text with each byte that is not UTF-8 replaced by U+FFFD.
TESSERA_API std::string as_valid_utf8(std::string_view bytes);

}  // namespace tessera::train
