// What a rank can tell the others of itself where they do not see its record: the evidence of its own record, and of
// those ranks that its run directory shows as gone or stopped, who cannot tell. As JSON (record/evidence_json.h), cut
// to the last launches until it fits.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "tessera/record/evidence.h"

namespace tessera::watch::detail {

/// The longest summary.
inline constexpr std::size_t kMostSummaryBytes = std::size_t{256} << 10;

/// Who tells.
struct Teller {
  int rank = 0;              ///< in the world
  int world_size = 1;        ///< ranks in all
  std::string record = {};   ///< its record file; empty: there is none
  std::string run_dir = {};  ///< empty: it has none
};

/// What this rank can tell now, in at most so many bytes, or that it is there; `has_ended`: it is about to end in
/// order.
std::string summary_of(const Teller& teller, bool has_ended = false, std::size_t most = kMostSummaryBytes);

/// Puts summaries together, by the rank that sent each. What a rank says of itself counts before what others say of it.
/// A summary that cannot be read, is too long or speaks of ranks that are not there is left out, and told in
/// Evidence::problems.
record::Evidence joined(int world_size, const std::map<int, std::string>& summaries);

}  // namespace tessera::watch::detail
