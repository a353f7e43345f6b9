// Values of options, checked against their row of the table. The TOML reader and set() use these functions, so that
// both reject the same values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/train/config.h"

namespace tessera::train::detail {

/// Returns the row of this name. Throws InvalidArgument, with the nearest name, if none exists.
const Option& find_option(std::string_view name);
/// Throws InvalidArgument if the number is outside the range of the option.
void check_range(const Option& option, double value, std::string_view text);
/// Throws InvalidArgument if the option has choices and the text is not one of them.
void check_choice(const Option& option, const std::string& value);
/// Throws InvalidArgument if the value in the configuration does not fit its row.
void check_value(const Option& option, const Config& config);
/// Returns "integer", "number", "true or false", "text" or "list of texts".
std::string kind_text(const Option& option);
/// Returns the shortest text that is read back as the same number.
std::string number_text(double value);

/// Replaces invalid UTF-8, for JSON and TOML: file names may contain any bytes.
std::string as_utf8(const std::string& text);

/// Returns the defaults that the values of this configuration are compared with: sizes of a resolved model are those of
/// its preset, and mesh.dp, whose default depends on the world, is that of the configuration.
Config defaults_for(const Config& config);

/// Returns the location of the value in the configuration, for reading.
Option::Place place_of(const Option& option, const Config& config);

}  // namespace tessera::train::detail
