#include "tessera/train/data/detail/unicode.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "tessera/base/error.h"

namespace tessera::train::detail {
namespace {

// Names of utf8proc_category_t, in its order.
constexpr std::string_view kCategories[] = {"Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd",
                                            "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",
                                            "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};
static_assert(UTF8PROC_CATEGORY_CO + 1 == std::size(kCategories));

constexpr std::uint32_t bit_of(int category) { return 1U << category; }
constexpr std::uint32_t kNumbers =
    bit_of(UTF8PROC_CATEGORY_ND) | bit_of(UTF8PROC_CATEGORY_NL) | bit_of(UTF8PROC_CATEGORY_NO);
constexpr std::uint32_t kWords =
    bit_of(UTF8PROC_CATEGORY_LU) | bit_of(UTF8PROC_CATEGORY_LL) | bit_of(UTF8PROC_CATEGORY_LT) |
    bit_of(UTF8PROC_CATEGORY_LM) | bit_of(UTF8PROC_CATEGORY_LO) | bit_of(UTF8PROC_CATEGORY_MN) |
    bit_of(UTF8PROC_CATEGORY_MC) | bit_of(UTF8PROC_CATEGORY_ME) | bit_of(UTF8PROC_CATEGORY_ND) |
    bit_of(UTF8PROC_CATEGORY_NL) | bit_of(UTF8PROC_CATEGORY_PC);

struct CodeRange {
  std::uint32_t first;
  std::uint32_t last;
};

template <std::size_t N>
bool is_in(const CodeRange (&ranges)[N], std::uint32_t code_point) {
  for (const auto& [first, last] : ranges) {
    if (code_point >= first && code_point <= last) return true;
  }
  return false;
}

// Symbols that are alphabetic: letters in circles and squares.
constexpr CodeRange kAlphabeticSymbols[] = {
    {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
// Code points that NFC keeps, whatever stands before them: letters of common scripts without composition.
constexpr CodeRange kKeptByNfc[] = {{0, 0x2FF},       {0x400, 0x482},   {0x5D0, 0x5EA},   {0x2010, 0x2027},
                                    {0x3041, 0x3096}, {0x30A1, 0x30FA}, {0x4E00, 0x9FFF}, {0xAC00, 0xD7A3}};

utf8proc_int32_t signed_of(std::uint32_t code_point) { return static_cast<utf8proc_int32_t>(code_point); }

bool is_kept(std::uint32_t code_point, Form form) {
  return form == Form::kNfc ? is_in(kKeptByNfc, code_point) : code_point < 0x80;
}

void append_normalized(std::string& out, std::string_view valid, Form form) {
  constexpr int kStable = UTF8PROC_STABLE;
  constexpr int kOptions[] = {kStable | UTF8PROC_COMPOSE, kStable | UTF8PROC_DECOMPOSE,
                              kStable | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
                              kStable | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t nbytes = ::utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(valid.data()),
                                                 static_cast<utf8proc_ssize_t>(valid.size()), &made,
                                                 static_cast<utf8proc_option_t>(kOptions[static_cast<int>(form)]));
  TESSERA_CHECK(nbytes >= 0, "normalize: ", ::utf8proc_errmsg(nbytes), ", for a text of ", valid.size(), " bytes");
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(made, &std::free);
  out.append(reinterpret_cast<const char*>(made), static_cast<std::size_t>(nbytes));
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

bool is_interrupted(std::string_view text, std::size_t position) {
  const std::string_view rest = text.substr(position, 4);
  // Whether some continuation completes it: the smallest or the largest one does if any does.
  for (const char next : {'\x80', '\xbf'}) {
    std::string whole(rest);
    while (whole.size() < 4) whole += next;
    const CodePoint point = code_point_at(whole, 0);
    if (point.is_valid && point.nbytes > rest.size()) return true;
  }
  return false;
}

std::size_t before(std::string_view text, std::size_t position) {
  for (std::size_t nbytes = 1; nbytes <= 4 && nbytes <= position; ++nbytes) {
    const CodePoint point = code_point_at(text.substr(0, position), position - nbytes);
    if (point.is_valid && point.nbytes == nbytes) return position - nbytes;
  }
  return position - 1;
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

std::optional<std::uint32_t> category_bits(std::string_view name) {
  std::uint32_t bits = 0;
  for (int category = 0; category <= UTF8PROC_CATEGORY_CO; ++category) {
    if (kCategories[category] == name || (name.size() == 1 && kCategories[category][0] == name[0])) {
      bits |= bit_of(category);
    }
  }
  return bits == 0 ? std::nullopt : std::optional(bits);
}

std::uint32_t category_of(std::uint32_t code_point) {
  return code_point == kNoCodePoint ? 0 : bit_of(::utf8proc_category(signed_of(code_point)));
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

bool is_number(std::uint32_t code_point) { return (category_of(code_point) & kNumbers) != 0; }

bool is_word(std::uint32_t code_point) {
  const bool is_joiner = code_point == 0x200C || code_point == 0x200D;
  return is_joiner || (category_of(code_point) & kWords) != 0 || is_in(kAlphabeticSymbols, code_point);
}

std::uint32_t folded(std::uint32_t code_point) {
  if (code_point < 0x80) return code_point >= 'A' && code_point <= 'Z' ? code_point + 0x20 : code_point;
  if (code_point == kNoCodePoint) return code_point;
  utf8proc_int32_t made[4];
  int boundary = 0;
  const utf8proc_ssize_t count =
      ::utf8proc_decompose_char(signed_of(code_point), made, 4, UTF8PROC_CASEFOLD, &boundary);
  return count == 1 ? static_cast<std::uint32_t>(made[0]) : code_point;
}

void append_lower(std::string& text, std::uint32_t code_point) {
  if (code_point == 0x130) {  // the only one whose lower case has two code points
    text += "i\u0307";
    return;
  }
  append_utf8(text, static_cast<std::uint32_t>(::utf8proc_tolower(signed_of(code_point))));
}

std::string normalized(std::string_view text, Form form, const OnTick& on_tick) {
  Ticks ticks(on_tick);
  std::string out;
  out.reserve(text.size());
  std::size_t copied = 0;     // text before it is in `out`
  std::size_t last_kept = 0;  // start of the code point before `at`, if it is kept, otherwise `at`
  for (std::size_t at = 0; at < text.size();) {
    ticks.at(at);
    CodePoint point = code_point_at(text, at);
    if (!point.is_valid || is_kept(point.value, form)) {
      last_kept = at;
      at += point.nbytes;
      if (!point.is_valid) last_kept = at;
      continue;
    }
    // The next code points may combine with the kept code point before.
    std::size_t end = at;
    while (end < text.size()) {
      point = code_point_at(text, end);
      if (!point.is_valid || is_kept(point.value, form)) break;
      end += point.nbytes;
    }
    out.append(text, copied, last_kept - copied);
    append_normalized(out, text.substr(last_kept, end - last_kept), form);
    at = copied = last_kept = end;
  }
  out.append(text, copied);
  return out;
}

}  // namespace tessera::train::detail
