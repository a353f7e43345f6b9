#include "tessera/analysis/detail/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <nlohmann/json.hpp>

namespace tessera::analysis::detail {

void JsonText::separate() {
  if (is_after_value_) text_ += ',';
  if (is_line_wanted_) text_ += '\n';
  is_after_value_ = false;
  is_line_wanted_ = false;
}

JsonText& JsonText::raw(std::string_view text) {
  separate();
  text_ += text;
  is_after_value_ = true;
  return *this;
}

JsonText& JsonText::open(char bracket) {
  separate();
  text_ += bracket;
  return *this;
}

JsonText& JsonText::close(char bracket) {
  is_after_value_ = false;
  separate();
  text_ += bracket;
  is_after_value_ = true;
  return *this;
}

JsonText& JsonText::key(std::string_view name) {
  value(name);
  text_ += ": ";  // HTA searches for the text "rank": with a space
  is_after_value_ = false;
  return *this;
}

JsonText& JsonText::value(std::string_view text) {
  const bool is_plain = std::all_of(text.begin(), text.end(), [](char letter) {
    return letter >= 0x20 && letter < 0x7f && letter != '"' && letter != '\\';
  });
  if (is_plain) {
    separate();
    text_.append("\"").append(text).append("\"");
    is_after_value_ = true;
    return *this;
  }
  return raw(nlohmann::json(std::string(text)).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
}

JsonText& JsonText::microseconds(std::int64_t nanoseconds) {
  const std::int64_t shown = std::max<std::int64_t>(nanoseconds, 0);
  return raw(fmt::format("{}.{:03}", shown / 1000, shown % 1000));
}

JsonText& JsonText::line() {
  is_line_wanted_ = true;
  return *this;
}

std::string JsonText::take() { return std::exchange(text_, {}); }

void JsonText::send(std::ostream& out) {
  out.write(text_.data(), static_cast<std::streamsize>(text_.size()));
  text_.clear();
}

}  // namespace tessera::analysis::detail
