// Writes tokens as text, in the steps of the decoder of a tokenizer.json. The steps are applied to each token once,
// when the file is read. The rest depends on the position alone: the first token of a text may lose its space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/train/data/detail/text_steps.h"

namespace tessera::train::detail {

/// One step for the text of one token.
struct DecoderStep {
  enum class Kind : std::uint8_t {
    kReplace,       ///< Replaces every match.
    kByteFallback,  ///< <0x41> is a byte.
    kMetaspace,     ///< The content is a space; a text does not begin with it.
    kStrip,         ///< Removes the content up to `from_start` and `from_end` times.
    kByteLevel,     ///< Characters of bytes are bytes.
  };
  Kind kind = Kind::kReplace;
  Replacement replacement = {};
  std::string content = {};
  std::size_t from_start = 0;
  std::size_t from_end = 0;
  bool keeps_first = false;  ///< kMetaspace: a text may begin with a space.
};

/// All steps.
struct Decoder {
  std::vector<DecoderStep> steps;
  char stripped = ' ';             ///< Removed from the start of the text of all tokens.
  std::size_t stripped_count = 0;  ///< Maximum number removed.

  /// Returns the bytes of one token; `is_first` if no token stands before it.
  [[nodiscard]] std::string apply(std::string_view token, bool is_first) const;
};

/// Returns the byte of "<0x41>"; -1 for other texts.
int byte_of_fallback(std::string_view token);
/// Returns the character that stands for a byte in byte-level tokens: printable bytes of Latin-1 are themselves, the
/// others follow from U+0100 on.
std::uint32_t character_of_byte(unsigned char byte);
/// Returns the bytes that the characters stand for; nothing if a character stands for no byte.
std::optional<std::string> bytes_of_characters(std::string_view text);
/// Returns the characters that stand for the bytes.
std::string characters_of_bytes(std::string_view bytes);

}  // namespace tessera::train::detail
