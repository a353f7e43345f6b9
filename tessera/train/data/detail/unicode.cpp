#include "tessera/train/data/detail/unicode.h"

#include <algorithm>

#include "tessera/train/data/detail/unicode_ranges.h"

namespace tessera::train::detail {
namespace {

bool is_in(std::span<const CodeRange> ranges, std::uint32_t code_point) {
  const auto after = std::ranges::upper_bound(ranges, code_point, {}, &CodeRange::first);
  return after != ranges.begin() && code_point <= std::prev(after)->last;
}

bool is_space(std::uint32_t code_point) {
  switch (code_point) {
    case 0x20:
    case 0x85:
    case 0xA0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202F:
    case 0x205F:
    case 0x3000: return true;
    default: return (code_point >= 0x09 && code_point <= 0x0D) || (code_point >= 0x2000 && code_point <= 0x200A);
  }
}

}  // namespace

CodePoint code_point_at(std::string_view text, std::size_t position) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[position + i]); };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return {first, 1, true};
  const std::size_t nbytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() - position < nbytes) return {first, 1, false};
  std::uint32_t value = first & (0x7FU >> nbytes);
  for (std::size_t i = 1; i < nbytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {first, 1, false};
    value = value << 6 | (byte(i) & 0x3FU);
  }
  constexpr std::uint32_t kMin[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < kMin[nbytes] || value > 0x10FFFF || is_surrogate) return {first, 1, false};
  return {value, nbytes, true};
}

Kind kind_of(std::uint32_t code_point) {
  if (code_point < 0x80) {
    const std::uint32_t lower = code_point | 0x20U;
    if (lower >= 'a' && lower <= 'z') return Kind::kLetter;
    if (code_point >= '0' && code_point <= '9') return Kind::kNumber;
    return is_space(code_point) ? Kind::kSpace : Kind::kOther;
  }
  if (is_space(code_point)) return Kind::kSpace;
  if (is_in(letter_ranges(), code_point)) return Kind::kLetter;
  return is_in(number_ranges(), code_point) ? Kind::kNumber : Kind::kOther;
}

void append_utf8(std::string& text, std::uint32_t code_point) {
  const auto add = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code_point < 0x80) {
    add(code_point);
    return;
  }
  const int more = code_point < 0x800 ? 1 : code_point < 0x10000 ? 2 : 3;
  constexpr std::uint32_t kHead[] = {0, 0xC0, 0xE0, 0xF0};
  add(kHead[more] | code_point >> (6 * more));
  for (int i = more - 1; i >= 0; --i) add(0x80U | (code_point >> (6 * i) & 0x3FU));
}

}  // namespace tessera::train::detail
