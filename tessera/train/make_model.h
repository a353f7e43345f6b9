// The model and the optimizer of a run, from its configuration.
#pragma once

#include <memory>
#include <string>

#include "tessera/base/export.h"
#include "tessera/nn/language_model.h"
#include "tessera/nn/optim/optimizer.h"
#include "tessera/shard/exposed.h"
#include "tessera/train/config.h"
#include "tessera/train/plan.h"
#include "tessera/train/task.h"

namespace tessera::train {

/// Creates the model of the family model.family on a plan. Draws the weights from the generator of this rank; all ranks
/// must have equal seeds. Time spent waiting for other ranks is added to `exposed`.
TESSERA_API std::shared_ptr<nn::LanguageModel> make_model(const Config& config, const ParallelPlan& plan,
                                                          std::shared_ptr<shard::ExposedTime> exposed);

/// Creates the model of a task on a plan.
TESSERA_API std::shared_ptr<TaskModel> make_model(const Config& config, const ParallelPlan& plan,
                                                  std::shared_ptr<shard::ExposedTime> exposed, const Task& task);

/// Returns the rows of the sharding table, and a line for each parameter of the model with its layouts and bytes per
/// rank. Creates the complete model on the default device. `config` must be resolved. Throws InvalidArgument, which
/// names the parameter and the row, if they do not fit.
TESSERA_API std::string sharding_text(const Config& config);

/// Creates the optimizer of a model, with two groups: parameters with weight decay, and without.
TESSERA_API std::unique_ptr<nn::Optimizer> make_optimizer(const OptimizerConfig& config, const nn::Module& model);

/// Returns the paths and leaves of all parameters.
TESSERA_API std::vector<nn::NamedTensor> named_leaves(const nn::Module& model);
/// Returns the leaves of the parameters that are trained.
TESSERA_API std::vector<Tensor> trained_leaves(const nn::Module& model);

}  // namespace tessera::train
