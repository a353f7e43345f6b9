// The options in the config.toml that a trainer writes to its run directory: one line per option, which is preceded by
// its help and followed by its default if the value differs from it.
//
//   [train]
//   # Number of steps (integer, 1 or more)
//   steps = 40  # default: 1000
//
// Values are shown as they are written, so reading them needs no TOML library. The file is not trusted: other lines are
// skipped, and long texts are truncated.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/analysis/report/detail/run_tables.h"

namespace tessera::analysis::detail {

/// One option of a run.
struct ConfiguredOption {
  std::string name = {};        ///< "train.steps"
  std::string value = {};       ///< TOML text: "40", "\"bf16\""
  std::string by_default = {};  ///< TOML text; empty if the value is the default.
  std::string help = {};        ///< "Number of steps (integer, 1 or more)"
};

/// Parses the text of a config.toml. Returns at most 1000 options.
std::vector<ConfiguredOption> options_of_toml(std::string_view text);
/// Reads DIRECTORY/config.toml; empty if it does not exist.
std::vector<ConfiguredOption> configured_options(const std::string& directory);
/// Returns name, value, default (null if the value is the default) and help of each option.
PageJson configuration_json(const std::vector<ConfiguredOption>& options);

}  // namespace tessera::analysis::detail
