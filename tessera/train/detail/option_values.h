// Values of options: checked against the row of the table before they are put in their place. The reader of TOML and
// set() both go through here, so that both refuse the same.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/train/config.h"

namespace tessera::train::detail {

/// The row of this name; InvalidArgument with the nearest name where there is none.
const Option& find_option(std::string_view name);
/// InvalidArgument unless the number is one of the option's range.
void check_range(const Option& option, double value, std::string_view text);
/// InvalidArgument unless the text is one of the option's choices, if it has any.
void check_choice(const Option& option, const std::string& value);
/// InvalidArgument unless what the configuration holds there fits its row.
void check_value(const Option& option, const Config& config);
/// "integer", "number", "true or false", "text", "list of texts".
std::string kind_text(const Option& option);
/// The shortest text that is read back as the same number.
std::string number_text(double value);

/// The text with bytes that are no UTF-8 replaced, as JSON and TOML can hold it: names of files may be any bytes.
std::string as_utf8(const std::string& text);

/// What the configuration holds there, to be read.
Option::Place place_of(const Option& option, const Config& config);

}  // namespace tessera::train::detail
