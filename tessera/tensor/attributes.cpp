#include "tessera/tensor/attributes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tessera::tensor {

std::string to_string(const Scalar& scalar) {
  switch (scalar.kind()) {
    case Scalar::Kind::kBool: return scalar.as_bool() ? "true" : "false";
    case Scalar::Kind::kInteger: return std::to_string(scalar.as_int64());
    case Scalar::Kind::kFloating: return fmt::format("{}", scalar.as_double());
    case Scalar::Kind::kComplex: break;
  }
  return fmt::format("{}{:+}i", scalar.as_complex().real(), scalar.as_complex().imag());
}

namespace detail {

std::string attribute_text(bool value) { return value ? "true" : "false"; }
std::string attribute_text(std::int64_t value) { return std::to_string(value); }
std::string attribute_text(double value) { return fmt::format("{}", value); }
std::string attribute_text(const Scalar& value) { return to_string(value); }
std::string attribute_text(DType value) { return std::string(to_string(value)); }
std::string attribute_text(const Shape& value) { return to_string(value); }
std::string attribute_text(const IntList& value) {
  return fmt::format("[{}]", fmt::join(std::span<const std::int64_t>(value), ", "));
}
std::string attribute_text(const std::string& value) { return fmt::format("\"{}\"", value); }

std::string attribute_text(const layout::IndexMap& value) {
  std::string text = fmt::format("{}:{}", value.offset, value.block);
  for (const auto& level : value.levels) text += fmt::format("/{}*{}", level.count, level.stride);
  return text;
}
std::string attribute_text(const std::vector<layout::IndexMap>& value) {
  std::string text = "[";
  for (const auto& map : value) text += (text.size() > 1 ? ", " : "") + attribute_text(map);
  return text + "]";
}

void refuse_attributes(const std::string& text, const AttributesType& asked) {
  throw AttributesMismatch({__FILE__, __LINE__},
                           tessera::detail::concat("attributes (", text, ") cannot be read as (", asked.fields, ")"),
                           asked);
}

std::size_t attribute_hash(const layout::IndexMap& value) {
  std::size_t hash = mixed(static_cast<std::size_t>(value.offset), static_cast<std::uint64_t>(value.block));
  for (const layout::IndexMap::StrideLevel& level : value.levels) {
    hash = mixed(mixed(hash, static_cast<std::uint64_t>(level.count)), static_cast<std::uint64_t>(level.stride));
  }
  return hash;
}
std::size_t attribute_hash(const std::vector<layout::IndexMap>& value) {
  std::size_t hash = value.size();
  for (const layout::IndexMap& map : value) hash = mixed(hash, attribute_hash(map));
  return hash;
}

std::string fields_text(std::string_view names, std::span<const std::string> values) {
  std::string text;
  for (const std::string& value : values) {
    const std::size_t end = std::min(names.find(','), names.size());
    if (!text.empty()) text += ", ";
    text += names.substr(0, end);
    text += '=' + value;
    names.remove_prefix(end);
    names.remove_prefix(std::min(names.find_first_not_of(", \n"), names.size()));
  }
  return text;
}

}  // namespace detail
}  // namespace tessera::tensor
