// Access to the values of a JSON file whose errors name the file and the value. Values that are wrong throw IoError;
// values that are valid but unsupported throw NotSupported.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"

namespace tessera::train::detail {

/// Shortens a value of a file for a message: one line.
std::string shown(const nlohmann::json& value);

/// Reads the fields of one file. Refers to the path.
class JsonFields {
 public:
  using json = nlohmann::json;

  explicit JsonFields(const std::string& path) : path_(path) {}

  /// Throws IoError.
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    TESSERA_THROW(IoError, "'", path_, "': ", parts...);
  }
  /// Throws IoError unless `holds`. If formatting a value is costly and frequent, callers use refuse() after an if.
  template <class... Parts>
  void check(bool holds, const Parts&... parts) const {
    if (!holds) refuse(parts...);
  }
  /// Throws NotSupported unless `holds`.
  void supports(bool holds, std::string_view what, const json& value) const;
  /// Throws NotSupported if the object has a field that is not one of `names`.
  void knows(const json& object, std::string_view what, std::initializer_list<std::string_view> names) const;

  /// Returns a field; null if it is absent.
  static const json& get(const json& object, const char* name);
  /// Returns the field "type", or nothing if it is no text.
  static std::string type_of(const json& object);
  /// Returns true if a field is absent, null, false, "" or 0.
  static bool is_off(const json& value);
  /// Returns a field that must be true or false; `otherwise` if it is absent or null.
  [[nodiscard]] bool flag(const json& object, const char* name, bool otherwise) const;
  /// Returns a field that must be a text.
  [[nodiscard]] std::string text(const json& object, const char* name) const;
  /// Returns a field that must be a list.
  [[nodiscard]] const json& list(const json& object, const char* name) const;

  /// Returns the name of the file.
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  const std::string& path_;
};

}  // namespace tessera::train::detail
