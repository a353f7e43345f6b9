// Runs programs under mpirun, for tests and benches.
#pragma once

#include <string>
#include <vector>

namespace tessera::comm {

/// Where mpirun is; empty: not on PATH.
std::string find_mpirun();
/// mpirun's own words for `ranks` ranks of this machine, before the program: more of them than cores are allowed, none
/// is bound to a core (streams have threads), and all end after `seconds`.
std::vector<std::string> mpirun_command(int ranks, int seconds);

/// How a command ended.
struct CommandEnd {
  int exit_code = -1;       ///< -1: a signal ended it
  std::string output = {};  ///< stdout and stderr together
};
/// Runs a command to its end, with these settings ("NAME=value") added to the environment.
CommandEnd run_command(const std::vector<std::string>& command, const std::vector<std::string>& environment = {});

}  // namespace tessera::comm
