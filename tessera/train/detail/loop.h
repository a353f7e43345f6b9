// The steps of a run on one rank, with evaluations. Reports go to metrics.jsonl, the loss curve and the progress. The
// loop uses the trainer through an interface, so that tests can script the steps.
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

/// Interface of a trainer for the loop.
class StepRunner {
 public:
  virtual ~StepRunner() = default;
  /// Takes a step. With kNextStep, may enqueue the next one before.
  virtual StepReport step(Ahead ahead) = 0;
  /// Returns true if the next step is already enqueued.
  [[nodiscard]] virtual bool has_step_ahead() const = 0;
  /// Returns the held-out loss. Called only if held-out data exists. Calls `on_progress` as Trainer::evaluate() does.
  virtual double evaluate(const OnProgress& on_progress) = 0;
  [[nodiscard]] virtual std::vector<OwnedBytes> memory_now() const = 0;
};

/// Actions between steps: checkpoints, and requests to the run.
class BetweenSteps {
 public:
  virtual ~BetweenSteps() = default;
  /// Called before this step.
  virtual void before(std::int64_t step) = 0;
  /// Called on all ranks after each batch of an evaluation but the last. Throws AskedToEnd on all ranks if one of them
  /// was requested to end.
  virtual void after_batch() = 0;
  /// Returns true if nothing is due between this step and the next one, which may then be enqueued before after(step).
  [[nodiscard]] virtual bool may_run_ahead(std::int64_t step) const = 0;
  /// Called after this step was reported and evaluated. If `has_step_ahead`, the next step is already enqueued, and a
  /// request to end the run ends it after that step. Calls `sync_lines` before it saves a checkpoint, because a run
  /// that resumes from the checkpoint keeps the lines up to its step. Returns false if the run ends here.
  virtual bool after(std::int64_t step, bool has_step_ahead, const std::function<void()>& sync_lines) = 0;
};

/// Options of the loop.
struct LoopOptions {
  std::filesystem::path directory;  ///< Existing run directory.
  int rank = 0;                     ///< Rank 0 writes the loss curve.
  bool has_held_out = true;         ///< True if held-out data exists.
  BetweenSteps* between = nullptr;  ///< Null: no actions.
  /// Checked after each step: if the run directory was removed, the run ends with IoError. Null: no check.
  const RunDirectoryLock* lock = nullptr;
};

/// Takes the steps of summary.config that summary.steps does not count yet. Each step is enqueued before the one before
/// it is read, unless an action between them needs the parameters or the end of the step. An evaluation that was
/// requested to end has no loss, and the run ends after its step; a resumed run evaluates first. Summary and tally are
/// valid even if a step throws. Lines that cannot be written do not end the loop and are listed in Summary::missing.
void take_steps(StepRunner& steps, const LoopOptions& options, Progress& progress, RunSummary& summary,
                RankTally& tally);

/// Returns the entry `total`, or without one the sum of all owners.
std::int64_t total_of(const std::vector<OwnedBytes>& owners);

}  // namespace tessera::train::detail
