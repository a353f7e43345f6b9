// Writes JSON to a stream with the interface of PickleWriter, so that one function writes both. Tuples become lists;
// invalid UTF-8 in strings becomes U+FFFD.
#pragma once

#include <concepts>
#include <cstdint>
#include <ostream>
#include <string_view>
#include <vector>

namespace tessera::analysis::detail {

/// Not thread-safe. The caller ends each list and object that it begins.
class JsonStream {
 public:
  explicit JsonStream(std::ostream& out) : out_(out) {}

  void value(bool value);
  template <std::integral T>
  void value(T value) {
    before_value();
    out_ << +value;
  }
  void value(double value);
  void value(std::string_view value);
  void value(const char* value) { this->value(std::string_view(value)); }
  void begin_list() { begin('[', false); }
  void end_list() { end(']'); }
  void begin_tuple() { begin('[', false); }
  void end_tuple() { end(']'); }
  void begin_dict() { begin('{', true); }
  void end_dict() { end('}'); }
  template <class T>
  void entry(std::string_view key, const T& item) {
    value(key);
    value(item);
  }

 private:
  struct JsonLevel {
    bool is_dict = false;
    std::uint64_t values = 0;
  };

  void before_value(bool is_object = false);
  void begin(char mark, bool is_dict);
  void end(char mark);

  std::ostream& out_;
  std::vector<JsonLevel> levels_;
};

}  // namespace tessera::analysis::detail
