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

/// Decodes tokens to text as TextStream does, without special tokens. Not thread-safe.
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
  // Passes the first bytes that are held.
  void pass(std::size_t nbytes);

  TextStream stream_;
  std::vector<std::string> stops_;
  Sink sink_;
  std::string held_;  // the sink has not received it, because it may begin a stop string
  bool is_stopped_ = false;
  std::string text_;
};

}  // namespace tessera::train
