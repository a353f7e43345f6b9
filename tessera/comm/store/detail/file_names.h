// Keys as names of files. Short keys are readable and can be read back; a long one keeps its beginning and ends in a
// hash of the whole, and its file says which key it is.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera::comm::detail {

/// The name of the file of a key: at most 240 bytes, without a stroke, beginning with 'k' (readable) or 'h' (hashed).
std::string file_name_of(std::string_view key);
/// The key of a readable name; none: it is no such name.
std::optional<std::string> key_of(std::string_view name);

}  // namespace tessera::comm::detail
