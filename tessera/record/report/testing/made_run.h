// A run directory made up for tests and benches of the page: the tables that a trainer leaves and record files whose
// moments are chosen, so that a million events take no time to have happened.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::record::testing {

/// What to make.
struct MadeRun {
  int ranks = 4;                      ///< each with a record, over dp x fsdp x tp
  int steps = 40;                     ///< of training
  int collectives = 6;                ///< of each step and rank
  int kernels = 0;                    ///< of each step and rank; 0: none is recorded
  bool has_tables = true;             ///< loss.csv and metrics.jsonl
  bool has_summary = true;            ///< summary.json
  bool has_records = true;            ///< record files
  bool is_skipped = false;            ///< whether no step had a loss that is finite
  std::string end = "done";           ///< of the summary
  std::string reason = {};            ///< likewise; empty: none
  std::string odd = {};               ///< text that stands in every name that a run chooses
  std::int64_t step_ns = 50'000'000;  ///< length of a step
  std::uint64_t record_nbytes = 0;    ///< of a record file; 0: room for all records
};

/// Makes it in a directory, which is there.
void make_run(const std::string& directory, const MadeRun& run);

/// The loss of a step, as it stands in the files.
double made_loss(int step);
/// Bytes of activations at the peak of a rank, as they stand in summary.json.
std::uint64_t made_activations(int rank);

/// A run whose records overwrote older ones: those of marks and kernels more than those of collectives.
MadeRun overwritten_records();

/// A run of a million events and a little: 4 ranks, kernels and collectives.
MadeRun million_events();

}  // namespace tessera::record::testing
