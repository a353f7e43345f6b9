// Files of text: which there are under a path, and what is in them. Text is anything without NUL bytes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"

namespace tessera::train {

/// The path itself, or of a directory every regular file in it and below, sorted by path as bytes. Names that begin
/// with a dot are left out, and links to directories are not followed. IoError: there is no such path, or nothing in
/// the directory.
TESSERA_API std::vector<std::filesystem::path> files_under(const std::filesystem::path& path);

/// The text of a file; nothing if it holds NUL bytes. IoError: it cannot be read.
TESSERA_API std::optional<std::string> read_text(const std::filesystem::path& path);

/// Whether this is text.
TESSERA_API bool is_text(std::string_view bytes);

}  // namespace tessera::train
