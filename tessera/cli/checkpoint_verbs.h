// The verbs of `tessera checkpoint`: each is one file (checkpoint_ls.cpp, ...) with a function declared here and a line
// in the table of checkpoint.cpp.
#pragma once

#include <CLI/CLI.hpp>

#include <filesystem>
#include <functional>
#include <string>
#include <nlohmann/json.hpp>

#include "tessera/cli/report.h"
#include "tessera/train/checkpoint/checkpoint.h"

namespace tessera::cli {

// Each adds its options and returns what to run once they are read.
std::function<int()> declare_checkpoint_ls(CLI::App& options);
std::function<int()> declare_checkpoint_verify(CLI::App& options);
std::function<int()> declare_checkpoint_reshard(CLI::App& options);
std::function<int()> declare_checkpoint_diff(CLI::App& options);

/// Whether the path is a checkpoint itself, be it damaged: it has an index, or is called step-N and holds none.
bool is_checkpoint(const std::string& path);
/// The directory of checkpoints that is meant: the path itself, or `checkpoints` in it. IoError when there is none.
std::filesystem::path checkpoints_directory(const std::string& path);
/// Where the checkpoint lies that is meant: the path itself, or the newest of the directory that it is, or of the run.
/// That it is good is not said: an older one in its stead would be a wrong answer.
std::filesystem::path meant_checkpoint(const std::string& path);
/// The same, open; IoError says what is wrong with its index.
train::CheckpointInfo one_checkpoint(const std::string& path);
/// A text in which names from a file may stand, for one line of a terminal: nothing in it moves the cursor.
std::string shown(std::string text);
/// Bytes: "1.5 GiB" on a terminal, "1610612736" in a pipe.
std::string size_text(std::uint64_t nbytes, Style style);
/// The fields of a checkpoint by name.
nlohmann::ordered_json to_json(const train::CheckpointInfo& info);
/// "2026-11-16 10:30:00", UTC.
std::string time_text(std::int64_t seconds);

}  // namespace tessera::cli
