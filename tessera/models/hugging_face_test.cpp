// The Hugging Face form of each family: configurations of versions 4 and 5, and tables of tensors that match the
// models.
#include "tessera/nn/hugging_face.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>
#include <nlohmann/json.hpp>

#include "tessera/base/testing/expect_error.h"
#include "tessera/nn/language_model.h"

namespace tessera::models {
namespace {

using Json = nlohmann::ordered_json;

Json small_llama(const std::string& type) {
  return {{"model_type", type},       {"hidden_size", 16},
          {"num_hidden_layers", 2},   {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"intermediate_size", 24},
          {"vocab_size", 20},         {"max_position_embeddings", 64},
          {"rms_norm_eps", 1e-6},     {"head_dim", 6}};
}

Json small_gpt2() {
  return {{"model_type", "gpt2"}, {"n_embd", 16},     {"n_layer", 2},
          {"n_head", 4},          {"vocab_size", 20}, {"n_positions", 8}};
}

nn::ModelConfig read(const Json& json) {
  return nn::hugging_face_format(json["model_type"].get<std::string>()).read_config(json.dump());
}

// The table holds each parameter of the model once, with its shape.
void expect_table_of_model(const Json& json) {
  const nn::ModelConfig config = read(json);
  const nn::HuggingFaceFormat& format = nn::hugging_face_format_of_family(config.family);
  std::map<std::string, std::string> table;
  for (const nn::HuggingFaceTensor& each : format.tensors(config)) {
    for (const std::string& path : each.paths)
      EXPECT_TRUE(table.emplace(path, to_string(each.parameter_shape())).second) << path;
  }
  std::map<std::string, std::string> parameters;
  const auto model = nn::model_family(config.family).create(config);
  for (const nn::NamedParameter& each : model->module().named_parameters())
    parameters.emplace(each.path, to_string(each.parameter.shape()));
  EXPECT_EQ(table, parameters) << json;
}

TEST(HuggingFace, TablesHoldTheParametersOfTheModels) {
  EXPECT_EQ(nn::hugging_face_model_types(), (std::vector<std::string>{"gpt2", "llama", "mistral", "qwen2", "qwen3"}));
  for (const char* type : {"llama", "mistral", "qwen2", "qwen3"}) {
    for (const bool is_tied : {false, true}) {
      Json json = small_llama(type);
      json["tie_word_embeddings"] = is_tied;
      expect_table_of_model(json);
    }
  }
  expect_table_of_model(small_gpt2());
}

// Returns the number of elements of all tensors of a preset.
std::int64_t elements_of(const std::string& family, std::string_view preset, bool is_tied) {
  std::int64_t count = 0;
  for (const nn::Preset& each : nn::model_family(family).presets) {
    if (each.name != preset) continue;
    const nn::ModelConfig config{.family = family,
                                 .width = each.width,
                                 .layers = each.layers,
                                 .heads = each.heads,
                                 .kv_heads = each.kv_heads,
                                 .hidden = each.hidden,
                                 .vocabulary = each.vocabulary,
                                 .sequence = each.sequence,
                                 .tied = is_tied};
    for (const nn::HuggingFaceTensor& tensor : nn::hugging_face_format_of_family(family).tensors(config))
      count += tensor.shape.numel();
  }
  return count;
}

TEST(HuggingFace, PresetsHaveTheSizesOfPublishedModels) {
  EXPECT_EQ(elements_of("gpt2", "124m", true), 124'439'808);
  EXPECT_EQ(elements_of("gpt2", "350m", true), 354'823'168);
  EXPECT_EQ(elements_of("gpt2", "774m", true), 774'030'080);
  EXPECT_EQ(elements_of("gpt2", "1.5b", true), 1'557'611'200);
  EXPECT_EQ(elements_of("llama", "1b", true), 1'235'814'400);
  EXPECT_EQ(elements_of("llama", "8b", false), 8'030'261'248);
  EXPECT_EQ(elements_of("llama", "70b", false), 70'553'706'496);
  EXPECT_EQ(elements_of("llama", "405b", false), 405'853'388'800);
}

TEST(HuggingFace, ReadsWhatVersions4And5Write) {
  Json old = small_llama("llama");
  old["rope_theta"] = 500000.0;
  old["rope_scaling"] = {{"rope_type", "llama3"},
                         {"factor", 8.0},
                         {"low_freq_factor", 1.0},
                         {"high_freq_factor", 4.0},
                         {"original_max_position_embeddings", 32}};
  Json now = small_llama("llama");
  now["rope_parameters"] = old["rope_scaling"];
  now["rope_parameters"]["rope_theta"] = 500000.0;
  for (const Json& each : {old, now}) {
    const nn::ModelConfig config = read(each);
    EXPECT_EQ(config.rope_base, 500000) << each;
    EXPECT_EQ(config.rope_factor, 8);
    EXPECT_EQ(config.rope_context, 32);
    EXPECT_EQ(config.rope_high_turns, 4);
  }
  Json linear = small_llama("llama");
  linear["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  EXPECT_EQ(read(linear).rope_factor, 2);
  EXPECT_EQ(read(linear).rope_context, 0);
  Json plain = small_llama("llama");
  plain.erase("head_dim");
  plain["num_key_value_heads"] = nullptr;
  EXPECT_EQ(read(plain).head_width, 4);
  EXPECT_EQ(read(plain).kv_heads, 4);
  Json qwen = small_llama("qwen3");
  qwen.erase("head_dim");
  EXPECT_EQ(read(qwen).head_width, 128) << "the default of transformers";
}

TEST(HuggingFace, ReadsWindows) {
  Json mistral = small_llama("mistral");
  mistral["sliding_window"] = 5;
  EXPECT_EQ(read(mistral).window, 5);
  mistral["sliding_window"] = nullptr;
  EXPECT_EQ(read(mistral).window, 0);
  Json qwen = small_llama("qwen2");
  qwen["sliding_window"] = 5;
  qwen["max_window_layers"] = 0;
  EXPECT_EQ(read(qwen).window, 0) << "use_sliding_window is false by default";
  qwen["use_sliding_window"] = true;
  EXPECT_EQ(read(qwen).window, 5);
  qwen["max_window_layers"] = 2;
  EXPECT_EQ(read(qwen).window, 0);
  qwen["max_window_layers"] = 1;
  expect_error<InvalidArgument>([&] { (void)read(qwen); }, {"all layers must have the window, or none, got 1 of 2"});
  qwen["layer_types"] = {"sliding_attention", "sliding_attention"};
  EXPECT_EQ(read(qwen).window, 5);
}

TEST(HuggingFace, WritesWhatItReads) {
  std::vector<Json> all{small_gpt2()};
  for (const char* type : {"llama", "mistral", "qwen2", "qwen3"}) all.push_back(small_llama(type));
  all[0]["activation_function"] = "gelu";
  all[1]["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  all[2]["sliding_window"] = 5;
  all[3]["eos_token_id"] = 7;
  all[3]["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 20000.0}};
  all[4]["tie_word_embeddings"] = true;
  for (const Json& json : all) {
    const nn::ModelConfig config = read(json);
    const nn::HuggingFaceFormat& format = nn::hugging_face_format_of_family(config.family);
    for (const std::string& before : {json.dump(), std::string()}) {
      const Json written = Json::parse(format.write_config(config, before));
      EXPECT_EQ(written["model_type"], json["model_type"]) << written;
      EXPECT_FALSE(written.contains("rope_parameters")) << "version 4 does not know it";
      if (json.contains("eos_token_id")) {
        EXPECT_EQ(written["eos_token_id"], before.empty() ? Json() : Json(7));
      }
      const nn::ModelConfig again = format.read_config(written.dump());
      EXPECT_EQ(again.head_width, config.head_width);
      EXPECT_EQ(again.window, config.window);
      EXPECT_EQ(again.tied, config.tied);
      EXPECT_EQ(again.rope_base, config.rope_base);
      EXPECT_EQ(again.rope_factor, config.rope_factor);
      EXPECT_EQ(again.activation, config.activation);
      EXPECT_EQ(again.hidden, config.hidden);
    }
  }
  nn::ModelConfig both;
  both.qk_norm = both.qkv_bias = true;
  expect_error<InvalidArgument>([&] { (void)nn::hugging_face_format("llama").write_config(both, ""); },
                                {"no architecture"});
}

TEST(HuggingFace, ListsAllFieldsThatDoNotFit) {
  Json json = small_llama("llama");
  json.erase("vocab_size");
  json["hidden_size"] = "16";
  json["num_hidden_layers"] = 1 << 20;
  json["intermediate_size"] = -3;
  json["rms_norm_eps"] = 0;
  json["tie_word_embeddings"] = "yes";
  json["hidden_act"] = "relu";
  json["mlp_bias"] = true;
  json["architectures"] = {"LlamaForSequenceClassification"};
  json["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 0}};
  expect_error<InvalidArgument>(
      [&] { (void)read(json); },
      {"vocab_size is missing", "hidden_size must be an integer from 1 to 2147483648, got \"16\"",
       "num_hidden_layers must be an integer from 1 to 4096", "intermediate_size must be", "rms_norm_eps must be",
       "tie_word_embeddings must be true or false", "hidden_act must be silu", "mlp_bias must be absent",
       "architectures must be LlamaForCausalLM", "rope_type must be default, linear or llama3, got 'yarn'"});
  Json gpt2 = small_gpt2();
  gpt2["n_head"] = 3;
  gpt2["tie_word_embeddings"] = false;
  gpt2["scale_attn_weights"] = false;
  gpt2["activation_function"] = "tanh";
  expect_error<InvalidArgument>(
      [&] { (void)read(gpt2); },
      {"n_embd must be a multiple of n_head", "tie_word_embeddings", "scale_attn_weights", "activation_function"});
}

// Values of any type in any field are errors or are read; nothing else is thrown.
TEST(HuggingFace, AnyJsonValueIsReadOrRejected) {
  const std::vector<Json> values{nullptr,
                                 true,
                                 -1,
                                 0,
                                 1e300,
                                 1e-300,
                                 "x",
                                 "",
                                 18446744073709551615ULL,
                                 Json::array(),
                                 Json::object(),
                                 {{"factor", "x"}},
                                 Json::array({1, "x"})};
  for (const char* type : {"llama", "mistral", "qwen2", "qwen3", "gpt2"}) {
    const Json base = std::string(type) == "gpt2" ? small_gpt2() : small_llama(type);
    Json full = base;
    for (const char* name : {"rope_scaling", "rope_parameters", "rope_theta", "sliding_window", "layer_types",
                             "use_sliding_window", "max_window_layers", "architectures", "n_inner", "n_ctx"})
      full[name] = nullptr;
    for (const auto& [name, unused] : full.items()) {
      for (const Json& value : values) {
        Json json = base;
        json["use_sliding_window"] = true;
        json[name] = value;
        json["model_type"] = type;
        try {
          (void)read(json);
        } catch (const InvalidArgument& error) {
          EXPECT_NE(error.message().find("config.json"), std::string::npos) << error.message();
        }
      }
    }
  }
  const std::string deep = "{\"a\": " + std::string(100, '[') + std::string(100, ']') + "}";
  for (const std::string& text : std::vector<std::string>{"", "[]", "{", "7", deep})
    expect_error<InvalidArgument>([&] { (void)nn::hugging_face_format("llama").read_config(text); }, {"config.json"});
  expect_error<InvalidArgument>([] { (void)nn::hugging_face_format("lama"); }, {"did you mean 'llama'?", "qwen3"});
}

}  // namespace
}  // namespace tessera::models
