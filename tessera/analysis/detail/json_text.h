// Writes JSON: brackets, keys and values in order, with commas and quotes. Text is buffered until it is taken or sent,
// so that a writer holds one event at a time and never a complete file.
#pragma once

#include <concepts>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

namespace tessera::analysis::detail {

/// Builds JSON text. The caller matches brackets and gives each key one value.
class JsonText {
 public:
  /// Opens '{' or '['.
  JsonText& open(char bracket);
  /// Closes with '}' or ']'.
  JsonText& close(char bracket);
  /// Adds the key of the following value.
  JsonText& key(std::string_view name);
  /// Adds a string. Invalid UTF-8 becomes U+FFFD, and all but ASCII is escaped.
  JsonText& value(std::string_view text);
  /// Adds a string.
  JsonText& value(const char* text) { return value(std::string_view(text)); }
  /// Adds a string.
  JsonText& value(const std::string& text) { return value(std::string_view(text)); }
  /// Adds a boolean.
  JsonText& value(bool is_true) { return raw(is_true ? "true" : "false"); }
  /// Adds an integer.
  template <std::integral Number>
  requires(!std::same_as<Number, bool> && !std::same_as<Number, char>) JsonText& value(Number number) {
    return raw(std::to_string(number));
  }
  /// Adds nanoseconds as microseconds with three decimals: 1234567 is 1234.567. Negative ones are 0.
  JsonText& microseconds(std::int64_t nanoseconds);
  /// Adds a key with its value.
  template <class Value>
  JsonText& field(std::string_view name, const Value& each) {
    return key(name).value(each);
  }
  /// Starts a new line at the next value, key or bracket, for readability.
  JsonText& line();

  /// Returns the text so far.
  [[nodiscard]] const std::string& text() const { return text_; }
  /// Returns the text so far and clears the buffer. Later text continues it.
  [[nodiscard]] std::string take();
  /// Writes the text so far to a stream and clears the buffer.
  void send(std::ostream& out);

 private:
  JsonText& raw(std::string_view text);
  void separate();

  std::string text_;
  bool is_after_value_ = false;  // a comma precedes the next value
  bool is_line_wanted_ = false;
};

}  // namespace tessera::analysis::detail
