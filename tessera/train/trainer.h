// One rank of a training run: the model on its mesh, its optimizer and its samples. All ranks take steps together.
//
//   Trainer trainer(resolved(config, world_size()), samples);
//   while (trainer.step_count() < config.train.steps) report(trainer.step());
//
// run.h adds progress, metrics.jsonl, evaluation and summary.json.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/export.h"
#include "tessera/device/graph.h"
#include "tessera/nn/module.h"
#include "tessera/tensor/tensor.h"
#include "tessera/train/config.h"
#include "tessera/train/data/samples.h"
#include "tessera/train/evaluation.h"
#include "tessera/train/on_progress.h"
#include "tessera/train/task.h"

namespace tessera::train {

struct BadStep;
struct CheckpointState;

/// Result of a step.
enum class StepEnd : std::uint8_t { kDone, kSkippedNan, kSkippedSpike };

/// Steps that Trainer::step enqueues.
enum class Ahead : std::uint8_t {
  kNone,      ///< the step alone
  kNextStep,  ///< the next step too, before it waits for the step, so that a device never waits for the host
};

/// One step as this rank saw it.
struct StepReport {
  std::int64_t step = 0;         ///< Number of the step, from 1.
  double loss = 0;               ///< Mean over the tokens of all ranks.
  double grad_norm = 0;          ///< Norm before clipping.
  double learning_rate = 0;      ///< Learning rate of the schedule.
  StepEnd end = StepEnd::kDone;  ///< Result of the step.
  double seconds = 0;            ///< Duration of the step on this rank.
  double exposed_seconds = 0;    ///< Part of `seconds` in which this rank waited for others.
  std::int64_t tokens = 0;       ///< Tokens of the step, over all ranks; for a task, samples.
  double time = 0;               ///< End of the step, in seconds since 1970; 0: unknown.
};

/// Bytes by owner.
struct OwnedBytes {
  std::string owner;        ///< "parameters", "gradients", "optimizer", "gathered", "activations", ...
  std::int64_t nbytes = 0;  ///< Bytes of this owner.
};

/// Values computed in a step, by name: activations/NAME is the output of a module (model.h has the names), and
/// activation_gradients/NAME is the gradient of that output.
using StepActivations = std::vector<std::pair<std::string, Tensor>>;

/// Thrown for a loss or gradient that is not finite, or for a spike, under the policy "stop". The parameters keep their
/// values from before the step.
class TESSERA_API TrainingStopped : public AbortedError {
  using AbortedError::AbortedError;
};

/// Returns the rows of this rank of micro-batch k, sequence + 1 tokens each. k increases by one from call to call. It
/// goes back to the micro-batches of a step that is taken again (Trainer::step).
using BatchSource = std::function<std::vector<std::int32_t>(std::uint64_t k)>;
/// Returns a function from k to the numbers of the samples in the rows of this rank of micro-batch k.
TESSERA_API std::function<std::vector<std::uint64_t>(std::uint64_t k)> own_samples(const Config& config);

/// Reads the rows of this rank ahead on a separate thread, starting with the first requested micro-batch.
TESSERA_API BatchSource read_ahead(const Config& config, Samples training);

/// Trains a model on one rank. The configuration must be resolved.
class TESSERA_API Trainer {
 public:
  /// Trains on samples, which a separate thread reads ahead.
  Trainer(const Config& config, const Samples& training)
      : Trainer(config, read_ahead(config, training), training.tokenizer().end_of_text()) {}
  /// Trains on batches from a function. With data.pack, `end_of_text` is the token that ends a document.
  Trainer(const Config& config, BatchSource batches, std::optional<std::uint32_t> end_of_text = {});
  /// Trains on samples from a function.
  Trainer(const Config& config, const SampleReader& samples, std::optional<std::uint32_t> end_of_text = {});
  /// Trains the model of a task. config.model must be that of own_model_config().
  Trainer(const Config& config, const Task& task);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Takes one step. After the first step and every run.check_replicas steps it compares the replicas of parameters. If
  /// they differ, throws MismatchError on every rank with the rank, the parameter and the step.
  ///
  /// With kNextStep, the trainer may enqueue the next step before it waits for this one. The report is still that of
  /// this step, and an error of the next step is thrown by the next call. If this step is bad, the device skips the
  /// next one as well, and both are taken again, so that all results are equal to those with kNone. Until a call with
  /// kNone returns, parameters are those of a later step, and there is no checkpoint, evaluation or sample. Ranks of a
  /// mesh, the step of before_update(), a bound of spikes, and steps before a graph is captured run without the next
  /// step.
  StepReport step(Ahead ahead = Ahead::kNone);
  /// Returns true if the next step is already enqueued.
  [[nodiscard]] bool has_step_ahead() const;
  /// Calls `keep` for every step that the policies stop or skip, before its gradients are freed (bad_step.h).
  void keep_bad_steps(std::function<void(const BadStep&)> keep);
  /// Calls `look` in `step` after gradients are reduced and before the update. With train.graph, this step is not
  /// replayed. The activations are those of the first micro-batch of the step, and all are held until then.
  void before_update(std::int64_t step, std::function<void(const StepReport&, const StepActivations&)> look);
  /// Returns the number of finished steps.
  [[nodiscard]] std::int64_t step_count() const;
  /// Returns the contents of a checkpoint: the tensors of the parameters, with LoRA of the adapters alone, and of the
  /// optimizer state, and as metadata "trainer" the step, the state of the random generator and the running mean of
  /// norms. If it is saved, the next step waits for the copies before its update. It must not outlive the trainer.
  [[nodiscard]] CheckpointState checkpoint_state() const;
  /// Returns the weights that a run starts from another checkpoint with (checkpoint.init): the tensors of all
  /// parameters but LoRA adapters.
  [[nodiscard]] CheckpointState initial_weights() const;
  /// Resumes after the step in `texts`. The tensors of checkpoint_state() must already be filled. Throws MismatchError
  /// if `texts` does not come from a trainer.
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
  /// Returns the mean loss over the first `samples` held-out samples of the task, a multiple of the samples of a
  /// micro-batch.
  double evaluate(std::int64_t samples, const OnProgress& on_progress = {});
  /// Generates `count` tokens after `prompt`; the same on all ranks. Calls `on_progress` after each token but the last.
  /// If it throws, it must do so on all ranks after the same token.
  std::vector<std::uint32_t> sample(const std::vector<std::uint32_t>& prompt, std::int64_t count, double temperature,
                                    std::uint64_t seed, const OnProgress& on_progress = {});

  /// Returns the bytes in use now on this rank, by owner.
  [[nodiscard]] std::vector<OwnedBytes> memory_now() const;
  /// Returns the peak since the start, by owner. If parameters are gathered ahead, the peaks of both streams are added,
  /// which may exceed the true peak by about 10 %.
  [[nodiscard]] std::vector<OwnedBytes> memory_peak() const;
  /// Returns the predicted peak, by owner and in total (predict.h).
  [[nodiscard]] std::vector<OwnedBytes> memory_predicted() const;
  /// Returns the captured step, for inspection; empty without train.graph, and before the second step.
  [[nodiscard]] device::Graph step_graph() const;
  /// Returns the number of parameter elements over all ranks.
  [[nodiscard]] std::int64_t parameter_count() const;
  /// Returns the model. Callers may read its parameters or, equally on all ranks, write them between steps.
  [[nodiscard]] const nn::Module& model() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::train
