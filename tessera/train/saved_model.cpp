#include "tessera/train/saved_model.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <vector>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/nn/distribute.h"
#include "tessera/ops/create/generator.h"
#include "tessera/train/checkpoint/hugging_face.h"
#include "tessera/train/detail/choose_device.h"
#include "tessera/train/make_model.h"

namespace tessera::train {
namespace {

using Options = std::map<std::string, std::vector<std::string>>;

Options options_in(const CheckpointInfo& from) {
  const std::map<std::string, std::string> texts = checkpoint_texts(from);
  const auto found = texts.find("configuration");
  TESSERA_CHECK_AS(MismatchError, found != texts.end(), from.path.string(),
                   ": the checkpoint has no metadata 'configuration'; it is not from a training run");
  try {
    return nlohmann::json::parse(found->second).get<Options>();
  } catch (const nlohmann::json::exception& error) {
    TESSERA_THROW(MismatchError, from.path.string(), ": metadata 'configuration' cannot be read (", error.what(), ")");
  }
}

bool is_option(const std::string& name) {
  for (const Option& option : options()) {
    if (option.name == name) return true;
  }
  return false;
}

}  // namespace

Config saved_config(const CheckpointInfo& from) {
  Config config;
  if (is_hugging_face(from.path)) {
    config.model = hugging_face_config(from.path);
    config.model.preset = nn::model_family(config.model.family).presets.front().name;
    return config;
  }
  for (const auto& [name, values] : options_in(from)) {
    // Options of other versions matter only if they change the model.
    if (!name.starts_with("model.") && !is_option(name)) continue;
    TESSERA_CHECK_AS(MismatchError, is_option(name), from.path.string(), ": its configuration has the option ", name,
                     ", which this version of Tessera does not know; use the version that wrote it");
    for (const std::string& value : values) set(config, name, value);
  }
  return config;
}

std::string unseen_differences(const Config& config, const std::filesystem::path& weights) {
  constexpr std::string_view kUnseen[] = {"model.heads",          "model.kv_heads",       "model.head_width",
                                          "model.norm_eps",       "model.window",         "model.activation",
                                          "model.rope_base",      "model.rope_factor",    "model.rope_context",
                                          "model.rope_low_turns", "model.rope_high_turns"};
  if (is_own(config.model)) return {};
  CheckpointInfo from;
  from.path = weights;
  if (!is_hugging_face(weights)) {
    from = open_checkpoint(weights);
    if (!checkpoint_texts(from).contains("configuration")) return {};
  }
  const auto with_head_width = [](Config of) {
    if (of.model.head_width == 0 && of.model.heads > 0) of.model.head_width = of.model.width / of.model.heads;
    return of;
  };
  const Config here = with_head_width(config);
  const Config there = with_head_width(saved_config(from));
  std::string text;
  for (const Option& option : options()) {
    if (std::ranges::find(kUnseen, option.name) == std::end(kUnseen)) continue;
    const std::string mine = value_texts(option, here).at(0);
    const std::string other = value_texts(option, there).at(0);
    if (mine == other || mine == "auto" || other == "auto") continue;  // auto: that of the family
    text += (text.empty() ? "the weights are of a model with other options: " : ", ") + option.name + " is " + mine +
            " here and " + other + " there";
  }
  return text.empty() ? text : text + "; use theirs, unless the change is intended";
}

device::Device saved_model_device(const CheckpointInfo& from, const SavedModelOptions& options, ModelUse use) {
  Config config = saved_config(from);
  config.run.device = options.device.empty() ? "auto" : options.device;
  if (!options.dtype.empty()) set(config, "train.dtype", options.dtype);
  return detail::choose_device(config, use).device;
}

SavedModel open_saved_model(const CheckpointInfo& from, const SavedModelOptions& options) {
  const int world_size = current_place().world_size;
  SavedModel saved{.config = saved_config(from), .plan = {}, .model = {}};
  Config& config = saved.config;
  config.mesh = options.mesh;
  config.mesh.prefetch = false;
  config.mesh.sequence_parallel = config.mesh.tp > 0 && config.model.sequence % config.mesh.tp == 0;
  if (!options.dtype.empty()) set(config, "train.dtype", options.dtype);
  config.train.checkpointing = "none";
  config.train.graph = false;
  // A batch matters only for evaluation, which keeps that of the run where it fits the mesh.
  const std::int64_t data_ranks = world_size / (config.mesh.fsdp * config.mesh.tp) * config.mesh.fsdp;
  if (data_ranks > 0 && config.train.batch / config.train.accumulate % data_ranks != 0) {
    config.train.batch = data_ranks;
    config.train.accumulate = 1;
  }
  config.run.dump_step = 0;
  config.run.profile_steps.clear();
  config = resolved(config, world_size);
  saved.plan = ParallelPlan::create(config, world_size);
  ops::manual_seed(config.train.seed);
  {
    const nn::ShardingScope created(saved.plan.mesh(), saved.plan.table());
    saved.model = nn::model_family(config.model.family).create(config.model);
  }
  const nn::Module& model = saved.model->module();
  CheckpointState state;
  for (const auto& [name, leaf] : named_leaves(model)) state.tensors.emplace_back("parameters/" + name, leaf.detach());
  load_weights(from.path, state);
  model.set_requires_grad("*", false);
  const DType dtype = config.train.dtype == "bf16" ? DType::kBF16 : DType::kF32;
  if (dtype != DType::kF32) model.to(dtype);  // once, instead of before each use
  nn::distribute(model, saved.plan.mesh(), saved.plan.table(), {.compute_dtype = dtype, .prefetches = false});
  model.eval();
  return saved;
}

std::filesystem::path run_of(const CheckpointInfo& from) {
  std::filesystem::path at = std::filesystem::absolute(from.path).lexically_normal();
  if (!at.has_filename()) at = at.parent_path();
  for (int i = 0; i < 2; ++i) {
    at = at.parent_path();
    if (std::filesystem::exists(at / "config.toml")) return at;
  }
  return {};
}

std::string saved_tokenizer(const CheckpointInfo& from, const Config& config, const std::string& given) {
  if (!given.empty()) return given;
  const std::filesystem::path run = run_of(from);
  for (const std::filesystem::path& directory : {from.path, run}) {
    if (!directory.empty() && std::filesystem::exists(directory / "tokenizer.json"))
      return (directory / "tokenizer.json").string();
  }
  TESSERA_CHECK_AS(IoError, !is_hugging_face(from.path), "'", (from.path / "tokenizer.json").string(),
                   "': is missing; pass --tokenizer");
  const std::string& trained = config.data.tokenizer;
  if (trained == "bytes") return trained;
  TESSERA_CHECK_AS(IoError, std::filesystem::exists(trained), "'", trained,
                   "': the tokenizer of the run is missing; pass --tokenizer");
  return trained;
}

Tokenizer open_tokenizer(const std::string& path) {
  return path == "bytes" ? Tokenizer::bytes() : Tokenizer::read(path);
}

}  // namespace tessera::train
