// The task of a run, as train::run() uses it: the data with their checks, the trainer, evaluation, and texts about
// them. One implementation trains language models on files, the other one a task of the user's own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/train/config.h"
#include "tessera/train/data/samples.h"
#include "tessera/train/detail/rank_facts.h"
#include "tessera/train/detail/start_text.h"
#include "tessera/train/progress.h"
#include "tessera/train/task.h"
#include "tessera/train/trainer.h"

namespace tessera::train::detail {

/// Returns the function that shows a phase before the first step, by its name and unit.
using Phases = std::function<OnProgress(const char* name, const char* unit)>;
/// Returns phases that are shown on `progress`.
Phases phases_on(Progress& progress);

/// Model and data of a run in one world.
class RunTask {
 public:
  virtual ~RunTask() = default;
  /// Throws InvalidArgument if the options name no data for this task.
  virtual void check(const Config& config) const = 0;
  /// Opens the data. Throws if they do not fit the options.
  virtual void open(const Config& config, const Phases& phases) = 0;
  /// Returns facts of the data that all ranks must share; `has_others` if there are other ranks.
  [[nodiscard]] virtual std::vector<Fact> facts(const Config& config, bool has_others) const = 0;
  /// Returns the digest of the training data.
  [[nodiscard]] virtual std::string digest(const Config& config) const = 0;
  /// Returns true if there are held-out data.
  [[nodiscard]] virtual bool has_held_out() const = 0;
  /// Returns the entropy of pairs of held-out tokens, if the data are tokens.
  [[nodiscard]] virtual std::optional<double> entropy(const Phases& phases) const = 0;
  /// Creates the trainer.
  [[nodiscard]] virtual std::unique_ptr<Trainer> make_trainer(const Config& config) const = 0;
  /// Returns the held-out loss.
  virtual double evaluate(Trainer& trainer, std::int64_t samples, const OnProgress& on_progress) const = 0;
  /// Sets the name of the model and the sizes of the data.
  virtual void describe(StartFacts& facts) const = 0;
  /// Prints what the trained model generates, if run.sample requests it.
  virtual void say_sample(Trainer& trainer, const Config& config, Progress& progress) const = 0;
};

/// Returns the task of a language model and the files of [data].
std::unique_ptr<RunTask> language_task();
/// Returns a task of the user's own.
std::unique_ptr<RunTask> own_task(Task task);
/// Opens the training data of a language model.
Samples open_training(const Config& config, const Phases& phases);

}  // namespace tessera::train::detail
