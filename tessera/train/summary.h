// What a run came to: kept while it runs, written at its end as summary.json, said in short on the terminal. Formats
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

/// One rank's share.
struct RankNumbers {
  int rank = 0;                            ///< which
  double rate_p50 = 0;                     ///< tokens a second of this rank: its share of a step's, half of the steps
  double rate_p99 = 0;                     ///< likewise: 99 of 100 steps reached this
  double seconds = 0;                      ///< of all steps
  double exposed_seconds = 0;              ///< of them waiting for others
  std::vector<OwnedBytes> peak = {};       ///< memory by owner, the most
  std::vector<OwnedBytes> predicted = {};  ///< what the plan had said
  std::vector<std::string> missing = {};   ///< what it could not write, and why
};
/// As JSON, for the rank that collects them.
TESSERA_API std::string to_text(const RankNumbers& numbers);
/// Back. MismatchError: it is none.
TESSERA_API RankNumbers rank_numbers(const std::string& text);

/// Adds up the steps of one rank.
class TESSERA_API RankTally {
 public:
  /// Of a world of that many.
  explicit RankTally(int world_size) : world_size_(world_size) {}
  /// A step.
  void add(const StepReport& report);
  /// Of the steps so far; what is not known here (memory) is empty.
  [[nodiscard]] RankNumbers numbers(int rank) const;

 private:
  int world_size_;
  std::vector<double> rates_;
  double seconds_ = 0;
  double exposed_seconds_ = 0;
};

/// How a run ended.
enum class RunEnd : std::uint8_t {
  kDone,         ///< all steps were taken
  kStopped,      ///< by the policy for steps that go wrong
  kFailed,       ///< by an error
  kInterrupted,  ///< asked to (SIGTERM, SIGINT); the same command goes on
};
/// "done", "stopped", "failed", "interrupted".
TESSERA_API std::string_view to_string(RunEnd end);

/// A held-out evaluation.
struct Evaluation {
  std::int64_t step = 0;  ///< after which
  double loss = 0;        ///< nats a token
};

/// All of it.
struct Summary {
  RunEnd end = RunEnd::kDone;                        ///< how it ended
  std::string reason = {};                           ///< why, unless it is done
  Config config = {};                                ///< resolved
  std::string directory = {};                        ///< full path of the run directory
  int world_size = 1;                                ///< ranks
  std::int64_t parameters = 0;                       ///< numbers of the model
  std::int64_t steps = 0;                            ///< taken
  std::int64_t skipped_nan = 0;                      ///< of them without an update: not finite
  std::int64_t skipped_spike = 0;                    ///< of them without an update: a spike
  std::int64_t tokens = 0;                           ///< of all steps and ranks
  std::optional<double> first_loss = {};             ///< of the first step
  std::optional<double> last_loss = {};              ///< of the last step
  std::vector<Evaluation> evaluations = {};          ///< in order
  std::optional<double> bigram_entropy = {};         ///< of the held-out part, nats a token
  std::vector<RankNumbers> ranks = {};               ///< those that reported
  std::vector<std::int64_t> resumed_from = {};       ///< steps after which it went on from a checkpoint
  std::optional<std::int64_t> last_checkpoint = {};  ///< step of the last that was written, or gone on from
  std::vector<std::string> checkpoint_errors = {};   ///< why some were not written
  std::optional<std::string> unsaved = {};           ///< why the one at the end was not
  std::vector<std::string> missing = {};             ///< what else could not be written, and why
  bool was_finished = false;                         ///< before this start, which did nothing
};

/// The text of summary.json.
TESSERA_API std::string to_json(const Summary& summary);
/// A few lines for people, each with its line end.
TESSERA_API std::string short_text(const Summary& summary);

}  // namespace tessera::train
