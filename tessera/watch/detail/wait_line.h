// The line that reports a collective which waits for a peer, while nothing has failed yet:
//
//   waiting 10 s for rank 2 in collective 17 of group world (all_reduce(f32[8], sum))
//
// The records of the ranks show who is missing. Of the ranks that wait, the first one prints the line.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "tessera/record/evidence.h"

namespace tessera::watch::detail {

/// A group of this process whose operation waits for a peer.
struct LongWait {
  int rank = 0;                    ///< this one, in the world
  std::string group = {};          ///< name
  std::vector<int> ranks = {};     ///< of the group, in the world
  std::string operation = {};      ///< "all_reduce(f32[8], sum)"
  std::chrono::seconds waited{0};  ///< so far
  std::string run_dir = {};        ///< with the records of the ranks; empty: none
};

/// Returns the line that this rank prints; empty: another rank prints it. If the evidence lacks ranks, or does not show
/// who is missing, the first two ranks of the group print a line without a name, since one of them can be missing.
std::string wait_line(const LongWait& wait, const record::Evidence& evidence);

}  // namespace tessera::watch::detail
