#include "tessera/train/merge_adapters.h"

#include <functional>
#include <map>
#include <string>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/nn/language_model.h"
#include "tessera/nn/lora.h"
#include "tessera/train/checkpoint/detail/index.h"
#include "tessera/train/detail/resume.h"
#include "tessera/train/make_model.h"

namespace tessera::train {
namespace {

// Returns the configuration of a run with adapters, for one rank.
Config config_of(const CheckpointInfo& adapters) {
  Config config = detail::configuration_of(checkpoint_texts(adapters));
  TESSERA_CHECK_AS(MismatchError, config.lora.rank > 0, adapters.path.string(),
                   ": must be a checkpoint of LoRA adapters, got one of complete weights");
  TESSERA_CHECK(!is_own(config.model), adapters.path.string(),
                ": must be of a model family, got an own model; call nn::merge_lora() in its program");
  config.mesh.dp = config.mesh.fsdp = config.mesh.tp = 1;
  return resolved(config, 1);
}

CheckpointState parameters_of(const nn::Module& model, const std::function<bool(const std::string&)>& is_chosen) {
  CheckpointState out;
  for (const auto& [name, leaf] : named_leaves(model)) {
    if (is_chosen(name)) out.tensors.emplace_back("parameters/" + name, leaf.detach());
  }
  return out;
}

}  // namespace

std::filesystem::path base_of_adapters(const CheckpointInfo& adapters) { return config_of(adapters).checkpoint.init; }

CheckpointInfo merge_adapters(const CheckpointInfo& adapters, const CheckpointInfo& base,
                              const std::filesystem::path& directory) {
  Config config = config_of(adapters);
  const std::filesystem::path to = directory / detail::step_name(adapters.step);
  TESSERA_CHECK(!std::filesystem::exists(to), "merge: ", to.string(), " must not exist; use another directory");
  const auto model = nn::model_family(config.model.family).create(config.model);
  const auto any = [](const std::string& /*name*/) { return true; };
  CheckpointState weights = parameters_of(model->module(), any);
  (void)load_checkpoint(base, weights);
  nn::add_lora(model->module(), {.rank = config.lora.rank, .alpha = config.lora.alpha, .modules = config.lora.modules});
  CheckpointState own = parameters_of(model->module(), nn::is_lora_parameter);
  (void)load_checkpoint(adapters, own);
  nn::merge_lora(model->module());

  CheckpointState merged = parameters_of(model->module(), any);
  config.lora.rank = 0;
  config.checkpoint.init.clear();
  merged.texts["configuration"] = detail::configuration_text(config);
  CheckpointWriter writer({.directory = directory});
  writer.save(adapters.step, merged);
  writer.finish();
  for (const std::string& error : writer.take_errors()) TESSERA_THROW(IoError, "merge: ", error);
  return open_checkpoint(to);
}

}  // namespace tessera::train
