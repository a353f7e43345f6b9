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

/// The directory of checkpoints that is meant: the path itself, or `checkpoints` in it. IoError when there is none.
std::filesystem::path checkpoints_directory(const std::string& path);
/// The checkpoint that is meant: the path itself, or the newest with an index of the directory that it is, or of the
/// run.
train::CheckpointInfo one_checkpoint(const std::string& path);
/// Bytes: "1.5 GiB" on a terminal, "1610612736" in a pipe.
std::string size_text(std::uint64_t nbytes, Style style);
/// The fields of a checkpoint by name.
nlohmann::ordered_json to_json(const train::CheckpointInfo& info);
/// "2026-11-16 10:30:00", UTC.
std::string time_text(std::int64_t seconds);

}  // namespace tessera::cli
