// Explains a failed run from the evidence of its ranks. Pure: equal evidence yields the same text.
//
//   align    the collectives of each group by their collective number, over ranks
//   compare  the operations under one number: ranks that differ from the majority are to blame, including rank 0
//   wait     which rank waits for which, over all groups: wait cycles, and the ranks that all others wait for
//   blame    the finding that explains the others: a dead rank explains those that wait for it
//
// A rank is blamed only for faults that the evidence shows. If the evidence is insufficient, the verdict is "not
// known", with the missing evidence.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/analysis/evidence.h"
#include "tessera/base/export.h"

namespace tessera::analysis {

/// Kind of a fault.
enum class Fault : std::uint8_t {
  kNone,         ///< No fault: all ranks ended well, or all make progress.
  kMismatch,     ///< Ranks called different operations under one collective number.
  kAbsent,       ///< A rank did not reach an operation: it is elsewhere, or its host code is stuck.
  kDied,         ///< The process of a rank is gone and recorded no end.
  kFailed,       ///< A rank ended with an error that it caused itself.
  kOutOfMemory,  ///< A rank ran out of memory.
  kStopped,      ///< The process of a rank is stopped.
  kCycle,        ///< Deadlock: ranks wait for each other in a cycle.
  kStream,       ///< An operation waits for earlier work on the stream of its own rank.
  kSlow,         ///< An operation or a rank makes progress, but late.
  kUnknown,      ///< An operation hangs, and the evidence does not show the cause.
};
/// Returns "mismatch", "absent", ...
TESSERA_API std::string to_string(Fault fault);

/// Confidence in a verdict.
enum class Confidence : std::uint8_t {
  kLow,     ///< Other causes are equally plausible.
  kMedium,  ///< Parts of the evidence are missing.
  kHigh,    ///< The evidence shows the fault directly.
};
/// Returns "low", "medium" or "high".
TESSERA_API std::string to_string(Confidence confidence);

/// A fault and the ranks to blame.
struct Verdict {
  Fault fault = Fault::kNone;                ///< Kind of the fault.
  std::vector<int> culprits = {};            ///< World ranks to blame; may be empty.
  std::string group = {};                    ///< Group of the fault; empty if it is not in a group.
  std::uint64_t collective_number = 0;       ///< Collective number; 0 if the fault is not in a collective.
  std::string sentence = {};                 ///< One sentence that names the culprit and its action.
  std::string advice = {};                   ///< Next action, as one sentence.
  Confidence confidence = Confidence::kLow;  ///< Confidence in this verdict.
};

/// Ranks that called the same operation.
struct Side {
  std::vector<int> ranks = {};  ///< World ranks.
  std::string what = {};        ///< "all_reduce(f32[1024], sum)"
};
/// A collective in which ranks differ.
struct Difference {
  std::string group = {};               ///< Name of the group.
  std::uint64_t collective_number = 0;  ///< Collective number.
  std::vector<Side> sides = {};         ///< Sides, the largest first.
};

/// A rank that waits for another rank.
struct Wait {
  int rank = 0;               ///< World rank that waits.
  int peer = 0;               ///< World rank that it waits for.
  std::string group = {};     ///< Name of the group.
  std::string what = {};      ///< "collective 17, all_reduce(f32[1024], sum)"
  std::int64_t since_ns = 0;  ///< Start of the wait, in nanoseconds since 1970; 0 if unknown.
};

/// A rank that arrives later than the others.
struct Straggler {
  int rank = 0;                    ///< World rank.
  std::string group = {};          ///< Name of the group.
  std::uint64_t collectives = 0;   ///< Collectives examined.
  std::uint64_t last_to_come = 0;  ///< Collectives in which it arrived last.
  double late_ms = 0;              ///< Median delay after the median rank, in milliseconds.
};

/// Result of explain().
struct Explanation {
  Verdict verdict = {};                        ///< Verdict that explains the other findings.
  std::vector<Verdict> others = {};            ///< Further verdicts that it does not explain.
  std::vector<Difference> differences = {};    ///< By group and collective number; the first of a group counts.
  std::vector<Wait> waits = {};                ///< Current waits.
  std::vector<std::vector<Wait>> cycles = {};  ///< Deadlock cycles.
  std::vector<Straggler> stragglers = {};      ///< Stragglers, the latest first.
};

/// Explains the evidence.
TESSERA_API Explanation explain(const Evidence& evidence);

/// Selection of the output.
struct ShowOptions {
  std::vector<int> ranks = {};  ///< Ranks to show; empty: all.
  std::string group = {};       ///< Group to show; empty: all.
  std::size_t last = 5;         ///< Launches per group and rank.
  bool has_colors = false;      ///< Colors, for a terminal.
};
/// Returns human-readable text: ranks, groups, differences, waits, stragglers, then the verdict with its confidence and
/// the next action.
TESSERA_API std::string to_text(const Evidence& evidence, const Explanation& found, const ShowOptions& options = {});
/// Returns JSON, for programs.
TESSERA_API std::string to_json(const Evidence& evidence, const Explanation& found, const ShowOptions& options = {});

}  // namespace tessera::analysis
