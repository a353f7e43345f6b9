// Reads short texts (meshes, layouts) from left to right. Every error is an InvalidArgument with the text and the
// column. The reader does not recurse, and its memory is bounded by the text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "tessera/base/error.h"

namespace tessera::layout::detail {

/// Returns true if a name may contain the character: letters, digits and '_', with no digit at the start.
inline bool is_name_letter(char letter, bool is_first) {
  const bool is_digit = letter >= '0' && letter <= '9';
  const bool is_letter = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || letter == '_';
  return is_letter || (is_digit && !is_first);
}

/// Returns the text for a message: truncated to 60 characters, with '?' for unprintable bytes.
inline std::string shown(std::string_view text) {
  constexpr std::size_t kMax = 60;
  std::string out(text.substr(0, kMax));
  for (char& letter : out) {
    if (letter < ' ' || letter > '~') letter = '?';
  }
  return text.size() > kMax ? out + "..." : out;
}

/// Reader of one text.
class TextReader {
 public:
  /// Maximum number.
  static constexpr std::int64_t kMaxNumber = std::int64_t{1} << 62;

  /// `what` names the text in messages: "mesh", "layout".
  TextReader(const char* what, std::string_view text) : what_(what), text_(text) {}

  /// Returns true if all text is read.
  [[nodiscard]] bool at_end() const { return at_ == text_.size(); }
  /// Returns the next character, or 0 at the end.
  [[nodiscard]] char peek() const { return at_end() ? '\0' : text_[at_]; }
  /// Reads `letter` if it is next; returns true if so.
  bool take(char letter) {
    if (at_end() || text_[at_] != letter) return false;
    ++at_;
    return true;
  }
  /// Reads `letter`; throws if it is not next.
  void expect(char letter) {
    if (!take(letter)) fail("expected '", letter, "'");
  }
  /// Reads blanks.
  void skip_blanks() {
    while (peek() == ' ' || peek() == '\t') ++at_;
  }
  /// Reads characters while `belongs(letter)` is true. The result may be empty.
  template <class Belongs>
  std::string_view take_while(Belongs belongs) {
    const std::size_t from = at_;
    while (!at_end() && belongs(text_[at_])) ++at_;
    return text_.substr(from, at_ - from);
  }
  /// Reads a name, which may be empty.
  std::string_view take_name() {
    bool is_first = true;
    return take_while([&](char letter) { return is_name_letter(letter, std::exchange(is_first, false)); });
  }
  /// Reads letters, possibly none.
  std::string_view take_letters() {
    return take_while([](char letter) { return is_name_letter(letter, true); });
  }
  /// Returns true if a digit is next.
  [[nodiscard]] bool has_digit() const { return peek() >= '0' && peek() <= '9'; }
  /// Reads a number of digits, at most 2^62. `of` names the number in messages.
  std::int64_t number(const char* of) {
    if (!has_digit()) fail("expected a number, the ", of);
    std::int64_t value = 0;
    for (; has_digit(); ++at_) {
      if (__builtin_mul_overflow(value, std::int64_t{10}, &value) ||
          __builtin_add_overflow(value, std::int64_t{peek() - '0'}, &value) || value > kMaxNumber) {
        fail("the ", of, " must be at most 2^62");
      }
    }
    return value;
  }
  /// Returns the current position, for fail_at().
  [[nodiscard]] std::size_t place() const { return at_; }

  /// Returns the text that was read.
  [[nodiscard]] std::string_view done() const { return text_.substr(0, at_); }

  /// Throws InvalidArgument with `parts` and the column of `place`.
  template <class... Parts>
  [[noreturn]] void fail_at(std::size_t place, const Parts&... parts) const {
    const std::string_view rest = text_.substr(place);
    TESSERA_THROW(InvalidArgument, what_, " '", shown(text_), "', column ", place + 1, ": ", parts...,
                  rest.empty() ? std::string(", but the text ends there") : ", at '" + shown(rest.substr(0, 20)) + "'");
  }
  /// Throws InvalidArgument with `parts` and the current column.
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    fail_at(at_, parts...);
  }

 private:
  const char* what_;
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace tessera::layout::detail
