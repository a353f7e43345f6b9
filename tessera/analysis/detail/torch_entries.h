// Converts one pickle of the PyTorch flight recorder, version 2.x, to the evidence of its rank.
//
// An entry is an operation. Entries of one sequence number in one group were coalesced, and become one launch. Unless
// timing was on, PyTorch does not distinguish a collective that waits in its stream from a running one: the first
// unfinished one of a group then counts as started.
#pragma once

#include <string>
#include <vector>

#include "tessera/analysis/detail/pickle_reader.h"
#include "tessera/analysis/evidence.h"

namespace tessera::analysis::detail {

/// Key of Tessera data in written dumps and entries, which readers of PyTorch ignore.
inline constexpr const char* kOwnKey = "tessera";

/// Returns the rank of a dump. Throws IoError if it is invalid or of another version. Invalid entries are ignored and
/// counted in `problems`. The work is bounded by `nbytes`, the size of the file: throws IoError if entries share values
/// that need more.
Rank read_torch_rank(const PickleValue& dump, std::uint64_t nbytes, int rank, const std::string& path,
                     std::vector<std::string>& problems);
/// Sets the ranks of a group, if its dump did not, and the group rank of this rank. Returns false if it is no member.
bool settle_group(Group& group, int rank, int world_size);

}  // namespace tessera::analysis::detail
