// Values of records and rows by the name of their field, whatever type the writer's version stored them as. A field
// that a file does not have reads as a fallback, so that files of other versions can be read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/base/probe/reader.h"

namespace tessera::record::detail {

/// The number that a field holds; nothing: it holds none.
inline std::optional<std::uint64_t> number_of(const probe::Field& field) {
  if (const auto* number = std::get_if<std::uint64_t>(&field.value)) return *number;
  if (const auto* number = std::get_if<std::int64_t>(&field.value)) return static_cast<std::uint64_t>(*number);
  if (const auto* flag = std::get_if<bool>(&field.value)) return *flag ? 1 : 0;
  return std::nullopt;
}

/// The number in a field of a record or row; nothing: there is no such field.
template <class Holder>
std::optional<std::uint64_t> find_number(const Holder& holder, std::string_view name) {
  const probe::Field* field = holder.find(name);
  return field != nullptr ? number_of(*field) : std::nullopt;
}
/// The number in a field; 0 where there is none.
template <class Holder>
std::uint64_t number_in(const Holder& holder, std::string_view name) {
  return find_number(holder, name).value_or(0);
}
/// Likewise of one that may be below zero, or of a moment: nanoseconds since 1970.
template <class Holder>
std::int64_t integer_in(const Holder& holder, std::string_view name) {
  return static_cast<std::int64_t>(number_in(holder, name));
}
/// Likewise of 32 bits.
template <class Holder>
std::uint32_t word_in(const Holder& holder, std::string_view name) {
  return static_cast<std::uint32_t>(number_in(holder, name));
}
/// The text in a field; empty where there is none, or where the file could not keep it.
template <class Holder>
std::string text_in(const Holder& holder, std::string_view name) {
  const probe::Field* field = holder.find(name);
  if (field == nullptr) return {};
  std::string text = probe::to_string(field->value);
  const bool is_lost = field->type == probe::FieldType::kString && (text == "(table full)" || text == "(bad string)");
  return is_lost ? std::string() : text;
}

}  // namespace tessera::record::detail
