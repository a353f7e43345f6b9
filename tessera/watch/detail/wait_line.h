// The line that reports a collective that waits for a peer, while nothing has failed yet:
//
//   waiting 10 s for rank 2 in collective 17 of group world (all_reduce(f32[8], sum))
//
// The records of the ranks show the missing ranks. The first waiting rank prints the line.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "tessera/analysis/evidence.h"

namespace tessera::watch::detail {

/// A group of this process whose operation waits for a peer.
struct LongWait {
  int rank = 0;                    ///< World rank of this process.
  std::string group = {};          ///< Name of the group.
  std::vector<int> ranks = {};     ///< World ranks of the group.
  std::string operation = {};      ///< "all_reduce(f32[8], sum)"
  std::chrono::seconds waited{0};  ///< Time waited so far.
  std::string run_dir = {};        ///< Directory with the records of the ranks; empty if none.
};

/// Returns the line that this rank prints; empty if another rank prints it. If the evidence lacks ranks, or does not
/// show the missing ones, the first two ranks of the group print a line without a name, because one of them can be
/// missing.
std::string wait_line(const LongWait& wait, const analysis::Evidence& evidence);

}  // namespace tessera::watch::detail
