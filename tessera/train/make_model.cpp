#include "tessera/train/make_model.h"

#include <algorithm>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/nn/checkpointing.h"
#include "tessera/nn/distribute.h"
#include "tessera/nn/lora.h"
#include "tessera/nn/meta.h"
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

void freeze(const nn::Module& model, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    TESSERA_CHECK(model.set_requires_grad(pattern, false) > 0,
                  "train.freeze: must match the paths of parameters, got '", pattern,
                  "'; `tessera train --print-sharding` lists them");
  }
  TESSERA_CHECK(std::ranges::any_of(model.parameters(), autograd::requires_grad),
                "train.freeze: must leave a parameter to train, got all of ", model.kind(), " frozen");
}

// Creates a model in shards and lays it out.
template <class Create>
auto made(const Config& config, const ParallelPlan& plan, std::shared_ptr<shard::ExposedTime> exposed,
          const Create& create) {
  const auto model = [&] {
    const nn::ShardingScope created(plan.mesh(), plan.table());
    auto out = create();
    if (config.lora.rank > 0)
      nn::add_lora(out->module(),
                   {.rank = config.lora.rank, .alpha = config.lora.alpha, .modules = config.lora.modules});
    return out;
  }();
  freeze(model->module(), config.train.freeze);
  nn::distribute(model->module(), plan.mesh(), plan.table(),
                 {.compute_dtype = config.train.dtype == "bf16" ? DType::kBF16 : DType::kF32,
                  .prefetches = config.mesh.prefetch,
                  .exposed = std::move(exposed)});
  checkpoint_blocks(model->module(), config.train.checkpointing);
  return model;
}

}  // namespace

std::shared_ptr<nn::LanguageModel> make_model(const Config& config, const ParallelPlan& plan,
                                              std::shared_ptr<shard::ExposedTime> exposed) {
  return made(config, plan, std::move(exposed),
              [&] { return nn::model_family(config.model.family).create(config.model); });
}

std::shared_ptr<TaskModel> make_model(const Config& config, const ParallelPlan& plan,
                                      std::shared_ptr<shard::ExposedTime> exposed, const Task& task) {
  return made(config, plan, std::move(exposed), task.create);
}

std::string sharding_text(const Config& config) {
  const ParallelPlan plan = ParallelPlan::create(config, config.mesh.dp * config.mesh.fsdp * config.mesh.tp);
  std::string text = tessera::detail::concat("mesh: dp=", config.mesh.dp, ", fsdp=", config.mesh.fsdp,
                                             ", tp=", config.mesh.tp, "\n[sharding]\n");
  for (const auto& [meaning, axes] : plan.table().rows()) {
    std::string row;
    for (const std::string& axis : axes) row += (row.empty() ? "" : "+") + axis;
    text += meaning + " = \"" + row + "\"\n";
  }
  const nn::Meta meta;  // needs shapes alone, of models of any size
  const std::shared_ptr<nn::LanguageModel> model = nn::model_family(config.model.family).create(config.model);
  return text + "\n" + nn::sharding_text(model->module(), plan.mesh(), plan.table());
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

std::vector<Tensor> trained_leaves(const nn::Module& model) {
  std::vector<Tensor> out = model.parameters();
  std::erase_if(out, [](const Tensor& leaf) { return !autograd::requires_grad(leaf); });
  return out;
}

}  // namespace tessera::train
