// The steps of a run as one rank takes them: reports go to metrics.jsonl, the loss curve and the progress, evaluations
// come in between. It sees the trainer through an interface, so that tests can script what a step brings.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "tessera/base/run_directory.h"
#include "tessera/train/progress.h"
#include "tessera/train/summary.h"
#include "tessera/train/trainer.h"

namespace tessera::train::detail {

/// What the loop needs of a trainer.
class Steps {
 public:
  virtual ~Steps() = default;
  virtual StepReport step() = 0;
  /// Returns the held-out loss; called only if there is a held-out part. Calls `on_progress` as Trainer::evaluate()
  /// does.
  virtual double evaluate(const OnProgress& on_progress) = 0;
  [[nodiscard]] virtual std::vector<OwnedBytes> memory_now() const = 0;
};

/// What happens between steps: checkpoints, and what the run is asked for while it goes on.
class BetweenSteps {
 public:
  virtual ~BetweenSteps() = default;
  /// Before this step.
  virtual void before(std::int64_t step) = 0;
  /// After a batch of an evaluation that is not its last, on all ranks. Throws AskedToEnd on all ranks if one of them
  /// was asked to end.
  virtual void after_batch() = 0;
  /// After this step, which was told and evaluated. Calls `sync_lines` before it saves a checkpoint: a run that resumes
  /// from the checkpoint keeps the lines up to its step. False: the run ends here.
  virtual bool after(std::int64_t step, const std::function<void()>& sync_lines) = 0;
};

/// Where and how the loop runs.
struct LoopOptions {
  std::filesystem::path directory;  ///< of the run; it is there
  int rank = 0;                     ///< rank 0 writes the loss curve
  bool has_held_out = true;         ///< whether there is something to evaluate on
  BetweenSteps* between = nullptr;  ///< null: nothing happens there
  /// Checked after each step: a run whose directory was removed ends with IoError. Null: no check.
  const RunDirectoryLock* lock = nullptr;
};

/// Takes the steps that summary.config asks for and summary.steps does not count yet. An evaluation that was asked to
/// end has no loss, and the run ends after its step; a run that resumes there evaluates first. The summary and the
/// tally hold what was done also when a step throws. Lines that cannot be written do not end it: Summary::missing.
void take_steps(Steps& steps, const LoopOptions& options, Progress& progress, Summary& summary, RankTally& tally);

/// All owners together: the one called total, where there is one.
std::int64_t total_of(const std::vector<OwnedBytes>& owners);

}  // namespace tessera::train::detail
