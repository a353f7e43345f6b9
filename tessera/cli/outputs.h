// Checks that a command does not overwrite its inputs.
#pragma once

#include <string>
#include <vector>

namespace tessera::cli {

/// Throws InvalidArgument if the file `output` is one of the inputs, by path or by device and inode, also through
/// symbolic links and hard links. `option` names the output in the message: "tokenize: --output".
void check_output(const std::string& option, const std::string& output, const std::vector<std::string>& inputs);

/// Throws InvalidArgument if an input is at or below `directory`, or if `directory` is at or below an input that is a
/// directory. Compares devices and inodes, also through symbolic links. `directory` need not exist yet.
void check_directory(const std::string& option, const std::string& directory, const std::vector<std::string>& inputs);

/// Returns the files of a run directory that ranks, launcher and trainer wrote, including those of checkpoints.
std::vector<std::string> files_of_run(const std::string& directory);

}  // namespace tessera::cli
