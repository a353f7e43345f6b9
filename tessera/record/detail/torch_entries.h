// One pickle of PyTorch's flight recorder, version 2.x, turned into what is known of its rank.
//
// An entry is an operation; entries of one sequence number in one group were coalesced, and become one launch. PyTorch
// cannot tell a collective that waits in its stream from one that runs unless timing was on: the first of a group that
// has not ended is then taken to have begun.
#pragma once

#include <string>
#include <vector>

#include "tessera/record/detail/pickle_reader.h"
#include "tessera/record/evidence.h"

namespace tessera::record::detail {

/// Key of what we add to dumps and entries that we write, which PyTorch's readers do not look at.
inline constexpr const char* kOwnKey = "tessera";

/// The rank of a dump. IoError when it is none, or of another version; entries that make no sense are left out, counted
/// in `problems`. The work is bounded by `nbytes`, the size of the file: IoError if entries share values that take
/// more.
Rank read_torch_rank(const PickleValue& dump, std::uint64_t nbytes, int rank, const std::string& path,
                     std::vector<std::string>& problems);
/// Gives a group its ranks, if its dump did not, and this rank its place in it. False: the rank is not in it.
bool settle_group(Group& group, int rank, int world_size);

}  // namespace tessera::record::detail
