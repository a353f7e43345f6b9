// The work of a trainer: a model on its mesh, the micro-batches of this rank, and the loss.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "tessera/nn/language_model.h"
#include "tessera/nn/module.h"
#include "tessera/shard/exposed.h"
#include "tessera/train/config.h"
#include "tessera/train/plan.h"
#include "tessera/train/task.h"
#include "tessera/train/trainer.h"

namespace tessera::train::detail {

/// A model with its micro-batches. Not thread-safe.
class Workload {
 public:
  virtual ~Workload() = default;
  /// Returns the module with the parameters.
  [[nodiscard]] virtual const nn::Module& module() const = 0;
  /// Returns the rows of this rank of micro-batch k.
  virtual Batch batch(std::uint64_t k) = 0;
  /// Returns the part of a micro-batch of the mean loss over a step.
  [[nodiscard]] virtual Tensor loss(const Batch& batch) const = 0;
  /// Returns the number of units that rates count: tokens, or samples of a task.
  [[nodiscard]] virtual std::int64_t units_per_sample() const = 0;
};

/// A language model. The functions of Trainer that need tokens use it.
class LanguageWorkload final : public Workload {
 public:
  /// Creates the model on the plan, which must outlive this object.
  LanguageWorkload(const Config& config, const ParallelPlan& plan, const std::shared_ptr<shard::ExposedTime>& exposed,
                   BatchSource rows, std::optional<std::uint32_t> end_of_text);
  [[nodiscard]] const nn::Module& module() const override { return model_->module(); }
  Batch batch(std::uint64_t k) override;
  [[nodiscard]] Tensor loss(const Batch& batch) const override { return loss(batch, step_tokens_); }
  [[nodiscard]] std::int64_t units_per_sample() const override { return sequence_; }

  /// Returns a batch of rows of sequence + 1 tokens. Targets of rows from `real` on are ignored.
  [[nodiscard]] Batch batch_of_rows(std::span<const std::int32_t> rows, std::int64_t real) const;
  /// Returns the sum of the token losses, divided by `count`. Sets the packing of the model for this batch.
  [[nodiscard]] Tensor loss(const Batch& batch, double count) const;
  /// Returns the model.
  [[nodiscard]] const nn::LanguageModel& model() const { return *model_; }

 private:
  const ParallelPlan& plan_;
  std::shared_ptr<nn::LanguageModel> model_;
  BatchSource rows_;
  std::int64_t sequence_;
  double step_tokens_;
  std::optional<std::uint32_t> end_of_text_;  // unset: rows are not split into documents
};

/// A task of the user's own.
class TaskWorkload final : public Workload {
 public:
  /// Creates the model on the plan, which must outlive this object.
  TaskWorkload(const Config& config, const ParallelPlan& plan, const std::shared_ptr<shard::ExposedTime>& exposed,
               const Task& task);
  [[nodiscard]] const nn::Module& module() const override { return model_->module(); }
  Batch batch(std::uint64_t k) override;
  [[nodiscard]] Tensor loss(const Batch& batch) const override;
  [[nodiscard]] std::int64_t units_per_sample() const override { return 1; }

  /// Returns the mean loss of the held-out samples from `first` on, as many as a micro-batch has.
  [[nodiscard]] Tensor held_out_loss(std::uint64_t first) const;

 private:
  [[nodiscard]] Batch read(const TaskData& data, std::span<const std::uint64_t> samples) const;
  [[nodiscard]] Tensor mean_loss(const Batch& batch) const;

  const ParallelPlan& plan_;
  std::shared_ptr<TaskModel> model_;
  Task task_;
  std::uint64_t seed_;
  double share_;  // of a micro-batch in a step
};

/// Returns the tensors of these samples, complete, on the host. Throws InvalidArgument unless they are plain contiguous
/// tensors with one row per sample.
Batch read_samples(const Task& task, const TaskData& data, std::span<const std::uint64_t> samples);

/// Returns the number of the sample that a run reads as `number`: each epoch has a new order.
std::uint64_t shuffled(std::uint64_t number, std::uint64_t size, std::uint64_t seed);

}  // namespace tessera::train::detail
