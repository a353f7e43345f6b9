// A task of your own: any module with a loss, trained on samples of your own. It gets what language models get: FSDP
// and the other rows of the sharding table, micro-batches, captured steps, checkpoints, resume, evaluation and the
// report.
//
//   train::Task task = train::task("mixer", [] { return Mixer(sizes); }, {.size = 50'000, .read = read_images});
//   train::RunSummary summary = train::run(task, config);                             // run.h
//
// The model is a module with a member `Tensor loss(const train::Batch& batch) const`, which returns the mean over the
// samples of the batch. The function creates the model, since a run may create it in shards, and again in a shrunk
// world. All ranks must create equal models: their generators have the seed train.seed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/nn/module.h"
#include "tessera/tensor/tensor.h"

namespace tessera::train {

/// Tensors of some samples. The first dimension of each tensor is the sample.
using Batch = std::vector<Tensor>;

/// Samples of a task, by number.
struct TaskData {
  std::uint64_t size = 0;  ///< Number of samples. 0: no data.
  /// Returns the tensors of these samples, on the host, with one row per number. Equal numbers must give equal tensors,
  /// on all ranks and in all runs: a run resumes by number. Each rank reads only its own samples.
  std::function<Batch(std::span<const std::uint64_t> samples)> read = {};
};

/// A model of a task, as the trainer uses it.
class TESSERA_API TaskModel {
 public:
  TaskModel() = default;
  virtual ~TaskModel() = default;
  TaskModel(const TaskModel&) = delete;
  TaskModel& operator=(const TaskModel&) = delete;

  /// Returns the module with the parameters.
  [[nodiscard]] virtual const nn::Module& module() const = 0;
  /// Returns the mean loss over the samples of a batch, a tensor of one element.
  [[nodiscard]] virtual Tensor loss(const Batch& batch) const = 0;
};

/// A model with its data.
struct Task {
  std::string name;                                    ///< Shown in the output of the run: "mixer".
  std::function<std::shared_ptr<TaskModel>()> create;  ///< Creates the model.
  TaskData training;                                   ///< Samples to train on, in a new order in each epoch.
  TaskData held_out = {};                              ///< Samples to evaluate on, the first ones. May be empty.
};

/// Returns a task. `make()` returns the model, a module with a member loss(batch).
template <class Make>
Task task(const std::string& name, Make make, const TaskData& training, const TaskData& held_out = {}) {
  using Model = decltype(make());
  class Adapter final : public TaskModel {
   public:
    explicit Adapter(Model model) : model_(std::move(model)) {}
    [[nodiscard]] const nn::Module& module() const override { return model_; }
    [[nodiscard]] Tensor loss(const Batch& batch) const override { return model_.loss(batch); }

   private:
    Model model_;
  };
  return {
      .name = name,
      .create = [make = std::move(make)]() -> std::shared_ptr<TaskModel> { return std::make_shared<Adapter>(make()); },
      .training = training,
      .held_out = held_out};
}

}  // namespace tessera::train
