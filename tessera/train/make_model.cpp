#include "tessera/train/make_model.h"

#include "tessera/base/error.h"
#include "tessera/nn/checkpointing.h"
#include "tessera/nn/distribute.h"
#include "tessera/nn/optim/adamw.h"
#include "tessera/nn/optim/sgd.h"

namespace tessera::train {
namespace {

// Checkpoints the elements of the lists of a model, its blocks.
void checkpoint_blocks(const nn::Module& model, const std::string& mode) {
  if (mode == "none") return;
  nn::CheckpointingOptions options;
  if (mode == "selective") options.kept_operators = {"scaled_dot_product_attention"};
  std::int64_t count = 0;
  for (const nn::NamedModule& each : model.named_modules()) {
    if (each.module.kind() == "ModuleList") count += nn::set_checkpointing(model, each.path + ".*", options);
  }
  TESSERA_CHECK(count > 0, "train.checkpointing: requires a model with a nn::ModuleList of blocks, got ", model.kind(),
                " without one; use none");
}

}  // namespace

std::shared_ptr<nn::LanguageModel> make_model(const Config& config, const ParallelPlan& plan,
                                              std::shared_ptr<shard::ExposedTime> exposed) {
  std::shared_ptr<nn::LanguageModel> model;
  {
    const nn::ShardingScope created(plan.mesh(), plan.table());
    model = nn::model_family(config.model.family).create(config.model);
  }
  nn::distribute(model->module(), plan.mesh(), plan.table(),
                 {.compute_dtype = config.train.dtype == "bf16" ? DType::kBF16 : DType::kF32,
                  .prefetches = config.mesh.prefetch,
                  .exposed = std::move(exposed)});
  checkpoint_blocks(model->module(), config.train.checkpointing);
  return model;
}

std::unique_ptr<nn::Optimizer> make_optimizer(const OptimizerConfig& config, const nn::Module& model) {
  std::vector<nn::ParameterGroup> groups{{}, {.weight_decay = 0.0}};
  for (const nn::NamedParameter& each : model.named_parameters())
    groups[each.parameter.decays() ? 0 : 1].parameters.push_back(each.parameter.leaf());
  if (config.kind == "adamw") {
    return std::make_unique<nn::AdamW>(std::move(groups), nn::AdamWOptions{.learning_rate = config.learning_rate,
                                                                           .beta1 = config.beta1,
                                                                           .beta2 = config.beta2,
                                                                           .eps = config.eps,
                                                                           .weight_decay = config.weight_decay});
  }
  TESSERA_CHECK(config.kind == "sgd", "optimizer.kind: must be adamw or sgd, got '", config.kind, "'");
  return std::make_unique<nn::Sgd>(std::move(groups), nn::SgdOptions{.learning_rate = config.learning_rate,
                                                                     .momentum = config.momentum,
                                                                     .weight_decay = config.weight_decay});
}

std::vector<nn::NamedTensor> named_leaves(const nn::Module& model) {
  std::vector<nn::NamedTensor> out;
  for (const nn::NamedParameter& each : model.named_parameters()) out.emplace_back(each.path, each.parameter.leaf());
  return out;
}

}  // namespace tessera::train
