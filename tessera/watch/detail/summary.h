// The summary of a rank for ranks that do not see its record: the evidence of its own record, and of ranks that are
// gone or stopped according to its run directory. It is JSON (record/evidence_json.h), truncated to the last launches
// that fit.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "tessera/analysis/evidence.h"

namespace tessera::watch::detail {

/// Maximum size of a summary.
inline constexpr std::size_t kMaxSummaryBytes = std::size_t{256} << 10;

/// A rank that writes summaries.
struct Teller {
  int rank = 0;              ///< World rank.
  int world_size = 1;        ///< Size of the world.
  std::string record = {};   ///< Its record file; empty if none.
  std::string run_dir = {};  ///< Its run directory; empty if none.
};

/// Returns the current summary of this rank in at most `most` bytes, or at least its existence. `has_ended` states that
/// it is about to end without an error.
std::string summary_of(const Teller& teller, bool has_ended = false, std::size_t most = kMaxSummaryBytes);

/// Joins summaries by the rank that sent each. The statements of a rank about itself take precedence over those of
/// others. Summaries that are unreadable, too long or about unknown ranks are ignored and listed in Evidence::problems.
analysis::Evidence joined(int world_size, const std::map<int, std::string>& summaries);

}  // namespace tessera::watch::detail
