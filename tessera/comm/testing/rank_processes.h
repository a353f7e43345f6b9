// Runs ranks as processes, for tests. The ranks are forked from a process that is not a rank and has no other thread,
// and meet in a directory.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tessera::comm {

/// How the process of a rank ended.
struct ProcessEnd {
  int exit_code = -1;  ///< -1 if a signal ended it
  int signal = 0;      ///< 0 if it exited
};

/// Runs `body(rank)` in an initialized process per rank. The process exits with code 1 if the body throws or an
/// expectation fails. 20 s after the first failure, the other ranks are killed. Returns how all processes ended.
std::vector<ProcessEnd> run_rank_processes(int ranks, const std::function<void(int)>& body);

}  // namespace tessera::comm
