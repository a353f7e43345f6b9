// The Hugging Face form of the Llama family: Llama, Mistral, Qwen2 and Qwen3. They differ in biases, norms and windows,
// which nn::ModelConfig states.
#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/models/detail/config_json.h"
#include "tessera/nn/hugging_face.h"

namespace tessera::models {
namespace {

using detail::ConfigJson;
using Json = nlohmann::ordered_json;

// The window of a Mistral or a Qwen. Files of Qwen name a size that is used only with use_sliding_window, from layer
// max_window_layers on. Newer files list the kind of each layer.
std::int64_t window_of(ConfigJson& json, const std::string& type, std::int64_t layers) {
  if (type == "llama" || !json.has("sliding_window")) return 0;
  if (type != "mistral" && !json.flag("use_sliding_window", false)) return 0;
  const std::int64_t window = json.size("sliding_window");
  const std::vector<std::string> kinds = json.texts("layer_types");
  std::int64_t windowed = layers;
  if (!kinds.empty()) {
    windowed = std::ranges::count(kinds, "sliding_attention");
    if (windowed + std::ranges::count(kinds, "full_attention") != layers)
      json.fault("layer_types must list full_attention or sliding_attention for each of " + std::to_string(layers) +
                 " layers");
  } else if (type != "mistral" && json.has("max_window_layers")) {
    windowed = layers - std::min(layers, json.size("max_window_layers", layers, 0));
  }
  if (windowed != 0 && windowed != layers)
    json.fault("layer_types, max_window_layers: all layers must have the window, or none, got " +
               std::to_string(windowed) + " of " + std::to_string(layers));
  return windowed == 0 ? 0 : window;
}

std::string architecture_of(const std::string& type) {
  return type == "mistral" ? "Mistral" : type == "qwen2" ? "Qwen2" : type == "qwen3" ? "Qwen3" : "Llama";
}

nn::ModelConfig read_config(const std::string& text) {
  ConfigJson json(text);
  const std::string type = json.text("model_type", "llama");
  nn::ModelConfig config;
  const std::string architecture = architecture_of(type);
  json.require_architecture({architecture + "ForCausalLM", architecture + "Model"});
  config.width = json.size("hidden_size");
  config.layers = json.size("num_hidden_layers", {}, 1, detail::kMaxLayers);
  config.heads = json.size("num_attention_heads");
  config.kv_heads = json.size("num_key_value_heads", type == "mistral" ? 8 : type == "llama" ? config.heads : 32);
  config.head_width =
      json.size("head_dim", type == "qwen3" ? 128 : std::max<std::int64_t>(1, config.width / config.heads));
  config.hidden = json.size("intermediate_size");
  config.vocabulary = json.size("vocab_size");
  config.sequence = json.size("max_position_embeddings");
  config.tied = json.flag("tie_word_embeddings", false);
  config.norm_eps = json.number("rms_norm_eps", 1e-6);
  config.qkv_bias = type == "qwen2";
  config.qk_norm = type == "qwen3";
  config.window = window_of(json, type, config.layers);
  json.read_rope(config);
  if (json.text("hidden_act", "silu") != "silu")
    json.fault("hidden_act must be silu, got " + json.text("hidden_act", ""));
  if (!json.has("head_dim") && type != "qwen3" && config.width % config.heads != 0)
    json.fault("hidden_size must be a multiple of num_attention_heads, or head_dim must be given");
  if (config.heads % config.kv_heads != 0) json.fault("num_attention_heads must be a multiple of num_key_value_heads");
  if (config.head_width % 2 != 0) json.fault("head_dim must be even, got " + std::to_string(config.head_width));
  json.require_absent({"mlp_bias", "quantization_config"});
  if (type != "qwen2") json.require_absent({"attention_bias"});
  json.finish();
  return config;
}

std::string type_of(const nn::ModelConfig& config, const Json& before) {
  std::string type = config.window > 0 ? "mistral" : "llama";
  if (config.qkv_bias) type = "qwen2";
  if (config.qk_norm) type = "qwen3";
  TESSERA_CHECK(!config.qkv_bias || !config.qk_norm,
                "model.qkv_bias and model.qk_norm: no architecture of transformers has both");
  // A Mistral may have no window.
  const bool is_mistral = before.value("model_type", Json()) == "mistral" && type == "llama";
  return is_mistral ? "mistral" : type;
}

std::string write_config(const nn::ModelConfig& config, const std::string& before) {
  Json json = detail::fields_before(before);
  const std::string type = type_of(config, json);
  if (before.empty()) json = {{"bos_token_id", nullptr}, {"eos_token_id", nullptr}};
  json["architectures"] = {architecture_of(type) + "ForCausalLM"};
  json["model_type"] = type;
  json["hidden_size"] = config.width;
  json["num_hidden_layers"] = config.layers;
  json["num_attention_heads"] = config.heads;
  json["num_key_value_heads"] = config.kv_heads;
  json["head_dim"] = config.head_width > 0 ? config.head_width : config.width / config.heads;
  json["intermediate_size"] = config.hidden;
  json["vocab_size"] = config.vocabulary;
  json["max_position_embeddings"] = config.sequence;
  json["tie_word_embeddings"] = config.tied;
  json["rms_norm_eps"] = config.norm_eps;
  json["hidden_act"] = "silu";
  detail::write_rope(config, json);
  if (type == "llama") return json.dump(2) + "\n";
  if (type != "mistral") {
    json["use_sliding_window"] = config.window > 0;
    json["max_window_layers"] = config.window > 0 ? 0 : config.layers;
  }
  json["sliding_window"] = config.window > 0 ? Json(config.window) : Json();
  json["layer_types"] = std::vector<std::string>(static_cast<std::size_t>(config.layers),
                                                 config.window > 0 ? "sliding_attention" : "full_attention");
  if (type == "mistral") json.erase("layer_types");
  return json.dump(2) + "\n";
}

std::vector<nn::HuggingFaceTensor> tensors_of(const nn::ModelConfig& config) {
  const std::int64_t head = config.head_width > 0 ? config.head_width : config.width / config.heads;
  const std::int64_t queries = config.heads * head;
  const std::int64_t keys = config.kv_heads * head;
  std::vector<nn::HuggingFaceTensor> all;
  const auto add = [&](const std::string& path, const Shape& shape) {
    all.push_back({.name = (path == "lm_head.weight" ? "" : "model.") + path, .shape = shape, .paths = {path}});
  };
  add("embed_tokens.weight", {config.vocabulary, config.width});
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::string block = "layers." + std::to_string(i) + ".";
    add(block + "input_layernorm.weight", {config.width});
    add(block + "self_attn.q_proj.weight", {queries, config.width});
    if (config.qkv_bias) add(block + "self_attn.q_proj.bias", {queries});
    add(block + "self_attn.k_proj.weight", {keys, config.width});
    if (config.qkv_bias) add(block + "self_attn.k_proj.bias", {keys});
    add(block + "self_attn.v_proj.weight", {keys, config.width});
    if (config.qkv_bias) add(block + "self_attn.v_proj.bias", {keys});
    add(block + "self_attn.o_proj.weight", {config.width, queries});
    if (config.qk_norm) add(block + "self_attn.q_norm.weight", {head});
    if (config.qk_norm) add(block + "self_attn.k_norm.weight", {head});
    add(block + "post_attention_layernorm.weight", {config.width});
    add(block + "mlp.gate_proj.weight", {config.hidden, config.width});
    add(block + "mlp.up_proj.weight", {config.hidden, config.width});
    add(block + "mlp.down_proj.weight", {config.width, config.hidden});
  }
  add("norm.weight", {config.width});
  if (!config.tied) add("lm_head.weight", {config.vocabulary, config.width});
  return all;
}

bool is_ignored(const nn::ModelConfig& config, std::string_view name) {
  return name.ends_with(".rotary_emb.inv_freq") || (config.tied && name == "lm_head.weight");
}

[[maybe_unused]] const bool kHasLlamaFormat =
    nn::register_hugging_face_format({.family = "llama",
                                      .model_types = {"llama", "mistral", "qwen2", "qwen3"},
                                      .prefix = "model.",
                                      .read_config = read_config,
                                      .write_config = write_config,
                                      .tensors = tensors_of,
                                      .is_ignored = is_ignored});

}  // namespace
}  // namespace tessera::models
