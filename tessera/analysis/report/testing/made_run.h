// A generated run directory for tests and benches of the page: the tables of a trainer and record files with chosen
// times, so that a million events need no real time.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::analysis::testing {

/// Properties of a generated run.
struct MadeRun {
  int ranks = 4;  ///< Ranks over dp x fsdp x tp, each with a record.
  int steps = 40;
  int collectives = 6;                ///< Collectives per step and rank.
  int kernels = 0;                    ///< Kernels per step and rank; 0: none is recorded.
  bool has_tables = true;             ///< Writes loss.csv and metrics.jsonl.
  bool has_summary = true;            ///< Writes summary.json.
  bool has_records = true;            ///< Writes record files.
  bool is_skipped = false;            ///< No step has a finite loss.
  bool has_gaps = false;              ///< Steps 11 to 15 have no finite loss, and steps 21 to 25 no lines.
  std::string end = "done";           ///< End in the summary.
  std::string reason = {};            ///< Reason in the summary; may be empty.
  std::string odd = {};               ///< Text inside every name that a run chooses.
  std::int64_t step_ns = 50'000'000;  ///< Duration of a step.
  std::uint64_t record_nbytes = 0;    ///< Size of a record file; 0: space for all records.
};

/// Time at which a step 0 would have ended, in seconds since 1970. A step takes 0.06 s.
inline constexpr double kMadeBegin = 1795032000;

/// Creates the run in an existing directory.
void make_run(const std::string& directory, const MadeRun& run);

/// Returns the loss of a step in the files.
double made_loss(int step);
/// Returns the peak bytes of activations of a rank in summary.json.
std::uint64_t made_activations(int rank);

/// Returns a run whose records overwrote older ones: more annotations and kernels than collectives.
MadeRun overwritten_records();

/// Returns a run of slightly over a million events: 4 ranks, kernels and collectives.
MadeRun million_events();

}  // namespace tessera::analysis::testing
