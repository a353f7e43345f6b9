#include "tessera/analysis/memory/detail/json_stream.h"

#include <string>
#include <nlohmann/json.hpp>

namespace tessera::analysis::detail {

// An object in a list starts a line: long files stay readable, and differences small.
void JsonStream::before_value(bool is_object) {
  if (levels_.empty()) return;
  JsonLevel& level = levels_.back();
  const bool is_key = level.is_dict && level.values % 2 == 0;
  const bool starts_line = is_object && !level.is_dict;
  if (level.values > 0) out_ << (level.is_dict && !is_key ? ": " : starts_line ? "," : ", ");
  if (starts_line) out_ << '\n';
  ++level.values;
}

void JsonStream::value(bool value) {
  before_value();
  out_ << (value ? "true" : "false");
}

void JsonStream::value(double value) {
  before_value();
  out_ << nlohmann::json(value).dump();
}

void JsonStream::value(std::string_view value) {
  before_value();
  out_ << nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void JsonStream::begin(char mark, bool is_dict) {
  before_value(is_dict);
  out_ << mark;
  levels_.push_back({is_dict, 0});
}

void JsonStream::end(char mark) {
  out_ << mark;
  levels_.pop_back();
}

}  // namespace tessera::analysis::detail
