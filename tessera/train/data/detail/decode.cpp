#include "tessera/train/data/detail/decode.h"

#include <array>

namespace tessera::train::detail {
namespace {

constexpr bool is_own_character(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct ByteCharacters {
  std::array<std::uint32_t, 256> of_byte = {};
  std::array<int, 512> to_byte = {};  // -1: no byte
};
constexpr ByteCharacters make_byte_characters() {
  ByteCharacters table;
  for (int& byte : table.to_byte) byte = -1;
  std::uint32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    table.of_byte[byte] = is_own_character(byte) ? byte : next++;
    table.to_byte[table.of_byte[byte]] = static_cast<int>(byte);
  }
  return table;
}
constexpr ByteCharacters kByteCharacters = make_byte_characters();

std::string strip(std::string text, const DecoderStep& step) {
  for (std::size_t i = 0; i < step.from_start && text.starts_with(step.content); ++i)
    text.erase(0, step.content.size());
  for (std::size_t i = 0; i < step.from_end && text.ends_with(step.content); ++i) {
    text.resize(text.size() - step.content.size());
  }
  return text;
}

}  // namespace

std::string Decoder::apply(std::string_view token, bool is_first) const {
  std::string text(token);
  for (const DecoderStep& step : steps) {
    switch (step.kind) {
      case DecoderStep::Kind::kReplace: text = step.replacement.apply(text); break;
      case DecoderStep::Kind::kByteFallback: {
        const int byte = byte_of_fallback(text);
        if (byte >= 0) return {static_cast<char>(byte)};
        break;
      }
      case DecoderStep::Kind::kMetaspace:
        text = Replacement{{.text = step.content, .regex = {}}, is_first && !step.keeps_first ? "" : " "}.apply(text);
        break;
      case DecoderStep::Kind::kStrip: text = strip(std::move(text), step); break;
      case DecoderStep::Kind::kByteLevel: text = bytes_of_characters(text).value_or(text); break;
    }
  }
  return text;
}

int byte_of_fallback(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    const bool is_digit = c >= '0' && c <= '9';
    const bool is_letter = (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f');
    if (!is_digit && !is_letter) return -1;
    value = value * 16 + (is_digit ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  return value;
}

std::uint32_t character_of_byte(unsigned char byte) { return kByteCharacters.of_byte[byte]; }

std::optional<std::string> bytes_of_characters(std::string_view text) {
  std::string bytes;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (!point.is_valid || point.value >= kByteCharacters.to_byte.size()) return std::nullopt;
    const int byte = kByteCharacters.to_byte[point.value];
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
    at += point.nbytes;
  }
  return bytes;
}

std::string characters_of_bytes(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) append_utf8(text, character_of_byte(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace tessera::train::detail
