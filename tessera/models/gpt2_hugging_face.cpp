// The Hugging Face form of GPT-2. Its matrices are stored [in, out], and query, key and value are one of them.
#include <array>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/models/detail/config_json.h"
#include "tessera/nn/hugging_face.h"

namespace tessera::models {
namespace {

using detail::ConfigJson;
using Json = nlohmann::ordered_json;

// Names of transformers and of this library. The first name of an activation is written.
constexpr std::array<std::pair<const char*, const char*>, 6> kActivations{{{"gelu_new", "gelu_tanh"},
                                                                           {"gelu_pytorch_tanh", "gelu_tanh"},
                                                                           {"gelu", "gelu"},
                                                                           {"relu", "relu"},
                                                                           {"silu", "silu"},
                                                                           {"swish", "silu"}}};

std::string activation_of(ConfigJson& json) {
  const std::string given = json.text("activation_function", "gelu_new");
  for (const auto& [theirs, ours] : kActivations) {
    if (given == theirs) return ours;
  }
  json.fault("activation_function must be gelu_new, gelu_pytorch_tanh, gelu, relu or silu, got '" +
             given.substr(0, 64) + "'");
  return "auto";
}

nn::ModelConfig read_config(const std::string& text) {
  ConfigJson json(text);
  nn::ModelConfig config;
  config.family = "gpt2";
  json.require_architecture({"GPT2LMHeadModel", "GPT2Model"});
  config.width = json.size("n_embd");
  config.layers = json.size("n_layer", {}, 1, detail::kMaxLayers);
  config.heads = json.size("n_head");
  config.kv_heads = config.heads;
  config.hidden = json.size("n_inner", 4 * config.width);
  config.vocabulary = json.size("vocab_size");
  config.sequence = json.size("n_positions", json.has("n_ctx") ? json.size("n_ctx") : 1024);
  config.norm_eps = json.number("layer_norm_epsilon", 1e-5);
  config.activation = activation_of(json);
  config.tied = true;
  if (!json.flag("tie_word_embeddings", true)) json.fault("tie_word_embeddings must be true in gpt2, got false");
  if (!json.flag("scale_attn_weights", true)) json.fault("scale_attn_weights must be true, got false");
  if (config.width % config.heads != 0) json.fault("n_embd must be a multiple of n_head");
  json.require_absent({"scale_attn_by_inverse_layer_idx", "add_cross_attention", "quantization_config"});
  json.finish();
  return config;
}

std::string write_config(const nn::ModelConfig& config, const std::string& before) {
  Json json = detail::fields_before(before);
  if (before.empty()) json = {{"bos_token_id", nullptr}, {"eos_token_id", nullptr}};
  const std::string activation = config.activation == "auto" ? "gelu_tanh" : config.activation;
  json["architectures"] = {"GPT2LMHeadModel"};
  json["model_type"] = "gpt2";
  json["n_embd"] = config.width;
  json["n_layer"] = config.layers;
  json["n_head"] = config.heads;
  json["n_inner"] = config.hidden;
  json["vocab_size"] = config.vocabulary;
  json["n_positions"] = config.sequence;
  json["layer_norm_epsilon"] = config.norm_eps;
  json["tie_word_embeddings"] = true;
  for (const auto& [theirs, ours] : kActivations) {
    if (activation != ours) continue;
    json["activation_function"] = theirs;
    break;
  }
  return json.dump(2) + "\n";
}

std::vector<nn::HuggingFaceTensor> tensors_of(const nn::ModelConfig& config) {
  const std::int64_t width = config.width;
  std::vector<nn::HuggingFaceTensor> all;
  const auto add = [&](const std::string& name, const Shape& shape, std::vector<std::string> paths) {
    const bool is_matrix = shape.ndim() == 2 && name.starts_with("h.");
    all.push_back(
        {.name = "transformer." + name, .shape = shape, .paths = std::move(paths), .is_transposed = is_matrix});
  };
  // A product and its bias.
  const auto linear = [&](const std::string& name, std::int64_t in, std::int64_t out,
                          const std::vector<std::string>& paths) {
    for (const char* part : {".weight", ".bias"}) {
      std::vector<std::string> full;
      for (const std::string& path : paths) full.push_back(path + part);
      const bool is_weight = part[1] == 'w';
      add(name + part, is_weight ? Shape{in, out} : Shape{out}, std::move(full));
    }
  };
  const auto norm = [&](const std::string& name) {
    for (const char* part : {".weight", ".bias"}) add(name + part, {width}, {name + part});
  };
  add("wte.weight", {config.vocabulary, width}, {"wte.weight"});
  add("wpe.weight", {config.sequence, width}, {"wpe.weight"});
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::string block = "h." + std::to_string(i) + ".";
    const std::string attention = block + "attn.";
    norm(block + "ln_1");
    linear(attention + "c_attn", width, 3 * width, {attention + "q_proj", attention + "k_proj", attention + "v_proj"});
    linear(attention + "c_proj", width, width, {attention + "o_proj"});
    norm(block + "ln_2");
    linear(block + "mlp.c_fc", width, config.hidden, {block + "mlp.up_proj"});
    linear(block + "mlp.c_proj", config.hidden, width, {block + "mlp.down_proj"});
  }
  norm("ln_f");
  return all;
}

// Masks of old files, and the head, which is the embedding.
bool is_ignored(const nn::ModelConfig& /*config*/, std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name.ends_with("lm_head.weight");
}

[[maybe_unused]] const bool kHasGpt2Format = nn::register_hugging_face_format({.family = "gpt2",
                                                                               .model_types = {"gpt2"},
                                                                               .prefix = "transformer.",
                                                                               .read_config = read_config,
                                                                               .write_config = write_config,
                                                                               .tensors = tensors_of,
                                                                               .is_ignored = is_ignored});

}  // namespace
}  // namespace tessera::models
