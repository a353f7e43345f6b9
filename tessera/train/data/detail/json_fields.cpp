#include "tessera/train/data/detail/json_fields.h"

namespace tessera::train::detail {

using nlohmann::json;

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > 80) text = text.substr(0, 80) + "...";
  return text;
}

void JsonFields::supports(bool holds, std::string_view what, const json& value) const {
  TESSERA_CHECK_AS(NotSupported, holds, "'", path_, "': ", what, " ", shown(value),
                   " is not supported; docs/data.md lists what Tessera reads");
}

void JsonFields::knows(const json& object, std::string_view what, std::initializer_list<std::string_view> names) const {
  for (const auto& [name, value] : object.items()) {
    if (std::ranges::count(names, name) == 0) {
      supports(false, std::string(what) + " field '" + shown(name) + "' =", value);
    }
  }
}

const json& JsonFields::get(const json& object, const char* name) {
  static const json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

std::string JsonFields::type_of(const json& object) {
  const json& type = get(object, "type");
  return type.is_string() ? type.get<std::string>() : "";
}

bool JsonFields::is_off(const json& value) {
  return value.is_null() || value == json(false) || value == json("") || (value.is_number() && value == json(0));
}

bool JsonFields::flag(const json& object, const char* name, bool otherwise) const {
  const json& value = get(object, name);
  if (value.is_null()) return otherwise;
  check(value.is_boolean(), name, " must be true or false, got ", shown(value));
  return value.get<bool>();
}

std::string JsonFields::text(const json& object, const char* name) const {
  const json& value = get(object, name);
  check(value.is_string(), name, " must be a text, got ", shown(value), " in ", shown(object));
  return value.get<std::string>();
}

const json& JsonFields::list(const json& object, const char* name) const {
  const json& value = get(object, name);
  check(value.is_array(), name, " must be a list, got ", shown(value), " in ", shown(object));
  return value;
}

}  // namespace tessera::train::detail
