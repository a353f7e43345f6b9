#include "tessera/base/bytes.h"

#include <fmt/format.h>

#include <cctype>
#include <optional>

#include "tessera/base/error.h"

namespace tessera {
namespace {

using Wide = unsigned __int128;

constexpr std::string_view kPrefixes = "KMGTPE";

std::optional<std::uint64_t> unit_of(std::string_view text) {
  std::string unit;
  for (const char letter : text) unit += static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  if (unit.empty() || unit == "B") return 1;
  const auto power = kPrefixes.find(unit[0]);
  if (power == std::string_view::npos) return std::nullopt;
  const std::string_view rest = std::string_view(unit).substr(1);
  if (!rest.empty() && rest != "B" && rest != "IB") return std::nullopt;
  std::uint64_t result = 1;
  for (std::size_t i = 0; i <= power; ++i) result *= rest == "B" ? 1000 : 1024;
  return result;
}

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

[[noreturn]] void refuse(std::string_view text) {
  TESSERA_THROW(InvalidArgument, "size must be a number and a unit, as in 4096, 64KiB or 1.5 GiB, got '", text, "'");
}

[[noreturn]] void refuse_large(std::string_view text) {
  TESSERA_THROW(InvalidArgument, "size must be below 16 EiB, got '", text, "'");
}

}  // namespace

std::uint64_t parse_bytes(std::string_view text) {
  std::size_t at = 0;
  std::size_t digits = 0;
  std::uint64_t whole = 0;
  for (; at < text.size() && is_digit(text[at]); ++at, ++digits) {
    if (__builtin_mul_overflow(whole, 10u, &whole) ||
        __builtin_add_overflow(whole, static_cast<unsigned>(text[at] - '0'), &whole)) {
      refuse_large(text);
    }
  }
  // Nineteen decimals exceed the resolution of any unit, and keep the product below 128 bits.
  std::uint64_t fraction = 0;
  std::uint64_t scale = 1;
  if (at < text.size() && text[at] == '.') {
    for (++at; at < text.size() && is_digit(text[at]); ++at, ++digits) {
      if (scale >= 10'000'000'000'000'000'000u) continue;
      fraction = fraction * 10 + static_cast<unsigned>(text[at] - '0');
      scale *= 10;
    }
  }
  if (digits == 0) refuse(text);
  while (at < text.size() && text[at] == ' ') ++at;
  const auto unit = unit_of(text.substr(at));
  if (!unit) refuse(text);
  const Wide total = Wide{whole} * *unit + Wide{fraction} * *unit / scale;
  if (total >> 64 != 0) refuse_large(text);
  return static_cast<std::uint64_t>(total);
}

std::string format_bytes(std::uint64_t nbytes) {
  int power = 0;
  while (power < 6 && nbytes >> (10 * (power + 1)) != 0) ++power;
  if (power == 0) return fmt::format("{} B", nbytes);
  const int shift = 10 * power;
  // Hundredths are truncated: 1023.999 MiB is less than 1024 MiB, and a budget is never shown larger than it is.
  const auto whole = nbytes >> shift;
  const auto rest = nbytes & ((std::uint64_t{1} << shift) - 1);
  const auto hundredths = static_cast<unsigned>((Wide{rest} * 100) >> shift);
  std::string number = fmt::format("{}", whole);
  if (hundredths != 0)
    number += hundredths % 10 == 0 ? fmt::format(".{}", hundredths / 10) : fmt::format(".{:02}", hundredths);
  return fmt::format("{} {}iB", number, kPrefixes[static_cast<std::size_t>(power) - 1]);
}

}  // namespace tessera
