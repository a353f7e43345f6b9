// Runs programs under mpirun, for tests and benches.
#pragma once

#include <string>
#include <vector>

namespace tessera::comm {

/// Returns the path of mpirun; empty if it is not on PATH.
std::string find_mpirun();
/// Returns the mpirun command line, without the program, for `ranks` ranks on this machine. Allows more ranks than
/// cores, does not bind ranks to cores (streams have threads), and ends all ranks after `seconds`.
std::vector<std::string> mpirun_command(int ranks, int seconds);

/// The result of a command.
struct CommandEnd {
  int exit_code = -1;       ///< -1 if a signal ended it
  std::string output = {};  ///< stdout and stderr
};
/// Runs a command to its end, with these variables ("NAME=value") added to the environment.
CommandEnd run_command(const std::vector<std::string>& command, const std::vector<std::string>& environment = {});

}  // namespace tessera::comm
