// The subcommands of `tessera checkpoint`. Each has one file (checkpoint_ls.cpp, ...), a function declared here and a
// line in declare() of checkpoint.cpp.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <nlohmann/json.hpp>

#include "tessera/cli/command.h"
#include "tessera/cli/table.h"
#include "tessera/train/checkpoint/checkpoint.h"

namespace tessera::cli {

// Each function adds its options and returns the function to run after they are parsed.
Body declare_checkpoint_ls(Command& command);
Body declare_checkpoint_verify(Command& command);
Body declare_checkpoint_reshard(Command& command);
Body declare_checkpoint_diff(Command& command);
Body declare_checkpoint_import(Command& command);
Body declare_checkpoint_export(Command& command);
Body declare_checkpoint_merge(Command& command);

/// Returns true if the path is a checkpoint, even a corrupt one: it has an index, or its name is step-N and it contains
/// none.
bool is_checkpoint(const std::string& path);
/// Returns the directory of checkpoints: the path itself, or `checkpoints` in it. Throws IoError if neither exists.
std::filesystem::path checkpoints_directory(const std::string& path);
/// Returns the path of the selected checkpoint: the path itself, or the newest checkpoint of the directory or run. Does
/// not check that it is valid, because selecting an older one silently would be a wrong answer.
std::filesystem::path meant_checkpoint(const std::string& path);
/// Opens the checkpoint that meant_checkpoint() returns. Throws IoError with the fault of its index.
train::CheckpointInfo one_checkpoint(const std::string& path);
/// Returns the dtype of an option --dtype; nothing for "keep".
std::optional<DType> chosen_dtype(const std::string& text);
/// Returns the text in one printable line, so that names from a file cannot move the cursor.
std::string shown(std::string text);
/// Returns a size in bytes: "1.5 GiB" on a terminal, "1610612736" in a pipe.
std::string size_text(std::uint64_t nbytes, Style style);
/// Returns the fields of a checkpoint by name.
nlohmann::ordered_json to_json(const train::CheckpointInfo& info);
/// Returns a time in UTC: "2026-11-16 10:30:00".
std::string time_text(std::int64_t seconds);

}  // namespace tessera::cli
