// Lists and reads text files. Text is anything without NUL bytes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"

namespace tessera::train {

/// Returns the path itself or, for a directory, all regular files below it, sorted by path as bytes. Skips names that
/// begin with a dot, and does not follow links to directories. Throws IoError if the path does not exist or the
/// directory has no files.
TESSERA_API std::vector<std::filesystem::path> files_under(const std::filesystem::path& path);

/// Returns the text of a file, or nothing if it holds NUL bytes. Throws IoError if it cannot be read.
TESSERA_API std::optional<std::string> read_text(const std::filesystem::path& path);

/// Returns true if `bytes` is text.
TESSERA_API bool is_text(std::string_view bytes);

}  // namespace tessera::train
