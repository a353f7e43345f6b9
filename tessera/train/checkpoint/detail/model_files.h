// The files beside the weights of a model that `transformers` reads: its configuration and its tokenizer. An imported
// checkpoint keeps them, and an export returns them.
#pragma once

#include <filesystem>
#include <string>

namespace tessera::train::detail {

/// File name of the configuration.
inline constexpr const char* kConfigName = "config.json";

/// Copies all model files in `from` to the directory `to`. Follows symbolic links. Throws IoError if one is not a
/// regular file or exceeds 1 GiB.
void copy_model_files(const std::filesystem::path& from, const std::filesystem::path& to);
/// Returns the text of config.json in a directory; empty if the file is missing. Throws IoError if it is not a regular
/// file or exceeds 16 MiB.
std::string model_config_text(const std::filesystem::path& directory);

}  // namespace tessera::train::detail
