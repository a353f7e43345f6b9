// One rank of a training run: the model on its mesh, its optimizer, its samples. Steps are taken together by all ranks.
//
//   Trainer trainer(resolved(config, world_size()), samples);
//   while (trainer.step_count() < config.train.steps) report(trainer.step());
//
// The run around it (progress, metrics.jsonl, evaluation, summary.json) is run.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"
#include "tessera/train/config.h"
#include "tessera/train/data/samples.h"
#include "tessera/train/on_progress.h"

namespace tessera::train {

class Model;
struct BadStep;
struct CheckpointState;

/// What became of a step.
enum class StepEnd : std::uint8_t { kDone, kSkippedNan, kSkippedSpike };

/// One step as this rank saw it.
struct StepReport {
  std::int64_t step = 0;         ///< counted from 1
  double loss = 0;               ///< mean over the tokens of all ranks
  double grad_norm = 0;          ///< before clipping
  double learning_rate = 0;      ///< as the schedule has it
  StepEnd end = StepEnd::kDone;  ///< what became of it
  double seconds = 0;            ///< of this rank's step
  double exposed_seconds = 0;    ///< of it in which this rank waited for others
  std::int64_t tokens = 0;       ///< of the step, over all ranks
};

/// Bytes by owner.
struct OwnedBytes {
  std::string owner;        ///< parameters, gradients, optimizer, gathered, activations, ...
  std::int64_t nbytes = 0;  ///< that are its
};

/// What a step computed on its way, by name: activations/NAME, what a module gave (model.h has the names), and
/// activation_gradients/NAME, the gradient that came back to it.
using StepActivations = std::vector<std::pair<std::string, Tensor>>;

/// A loss that is not finite, or a spike, under the policy "stop". The parameters are those before the step.
class TESSERA_API TrainingStopped : public AbortedError {
  using AbortedError::AbortedError;
};

/// Writes sample `number`, sequence + 1 tokens.
using SampleReader = std::function<void(std::uint64_t number, std::span<std::int32_t> tokens)>;
/// Gives this rank's rows of micro-batch k, sequence + 1 tokens each; k counts up by one from call to call.
using BatchSource = std::function<std::vector<std::int32_t>(std::uint64_t k)>;
/// Which samples this rank's rows of micro-batch k are.
TESSERA_API std::function<std::vector<std::uint64_t>(std::uint64_t k)> own_samples(const Config& config);

/// This rank's rows of the samples, read ahead on a thread of their own from the first micro-batch that is asked for.
TESSERA_API BatchSource read_ahead(const Config& config, Samples training);

/// See the head of this file. `config` is resolved.
class TESSERA_API Trainer {
 public:
  /// On samples, read ahead on a thread of their own.
  Trainer(const Config& config, Samples training) : Trainer(config, read_ahead(config, std::move(training))) {}
  /// On batches as they come.
  Trainer(const Config& config, BatchSource batches);
  /// On samples from a function.
  Trainer(const Config& config, const SampleReader& samples);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Takes one step. After the first step and every run.check_replicas steps it compares the replicas of parameters;
  /// MismatchError on every rank names the rank, the parameter and the step if they differ.
  StepReport step();
  /// Calls `keep` of every step that the policies stop or skip, before its gradients go (bad_step.h).
  void keep_bad_steps(std::function<void(const BadStep&)> keep);
  /// Calls `look` in this step when gradients are settled and nothing is updated yet; with train.graph this step is not
  /// a replay. Activations are those of the step's first micro-batch, all of which are held until then.
  void before_update(std::int64_t step, std::function<void(const StepReport&, const StepActivations&)> look);
  /// Steps taken.
  [[nodiscard]] std::int64_t step_count() const;
  /// What a checkpoint of this trainer holds: parameters and the optimizer's state, the tensors themselves, and as text
  /// "trainer" the step, where the random generator stands and the running mean of norms.
  [[nodiscard]] CheckpointState checkpoint_state() const;
  /// Goes on after the step of the texts; the tensors of checkpoint_state() have been filled. MismatchError: the texts
  /// are of no trainer.
  void continue_from(const std::map<std::string, std::string>& texts);
  /// Returns the mean loss over the first `samples` samples of `held_out`; the same on all ranks. Calls `on_progress`
  /// after each batch but the last, when the batch is computed. If it throws, it must do so on all ranks after the same
  /// batch: a batch holds collectives.
  double evaluate(const Samples& held_out, std::int64_t samples, const OnProgress& on_progress = {}) {
    return evaluate([&](std::uint64_t number, std::span<std::int32_t> tokens) { held_out.read(number, tokens); },
                    samples, on_progress);
  }
  /// Evaluates on samples from a function.
  double evaluate(const SampleReader& held_out, std::int64_t samples, const OnProgress& on_progress = {});
  /// Draws `count` tokens that go on from `prompt`; the same on all ranks. Calls `on_progress` after each token but the
  /// last; if it throws, it must do so on all ranks after the same token.
  std::vector<std::uint32_t> sample(std::vector<std::uint32_t> prompt, std::int64_t count, double temperature,
                                    std::uint64_t seed, const OnProgress& on_progress = {});

  /// Bytes in use now on this rank, by owner.
  [[nodiscard]] std::vector<OwnedBytes> memory_now() const;
  /// The most that there were since the start; while parameters are gathered ahead, what two streams hold at most
  /// counts together, which may be some 10 % more than there ever were at once.
  [[nodiscard]] std::vector<OwnedBytes> memory_peak() const;
  /// What the plan said that the peak would be, by owner, and all together.
  [[nodiscard]] std::vector<OwnedBytes> memory_predicted() const;
  /// Numbers of the model, over all ranks.
  [[nodiscard]] std::int64_t parameter_count() const;
  /// The model, whose parameters a caller may read or, all ranks alike, write between steps.
  [[nodiscard]] const Model& model() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::train
