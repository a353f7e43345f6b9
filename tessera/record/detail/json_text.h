// JSON as it is written out: brackets, keys and values in order, commas between them, every string quoted. Text is kept
// until it is taken or sent on, so that a writer holds one event at a time and never a whole file.
#pragma once

#include <concepts>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

namespace tessera::record::detail {

/// Makes JSON text. The caller keeps brackets matched and gives each key one value.
class JsonText {
 public:
  /// Opens '{' or '['.
  JsonText& open(char bracket);
  /// Closes with '}' or ']'.
  JsonText& close(char bracket);
  /// The key of the value that follows.
  JsonText& key(std::string_view name);
  /// A string; bytes that are not UTF-8 become U+FFFD, and all but ASCII is escaped.
  JsonText& value(std::string_view text);
  /// Likewise.
  JsonText& value(const char* text) { return value(std::string_view(text)); }
  /// Likewise.
  JsonText& value(const std::string& text) { return value(std::string_view(text)); }
  /// True or false.
  JsonText& value(bool is_true) { return raw(is_true ? "true" : "false"); }
  /// A whole number.
  template <std::integral Number>
  requires(!std::same_as<Number, bool> && !std::same_as<Number, char>) JsonText& value(Number number) {
    return raw(std::to_string(number));
  }
  /// Nanoseconds as microseconds with three decimals: 1234567 is 1234.567. Negative ones are 0.
  JsonText& microseconds(std::int64_t nanoseconds);
  /// A key with its value.
  template <class Value>
  JsonText& field(std::string_view name, const Value& each) {
    return key(name).value(each);
  }
  /// A line end where the next value, key or bracket begins, for people.
  JsonText& line();

  /// What has been made.
  [[nodiscard]] const std::string& text() const { return text_; }
  /// What has been made, which is forgotten here; what follows goes on after it.
  [[nodiscard]] std::string take();
  /// Likewise, to a stream.
  void send(std::ostream& out);

 private:
  JsonText& raw(std::string_view text);
  void separate();

  std::string text_;
  bool is_after_value_ = false;  // a comma comes before what follows
  bool is_line_wanted_ = false;
};

}  // namespace tessera::record::detail
