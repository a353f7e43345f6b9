// Completion scripts for shells, written from the options of all commands (command.h). They complete commands, options,
// values of options with a fixed set, and paths.
//
//   std::fputs(completion_script(root, "bash").c_str(), stdout);
#pragma once

#include <string>

#include "tessera/cli/command.h"

namespace tessera::cli {

/// Returns the completion script for "bash", "zsh" or "fish". Throws InvalidArgument for another shell.
std::string completion_script(const Command& root, const std::string& shell);

}  // namespace tessera::cli
