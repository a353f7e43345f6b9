// Runs ranks as processes, for tests: forked from a process that has no rank of its own and no other thread, they meet
// in a directory.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tessera::comm {

/// How the process of a rank ended.
struct ProcessEnd {
  int exit_code = -1;  ///< -1: a signal ended it
  int signal = 0;      ///< 0: it exited
};

/// Runs `body(rank)` in a process for each rank, which is initialised before that and exits 1 when the body throws or
/// an expectation failed in it. Once one has failed the others are given 20 s, then killed. Returns how all ended.
std::vector<ProcessEnd> run_rank_processes(int ranks, const std::function<void(int)>& body);

}  // namespace tessera::comm
