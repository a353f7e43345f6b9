// File names of keys. The name of a short key is readable and can be decoded. The name of a long key has a prefix of
// the key and ends in a hash; its file contains the key.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera::comm::detail {

/// Returns the file name of a key: at most 240 bytes, without a slash, starting with 'k' (readable) or 'h' (hashed).
std::string file_name_of(std::string_view key);
/// Returns the key of a readable name; nullopt for other names.
std::optional<std::string> key_of(std::string_view name);

}  // namespace tessera::comm::detail
