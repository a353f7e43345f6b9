// Import and export of models of transformers: values in their places, lists of all that does not fit, and nothing
// written after an error.
#include "tessera/train/checkpoint/hugging_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/nn/hugging_face.h"
#include "tessera/nn/language_model.h"
#include "tessera/ops/create/generator.h"
#include "tessera/tensor/safetensors.h"
#include "tessera/train/checkpoint/diff.h"
#include "tessera/train/checkpoint/reshard.h"
#include "tessera/train/checkpoint/testing/checkpoints.h"
#include "tessera/train/checkpoint/verify.h"
#include "tessera/train/saved_model.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using testing::bytes_of;
using testing::CheckpointDirectory;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::names_in;
using ::testing::Not;

const Json kLlama = {{"model_type", "llama"},    {"architectures", {"LlamaForCausalLM"}},
                     {"hidden_size", 8},         {"num_hidden_layers", 2},
                     {"num_attention_heads", 2}, {"intermediate_size", 12},
                     {"vocab_size", 10},         {"max_position_embeddings", 16},
                     {"eos_token_id", 3}};
const Json kGpt2 = {{"model_type", "gpt2"}, {"n_embd", 8},      {"n_layer", 2},
                    {"n_head", 2},          {"vocab_size", 10}, {"n_positions", 16}};

// Returns a configuration of llama's architecture, changed.
Json with(const Json& fields) {
  Json out = kLlama;
  out.update(fields);
  return out;
}

class HuggingFaceFiles : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(model()); }
  [[nodiscard]] fs::path base() const { return directory_.path().parent_path(); }
  [[nodiscard]] fs::path model() const { return base() / "model"; }
  [[nodiscard]] fs::path out() const { return base() / "out"; }
  [[nodiscard]] fs::path checkpoint() const { return out() / "step-000000000"; }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(model() / name, std::ios::trunc | std::ios::binary) << text;
  }
  static std::vector<nn::HuggingFaceTensor> table_of(const Json& config) {
    const nn::HuggingFaceFormat& format = nn::hugging_face_format(config["model_type"].get<std::string>());
    return format.tensors(format.read_config(config.dump()));
  }
  // Returns a tensor whose elements are number * 1000 + position.
  static Tensor known(std::size_t number, const Shape& shape, DType dtype = DType::kF32) {
    const Tensor out = Tensor::allocate(shape, dtype, device::Device::get("host"));
    for (std::int64_t i = 0; i < shape.numel(); ++i) {
      const auto value = static_cast<float>(static_cast<std::int64_t>(number) * 1000 + i);
      if (dtype == DType::kF32) out.data_as<float>()[i] = value;
      if (dtype == DType::kBF16) out.data_as<bf16>()[i] = bf16(value);
      if (dtype == DType::kI64) out.data_as<std::int64_t>()[i] = i;
    }
    return out;
  }
  // Writes a model with known elements, in this number of files.
  void write_model(const Json& config, std::size_t files = 1, DType dtype = DType::kF32,
                   const std::function<void(std::vector<tensor::NamedTensor>&)>& change = {}) const {
    write("config.json", config.dump());
    std::vector<tensor::NamedTensor> tensors;
    for (const nn::HuggingFaceTensor& each : table_of(config))
      tensors.push_back({each.name, known(tensors.size(), each.shape, dtype)});
    if (change) change(tensors);
    if (files == 1) return tensor::write_safetensors((model() / "model.safetensors").string(), tensors);
    Json map = Json::object();
    for (std::size_t f = 0; f < files; ++f) {
      const std::string name = "part-" + std::to_string(f) + ".safetensors";
      std::vector<tensor::NamedTensor> some;
      for (std::size_t i = f; i < tensors.size(); i += files) {
        some.push_back(tensors[i]);
        map[tensors[i].name] = name;
      }
      tensor::write_safetensors((model() / name).string(), some);
    }
    write("model.safetensors.index.json", Json({{"weight_map", map}}).dump());
  }
  // Returns the elements of a parameter of the imported checkpoint, as f32.
  static std::vector<float> values_of(const fs::path& checkpoint, const std::string& name, const Shape& shape) {
    CheckpointState state;
    state.tensors.emplace_back("parameters/" + name, Tensor::allocate(shape, DType::kF32, device::Device::get("host")));
    (void)load_checkpoint(open_checkpoint(checkpoint), state);
    const Tensor& read = state.tensors.front().second;
    return {read.data_as<float>(), read.data_as<float>() + read.numel()};
  }
  // Expects an import to fail with these words and to leave nothing.
  void expect_rejected(std::initializer_list<std::string_view> words) const {
    try {
      (void)import_hugging_face(model(), out());
      ADD_FAILURE() << "imported; wanted an error with " << *words.begin();
    } catch (const Error& error) {
      for (const std::string_view word : words) EXPECT_THAT(error.message(), HasSubstr(std::string(word)));
    }
    EXPECT_FALSE(fs::exists(checkpoint()));
    EXPECT_FALSE(fs::exists(out() / "step-000000000.partial"));
  }

  CheckpointDirectory directory_;
};

TEST_F(HuggingFaceFiles, ImportsAllTensorsInTheirPlaces) {
  write_model(kLlama);
  write("tokenizer.json", "{}");
  write("unrelated.txt", "x");
  const CheckpointInfo made = import_hugging_face(model(), out());
  EXPECT_EQ(made.path, checkpoint());
  EXPECT_EQ(made.step, 0);
  EXPECT_TRUE(verify_checkpoint(checkpoint()).faults.empty());
  EXPECT_THAT(names_in(checkpoint()),
              ElementsAre("config.json", "index.json", "rank-000000.safetensors", "tokenizer.json"));
  EXPECT_EQ(bytes_of(checkpoint() / "config.json"), kLlama.dump());
  const std::vector<nn::HuggingFaceTensor> table = table_of(kLlama);
  EXPECT_EQ(made.tensors, static_cast<std::int64_t>(table.size()));
  for (std::size_t t = 0; t < table.size(); ++t) {
    const std::vector<float> values = values_of(checkpoint(), table[t].paths.front(), table[t].shape);
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(values[i], static_cast<float>(t * 1000 + i)) << table[t].name << " " << i;
  }
  const nn::ModelConfig config = checkpoint_model_config(made);
  EXPECT_EQ(config.family, "llama");
  EXPECT_EQ(config.width, 8);
  EXPECT_EQ(config.norm_eps, 1e-6);
}

// c_attn [8, 24] holds the transposed matrices of query, key and value.
TEST_F(HuggingFaceFiles, SplitsAndTransposesMatricesOfGpt2) {
  write_model(kGpt2, 1, DType::kF32, [](std::vector<tensor::NamedTensor>& tensors) {
    for (tensor::NamedTensor& each : tensors) each.name.erase(0, std::strlen("transformer."));  // as openai wrote them
    tensors.push_back({"h.0.attn.bias", known(99, {1, 1, 16, 16})});
    tensors.push_back({"lm_head.weight", known(99, {10, 8})});
  });
  (void)import_hugging_face(model(), out());
  std::size_t number = 0;
  for (const nn::HuggingFaceTensor& each : table_of(kGpt2)) {
    const Shape shape = each.parameter_shape();
    const auto count = static_cast<std::int64_t>(each.paths.size());
    for (std::int64_t s = 0; s < count; ++s) {
      const std::vector<float> values = values_of(checkpoint(), each.paths[static_cast<std::size_t>(s)], shape);
      const std::int64_t last = each.shape.dim(-1);
      for (std::int64_t i = 0; i < shape.numel(); ++i) {
        const std::int64_t row = each.is_transposed ? i % shape[1] : i / (last / count);
        const std::int64_t column = each.is_transposed ? i / shape[1] : i % (last / count);
        const std::int64_t at = row * last + s * (last / count) + column;
        ASSERT_EQ(values[static_cast<std::size_t>(i)],
                  static_cast<float>(static_cast<std::int64_t>(number) * 1000 + at))
            << each.name << " " << s << " " << i;
      }
    }
    ++number;
  }
}

TEST_F(HuggingFaceFiles, ExportsWhatItImported) {
  for (const Json& config : {kLlama, kGpt2}) {
    write_model(config, 3);
    write("generation_config.json", "{}");
    const CheckpointInfo made = import_hugging_face(model(), out());
    const HuggingFaceModel whole = export_hugging_face(made, base() / "whole");
    EXPECT_EQ(whole.files, 1);
    EXPECT_THAT(names_in(whole.path), ElementsAre("config.json", "generation_config.json", "model.safetensors"));
    const tensor::SafetensorsFile file((whole.path / "model.safetensors").string());
    EXPECT_EQ(file.metadata().at("format"), "pt");
    std::size_t number = 0;
    for (const nn::HuggingFaceTensor& each : table_of(config)) {
      const Tensor want = known(number++, each.shape);
      const Tensor got = file.map(each.name);
      ASSERT_EQ(got.shape(), each.shape);
      EXPECT_EQ(std::memcmp(got.data(), want.data(), want.nbytes()), 0) << each.name;
    }
    EXPECT_EQ(file.entries().size(), number);
    EXPECT_EQ(Json::parse(bytes_of(whole.path / "config.json"))["torch_dtype"], "float32");
    const HuggingFaceModel parts = export_hugging_face(made, base() / "parts", {.max_file_nbytes = 700});
    EXPECT_GT(parts.files, 2);
    const CheckpointInfo again = import_hugging_face(parts.path, base() / "again");
    EXPECT_TRUE(diff_checkpoints(made, again, [](const CheckpointDifference&) {}));
    expect_error<InvalidArgument>([&] { (void)export_hugging_face(made, base() / "parts"); }, {"already exists"});
    for (const char* each : {"model", "out", "whole", "parts", "again"}) fs::remove_all(base() / each);
    fs::create_directories(model());
  }
}

TEST_F(HuggingFaceFiles, KeepsOrConvertsDtypes) {
  write_model(kLlama, 1, DType::kBF16);
  (void)import_hugging_face(model(), out());
  CheckpointState state;
  state.tensors.emplace_back("parameters/norm.weight",
                             Tensor::allocate({8}, DType::kBF16, device::Device::get("host")));
  (void)load_checkpoint(open_checkpoint(checkpoint()), state);
  const std::size_t number = table_of(kLlama).size() - 2;
  EXPECT_EQ(static_cast<float>(state.tensors.front().second.data_as<bf16>()[7]),
            static_cast<float>(bf16(static_cast<float>(number * 1000 + 7))));
  const CheckpointInfo wide = import_hugging_face(model(), base() / "wide", DType::kF32);
  EXPECT_EQ(values_of(wide.path, "norm.weight", {8})[7],
            static_cast<float>(bf16(static_cast<float>(number * 1000 + 7))));
  const HuggingFaceModel narrow = export_hugging_face(wide, base() / "narrow", {.dtype = DType::kBF16});
  EXPECT_EQ(Json::parse(bytes_of(narrow.path / "config.json"))["torch_dtype"], "bfloat16");
  const CheckpointInfo back = import_hugging_face(narrow.path, base() / "back");
  EXPECT_TRUE(diff_checkpoints(open_checkpoint(checkpoint()), back, [](const CheckpointDifference&) {}));
  expect_error<InvalidArgument>([&] { (void)import_hugging_face(model(), base() / "x", DType::kI32); }, {"dtype"});
}

// Returns the elements of the shards of this rank, by parameter.
std::map<std::string, std::vector<float>> local_values(const nn::Module& module) {
  std::map<std::string, std::vector<float>> out;
  for (const nn::NamedParameter& each : module.named_parameters()) {
    const Tensor part = each.parameter.leaf().local();
    out[each.path].assign(part.data_as<float>(), part.data_as<float>() + part.numel());
  }
  return out;
}

// Straight into parameters, or by way of a checkpoint: on each mesh, each rank has equal shards.
TEST_F(HuggingFaceFiles, LoadsStraightIntoParametersOfAnyMesh) {
  const Json llama3 = with({{"tie_word_embeddings", true},
                            {"num_key_value_heads", 2},
                            {"rope_theta", 500000.0},
                            {"rope_scaling",
                             {{"rope_type", "llama3"},
                              {"factor", 8.0},
                              {"low_freq_factor", 1.0},
                              {"high_freq_factor", 4.0},
                              {"original_max_position_embeddings", 8}}}});
  const Json mistral = with({{"model_type", "mistral"},
                             {"architectures", {"MistralForCausalLM"}},
                             {"num_key_value_heads", 2},
                             {"sliding_window", 7},
                             {"head_dim", 6}});
  const Json qwen2 =
      with({{"model_type", "qwen2"}, {"architectures", {"Qwen2ForCausalLM"}}, {"num_key_value_heads", 2}});
  const Json qwen3 = with(
      {{"model_type", "qwen3"}, {"architectures", {"Qwen3ForCausalLM"}}, {"num_key_value_heads", 2}, {"head_dim", 6}});
  for (const Json& config : {kLlama, llama3, mistral, qwen2, qwen3, kGpt2}) {
    SCOPED_TRACE(config.dump());
    write_model(config, 3);
    (void)import_hugging_face(model(), out());
    for (const MeshConfig& mesh : {MeshConfig{.dp = 1}, MeshConfig{.dp = 1, .tp = 2}, MeshConfig{.dp = 1, .fsdp = 2},
                                   MeshConfig{.dp = 1, .fsdp = 2, .tp = 2}}) {
      simulate(mesh.fsdp * mesh.tp, [&] {
        CheckpointInfo files;
        files.path = model();
        const SavedModel direct = open_saved_model(files, {.mesh = mesh});
        const SavedModel by_checkpoint = open_saved_model(open_checkpoint(checkpoint()), {.mesh = mesh});
        const auto got = local_values(direct.model->module());
        EXPECT_EQ(got, local_values(by_checkpoint.model->module()));
        EXPECT_GT(got.size(), 10U);
      });
    }
    EXPECT_TRUE(is_hugging_face(model()));
    EXPECT_FALSE(is_hugging_face(checkpoint())) << "it has a config.json, too";
    for (const char* each : {"model", "out"}) fs::remove_all(base() / each);
    fs::create_directories(model());
  }
}

TEST_F(HuggingFaceFiles, LoadsWithConversionAsAnImportDoes) {
  for (const DType in_files : {DType::kF32, DType::kBF16}) {
    for (const DType wanted : {DType::kF32, DType::kBF16, DType::kF16}) {
      write_model(kGpt2, 1, in_files);
      fs::remove_all(out());
      (void)import_hugging_face(model(), out(), wanted);
      CheckpointState straight;
      CheckpointState imported;
      for (const nn::HuggingFaceTensor& each : table_of(kGpt2)) {
        for (const std::string& path : each.paths) {
          for (CheckpointState* state : {&straight, &imported})
            state->tensors.emplace_back("parameters/" + path,
                                        Tensor::allocate(each.parameter_shape(), wanted, device::Device::get("host")));
        }
      }
      const std::uint64_t version = straight.tensors[0].second.version();
      load_hugging_face(model(), straight);
      EXPECT_GT(straight.tensors[0].second.version(), version);
      load_weights(checkpoint(), imported);
      for (std::size_t i = 0; i < straight.tensors.size(); ++i) {
        const auto& [name, got] = straight.tensors[i];
        EXPECT_EQ(std::memcmp(got.data(), imported.tensors[i].second.data(), got.nbytes()), 0)
            << name << " from " << to_string(in_files) << " to " << to_string(wanted);
      }
    }
  }
}

TEST_F(HuggingFaceFiles, LoadListsAllThatDoesNotFitAndWritesNothing) {
  write_model(kLlama);
  const Tensor kept = known(7, {8});
  CheckpointState state;
  state.tensors.emplace_back("parameters/norm.weight", kept);
  state.tensors.emplace_back("parameters/norm.bias", known(1, {8}));
  state.tensors.emplace_back("parameters/lm_head.weight", known(1, {9, 8}));
  state.tensors.emplace_back("parameters/embed_tokens.weight", known(1, {10, 8}, DType::kI64));
  expect_error<InvalidArgument>(
      [&] { load_hugging_face(model(), state); },
      {"missing: parameters/norm.bias [8]", "shape of parameters/lm_head.weight: must be [9, 8], got [10, 8]",
       "dtype of parameters/embed_tokens.weight: must be f64, f32, f16 or bf16, got i64"});
  EXPECT_EQ(kept.data_as<float>()[1], 7001);
  write_model(kLlama, 1, DType::kF32, [](auto& tensors) { tensors[0].name = "other"; });
  expect_error<InvalidArgument>([&] { load_hugging_face(model(), state); },
                                {"missing: model.embed_tokens.weight", "unknown: other"});
}

TEST_F(HuggingFaceFiles, ReshardedCheckpointsKeepConfigurationAndTokenizer) {
  write_model(kLlama);
  write("tokenizer.json", "{}");
  const CheckpointInfo made = import_hugging_face(model(), out());
  const CheckpointInfo two = reshard_checkpoint(made, layout::Mesh::parse("fsdp=2"), base() / "two");
  EXPECT_TRUE(diff_checkpoints(made, two, [](const CheckpointDifference&) {}));
  EXPECT_TRUE(fs::exists(two.path / "tokenizer.json"));
  (void)export_hugging_face(two, base() / "exported");
  EXPECT_EQ(Json::parse(bytes_of(base() / "exported" / "config.json"))["eos_token_id"], 3);
  EXPECT_TRUE(fs::exists(base() / "exported" / "tokenizer.json"));
}

TEST_F(HuggingFaceFiles, ListsAllTensorsThatDoNotFit) {
  write_model(kLlama, 1, DType::kF32, [](std::vector<tensor::NamedTensor>& tensors) {
    tensors.erase(tensors.begin() + 1, tensors.begin() + 3);
    tensors[0].tensor = known(0, {10, 9});
    tensors[1].tensor = known(0, tensors[1].tensor.shape(), DType::kI64);
    tensors.push_back({"model.layers.2.mlp.up_proj.weight", known(0, {12, 8})});
    tensors.push_back({"score.weight", known(0, {3})});
  });
  expect_rejected({"missing: model.layers.0.input_layernorm.weight [8]", "missing: model.layers.0.self_attn.q_proj",
                   "shape of model.embed_tokens.weight: must be [10, 8], got [10, 9]",
                   "must be f64, f32, f16 or bf16, got i64", "unknown: model.layers.2.mlp.up_proj.weight [12, 8]",
                   "unknown: score.weight [3]"});
}

TEST_F(HuggingFaceFiles, ListsAllThatTheIndexAndTheFilesDoNotShare) {
  const auto index = [&] { return Json::parse(bytes_of(model() / "model.safetensors.index.json")); };
  write_model(kLlama, 3);
  const Json good = index();
  fs::remove(model() / "part-0.safetensors");
  fs::remove(model() / "part-2.safetensors");
  expect_rejected({"missing file: part-0.safetensors", "missing file: part-2.safetensors"});
  write_model(kLlama, 3);
  Json json = good;
  json["weight_map"].erase("model.norm.weight");
  json["weight_map"]["model.embed_tokens.weight"] = "part-1.safetensors";
  write("model.safetensors.index.json", json.dump());
  expect_rejected({"not in the index: model.norm.weight", "not in part-1.safetensors: model.embed_tokens.weight"});
  for (const char* name : {"../part-0.safetensors", "/etc/passwd", "part-0.bin", ""}) {
    json = good;
    json["weight_map"]["model.norm.weight"] = name;
    write("model.safetensors.index.json", json.dump());
    expect_rejected({"the file of model.norm.weight must be a name *.safetensors in this directory"});
  }
  for (const std::string text : {"", "[]", "{}", "{\"weight_map\": 3}", "{\"weight_map\": {\"x\": 3}}"}) {
    write("model.safetensors.index.json", text);
    expect_rejected({"model.safetensors.index.json"});
  }
  fs::remove(model() / "model.safetensors.index.json");
  fs::copy_file(model() / "part-0.safetensors", model() / "copy.safetensors");
  expect_rejected({"twice: model.embed_tokens.weight"});
}

TEST_F(HuggingFaceFiles, FollowsLinksToFilesAndRejectsOtherKinds) {
  write_model(kLlama);
  fs::rename(model() / "model.safetensors", base() / "blob");
  fs::create_symlink(base() / "blob", model() / "model.safetensors");
  (void)import_hugging_face(model(), out());  // as in the cache of transformers
  fs::remove_all(out());
  fs::remove(model() / "model.safetensors");
  for (const char* target : {"/dev/zero", "/dev", "nowhere"}) {
    fs::create_symlink(target, model() / "model.safetensors");
    expect_rejected({"model.safetensors"});
    fs::remove(model() / "model.safetensors");
  }
  fs::rename(base() / "blob", model() / "model.safetensors");
  ASSERT_EQ(::mkfifo((model() / "tokenizer.json").c_str(), 0600), 0);
  expect_rejected({"tokenizer.json", "must be a regular file"});
  fs::remove(model() / "tokenizer.json");
  fs::create_directories(out());
  fs::create_symlink(model(), checkpoint());
  expect_error<InvalidArgument>([&] { (void)import_hugging_face(model(), out()); }, {"already exists"});
}

TEST_F(HuggingFaceFiles, RejectsDirectoriesWithoutAModel) {
  expect_error<IoError>([&] { (void)import_hugging_face(base() / "nowhere", out()); }, {"must be a directory"});
  expect_rejected({"config.json: is missing or empty"});
  write("config.json", kLlama.dump());
  expect_rejected({"must contain *.safetensors files"});
  for (const auto& [text, words] :
       std::vector<std::pair<std::string, std::string>>{{"{}", "model_type must be a text"},
                                                        {R"({"model_type": 7})", "model_type must be a text"},
                                                        {R"({"model_type": "bert"})", "model_type must be one of"},
                                                        {R"({"model_type": "llama"})", "hidden_size is missing"},
                                                        {"[1", "must be a JSON object"}}) {
    write("config.json", text);
    expect_rejected({words});
  }
}

// Each byte of the header of a file, changed, gives an error or an import; nothing outside of the file is read.
TEST_F(HuggingFaceFiles, CorruptHeadersAreRejectedOrRead) {
  write_model(kLlama);
  const std::string good = bytes_of(model() / "model.safetensors");
  const std::size_t header = good.find("}}") + 2;
  for (std::size_t at = 0; at < header; at += 3) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (at % 2 == 0 ? 1 : 16));
    write("model.safetensors", bad);
    try {
      (void)import_hugging_face(model(), out());
      EXPECT_TRUE(verify_checkpoint(checkpoint()).faults.empty());
    } catch (const Error&) {
      EXPECT_FALSE(fs::exists(checkpoint())) << at;
    }
    fs::remove_all(out());
  }
  write("model.safetensors", good.substr(0, good.size() - 1));
  expect_rejected({"truncated"});
}

TEST_F(HuggingFaceFiles, ExportListsAllParametersThatDoNotFit) {
  write_model(kLlama);
  (void)import_hugging_face(model(), out());
  CheckpointState state;
  state.tensors.emplace_back("parameters/norm.weight", known(0, {9}));
  state.tensors.emplace_back("parameters/extra.weight", known(0, {3}));
  state.tensors.emplace_back("optimizer/norm.weight", known(0, {8}));
  state.texts = checkpoint_texts(open_checkpoint(checkpoint()));
  CheckpointWriter writer({.directory = base() / "other"});
  writer.save(1, state);
  writer.finish();
  const CheckpointInfo other = open_checkpoint(base() / "other" / "step-000000001");
  expect_error<InvalidArgument>([&] { (void)export_hugging_face(other, base() / "x"); },
                                {"missing: embed_tokens.weight [10, 8]", "missing: lm_head.weight",
                                 "shape of norm.weight: must be [8], got [9]", "unknown: extra.weight [3]"});
  EXPECT_FALSE(fs::exists(base() / "x"));
  state.texts.clear();
  writer.save(2, state);
  writer.finish();
  expect_error<MismatchError>(
      [&] { (void)export_hugging_face(open_checkpoint(base() / "other" / "step-000000002"), base() / "x"); },
      {"configuration"});
}

}  // namespace
}  // namespace tessera::train
