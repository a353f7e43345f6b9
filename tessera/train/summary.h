// Summary of a run: collected while it runs, written at its end as summary.json, and printed in short form. The formats
// and conventions are in docs/run_directory.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/train/config.h"
#include "tessera/train/trainer.h"

namespace tessera::train {

/// Values of one rank.
struct RankNumbers {
  int rank = 0;         ///< World rank.
  double rate_p50 = 0;  ///< Median over the steps of the tokens/s of this rank: its share of the tokens of a step.
  double rate_p99 = 0;  ///< Tokens/s that 99 % of the steps reached.
  double seconds = 0;   ///< Time of all steps.
  double exposed_seconds = 0;              ///< Part of `seconds` spent waiting for other ranks.
  std::vector<OwnedBytes> peak = {};       ///< Peak memory by owner.
  std::vector<OwnedBytes> predicted = {};  ///< Peak memory that the plan predicted.
  std::vector<std::string> missing = {};   ///< Files that this rank could not write, with reasons.
};
/// Serializes the values as JSON, for the rank that collects them.
TESSERA_API std::string to_text(const RankNumbers& numbers);
/// Parses the result of to_text(). Throws MismatchError if `text` is not one.
TESSERA_API RankNumbers rank_numbers(const std::string& text);

/// Collects the steps of one rank.
class TESSERA_API RankTally {
 public:
  /// Starts a tally in a world of `world_size` ranks.
  explicit RankTally(int world_size) : world_size_(world_size) {}
  /// Adds a step.
  void add(const StepReport& report);
  /// Returns the values of the steps so far. Memory is left empty.
  [[nodiscard]] RankNumbers numbers(int rank) const;

 private:
  int world_size_;
  std::vector<double> rates_;
  double seconds_ = 0;
  double exposed_seconds_ = 0;
};

/// End of a run.
enum class RunEnd : std::uint8_t {
  kDone,         ///< All steps were taken.
  kStopped,      ///< The policy for bad steps ended the run.
  kFailed,       ///< An error ended the run.
  kInterrupted,  ///< A signal (SIGTERM, SIGINT) ended the run. The same command resumes it.
};
/// Returns "done", "stopped", "failed" or "interrupted".
TESSERA_API std::string_view to_string(RunEnd end);

/// Result of a held-out evaluation.
struct Evaluation {
  std::int64_t step = 0;  ///< Step before the evaluation.
  double loss = 0;        ///< Nats per token.
};

/// Summary of a run.
struct RunSummary {
  RunEnd end = RunEnd::kDone;                        ///< End of the run.
  std::string reason = {};                           ///< Reason, if the end is not kDone.
  Config config = {};                                ///< Resolved configuration.
  std::string directory = {};                        ///< Full path of the run directory.
  int world_size = 1;                                ///< Number of ranks.
  std::int64_t parameters = 0;                       ///< Elements of the parameters.
  std::int64_t steps = 0;                            ///< Steps taken.
  std::int64_t skipped_nan = 0;                      ///< Steps without an update because a value was not finite.
  std::int64_t skipped_spike = 0;                    ///< Steps without an update because of a spike.
  std::int64_t tokens = 0;                           ///< Tokens of all steps and ranks.
  std::optional<double> first_loss = {};             ///< Loss of the first step.
  std::optional<double> last_loss = {};              ///< Loss of the last step.
  std::vector<Evaluation> evaluations = {};          ///< Evaluations in order.
  std::optional<double> bigram_entropy = {};         ///< Bigram entropy of the held-out samples, nats per token.
  std::vector<RankNumbers> ranks = {};               ///< Values of the ranks that reported.
  std::vector<std::int64_t> resumed_from = {};       ///< Steps of the checkpoints that the run resumed from.
  std::optional<std::int64_t> last_checkpoint = {};  ///< Step of the last checkpoint that was written or resumed from.
  std::vector<std::string> checkpoint_errors = {};   ///< Reasons for checkpoints that were not written.
  std::optional<std::string> unsaved = {};           ///< Reason if the final checkpoint was not written.
  std::vector<std::string> missing = {};             ///< Other files that could not be written, with reasons.
  double measured_flops = 0;  ///< FLOP/s of products that rank 0 measured on its device; 0: not measured.
  bool was_finished = false;  ///< True if the run was finished before this start, which did nothing.
};

/// Returns the FLOP/s per rank that the MFU refers to: run.peak_flops, otherwise measured_flops; 0: unknown.
TESSERA_API double peak_flops_of(const RunSummary& summary);
/// Returns the MFU of a run that trains one token per second, by the convention `full`; 0: unknown.
TESSERA_API double mfu_per_rate(const RunSummary& summary);
/// Returns the text of summary.json.
TESSERA_API std::string to_json(const RunSummary& summary);
/// Returns a few human-readable lines, each with its line end.
TESSERA_API std::string short_text(const RunSummary& summary);

}  // namespace tessera::train
