// Values of records and rows by field name, for any stored type. A missing field yields a fallback, so that files of
// other versions are readable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/base/probe/reader.h"

namespace tessera::analysis::detail {

/// Returns the number in a field; nothing if it holds none.
inline std::optional<std::uint64_t> number_of(const probe::Field& field) {
  if (const auto* number = std::get_if<std::uint64_t>(&field.value)) return *number;
  if (const auto* number = std::get_if<std::int64_t>(&field.value)) return static_cast<std::uint64_t>(*number);
  if (const auto* flag = std::get_if<bool>(&field.value)) return *flag ? 1 : 0;
  return std::nullopt;
}

/// Returns the number in a field of a record or row; nothing if no such field exists.
template <class Holder>
std::optional<std::uint64_t> find_number(const Holder& holder, std::string_view name) {
  const probe::Field* field = holder.find(name);
  return field != nullptr ? number_of(*field) : std::nullopt;
}
/// Returns the number in a field; 0 if no such field exists.
template <class Holder>
std::uint64_t number_in(const Holder& holder, std::string_view name) {
  return find_number(holder, name).value_or(0);
}
/// Returns a signed number, or a time in nanoseconds since 1970; 0 if no such field exists.
template <class Holder>
std::int64_t integer_in(const Holder& holder, std::string_view name) {
  return static_cast<std::int64_t>(number_in(holder, name));
}
/// Returns a number of 32 bits; 0 if no such field exists.
template <class Holder>
std::uint32_t word_in(const Holder& holder, std::string_view name) {
  return static_cast<std::uint32_t>(number_in(holder, name));
}
/// Returns the text in a field; empty if no such field exists or the text is not in the file.
template <class Holder>
std::string text_in(const Holder& holder, std::string_view name) {
  const probe::Field* field = holder.find(name);
  if (field == nullptr) return {};
  std::string text = probe::to_string(field->value);
  const bool is_lost = field->type == probe::FieldType::kString && (text == "(table full)" || text == "(bad string)");
  return is_lost ? std::string() : text;
}

}  // namespace tessera::analysis::detail
