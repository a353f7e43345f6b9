// Says what went wrong in a run, from what its ranks left behind. Pure: the same evidence gives the same words.
//
//   align    the collectives of each group by their ordinal, over ranks
//   compare  what ranks did under one ordinal: those that differ from most of them are to blame, rank 0 like any other
//   wait     who waits for whom, over all groups and messages: circles, and the ranks that all others wait for
//   blame    of all that was found the one that explains the rest: a rank that died explains those that wait for it
//
// A rank is blamed only for what the evidence shows. Where it does not say enough the verdict is "not known", with
// what is missing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/record/evidence.h"

namespace tessera::record {

/// What went wrong.
enum class Fault : std::uint8_t {
  kNone,         ///< nothing: all ended well, or all go on
  kMismatch,     ///< ranks did different things where they must do the same
  kAbsent,       ///< a rank did not come to an operation: it is elsewhere, or its host code is stuck
  kDied,         ///< a rank's process is gone without a word
  kFailed,       ///< a rank ended with an error of its own
  kOutOfMemory,  ///< a rank's memory ran out
  kStopped,      ///< a rank's process was stopped
  kCircle,       ///< ranks wait for each other in a circle
  kStream,       ///< an operation waits behind other work of its own rank's stream
  kSlow,         ///< an operation moves, or a rank comes, late and not never
  kUnknown,      ///< something hangs, and the evidence does not say why
};
/// "mismatch", "absent", ...
TESSERA_API std::string to_string(Fault fault);

/// How sure.
enum class Confidence : std::uint8_t {
  kLow,     ///< other readings are as good
  kMedium,  ///< parts of the evidence are missing
  kHigh,    ///< it was seen
};
/// "low", "medium", "high".
TESSERA_API std::string to_string(Confidence confidence);

/// One thing that went wrong, and who is to blame.
struct Verdict {
  Fault fault = Fault::kNone;                ///< what
  std::vector<int> culprits = {};            ///< ranks in the world; empty: nobody
  std::string group = {};                    ///< where; empty: not in a group
  std::uint64_t ordinal = 0;                 ///< of the collective; 0: none
  std::string sentence = {};                 ///< one, that names the culprit and what it did
  std::string advice = {};                   ///< what to do next, in a sentence
  Confidence confidence = Confidence::kLow;  ///< how sure
};

/// Ranks that did something together.
struct Side {
  std::vector<int> ranks = {};  ///< in the world
  std::string what = {};        ///< "all_reduce(f32[1024], sum)"
};
/// A collective in which ranks differed.
struct Difference {
  std::string group = {};        ///< in which group
  std::uint64_t ordinal = 0;     ///< of the collective
  std::vector<Side> sides = {};  ///< the largest first
};

/// A rank that waits for another.
struct Wait {
  int rank = 0;               ///< in the world
  int peer = 0;               ///< in the world
  std::string group = {};     ///< where
  std::string what = {};      ///< "collective 17, all_reduce(f32[1024], sum)"
  std::int64_t since_ns = 0;  ///< in nanoseconds since 1970; 0: not known
};

/// A rank that came later than the others.
struct Straggler {
  int rank = 0;                    ///< in the world
  std::string group = {};          ///< where
  std::uint64_t collectives = 0;   ///< that were looked at
  std::uint64_t last_to_come = 0;  ///< in which it was the last
  double late_ms = 0;              ///< median of how much later than the median rank
};

/// All that was found.
struct Explanation {
  Verdict verdict = {};                         ///< the one that explains the rest
  std::vector<Verdict> others = {};             ///< found beside it, and not explained by it
  std::vector<Difference> differences = {};     ///< by group and ordinal; the first of a group counts
  std::vector<Wait> waits = {};                 ///< who waits for whom now
  std::vector<std::vector<Wait>> circles = {};  ///< of waits
  std::vector<Straggler> stragglers = {};       ///< the latest first
};

/// Finds out.
TESSERA_API Explanation explain(const Evidence& evidence);

/// What to show of it.
struct ShowOptions {
  std::vector<int> ranks = {};  ///< only these; empty: all
  std::string group = {};       ///< only this; empty: all
  std::size_t last = 5;         ///< launches of each group and rank
  bool has_colors = false;      ///< for a terminal
};
/// For people: ranks, groups, differences, waits, stragglers; then the verdict, how sure it is and what to do next.
TESSERA_API std::string to_text(const Evidence& evidence, const Explanation& found, const ShowOptions& options = {});
/// For programs.
TESSERA_API std::string to_json(const Evidence& evidence, const Explanation& found, const ShowOptions& options = {});

}  // namespace tessera::record
