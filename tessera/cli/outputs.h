// The check that a verb does not write over what it reads.
#pragma once

#include <string>
#include <vector>

namespace tessera::cli {

/// Throws InvalidArgument if the file `output` is one of the inputs, by its path or by its device and inode: through
/// symbolic links and hard links too. `option` names the output in the message: "tokenize: --output".
void check_output(const std::string& option, const std::string& output, const std::vector<std::string>& inputs);

/// Throws InvalidArgument if an input lies at or below `directory`, or `directory` at or below an input that is a
/// directory. Compares devices and inodes, so through symbolic links too. `directory` need not exist yet.
void check_directory(const std::string& option, const std::string& directory, const std::vector<std::string>& inputs);

/// Returns the files of a run directory that ranks, launcher and trainer wrote, those of checkpoints included.
std::vector<std::string> files_of_run(const std::string& directory);

}  // namespace tessera::cli
