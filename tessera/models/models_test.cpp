// The models of this library: sizes, equal numbers on meshes, and generation with a cache.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tessera/autograd/autograd.h"
#include "tessera/base/rank.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/models/gpt2.h"
#include "tessera/models/llama.h"
#include "tessera/nn/checkpointing.h"
#include "tessera/nn/distribute.h"
#include "tessera/nn/generation.h"
#include "tessera/nn/kv_cache.h"
#include "tessera/nn/language_model.h"
#include "tessera/ops/create/generator.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/shard/distribute.h"
#include "tessera/shard/gradients.h"

namespace tessera::models {
namespace {

struct Family {
  std::string name;
  std::function<std::shared_ptr<nn::LanguageModel>()> create;
};

void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }

std::vector<Family> families() {
  const LlamaConfig llama{.width = 16, .layers = 2, .heads = 4, .kv_heads = 2, .hidden = 24, .vocabulary = 20};
  LlamaConfig tied = llama;
  tied.tied = true;
  LlamaConfig qwen = llama;
  qwen.head_width = 6;
  qwen.qkv_bias = true;
  qwen.qk_norm = true;
  LlamaConfig mistral = llama;
  mistral.window = 3;
  const Gpt2Config gpt2{.width = 16, .layers = 2, .heads = 4, .hidden = 32, .vocabulary = 20, .sequence = 64};
  return {{"llama", [=] { return nn::language_model(Llama(llama)); }},
          {"tied", [=] { return nn::language_model(Llama(tied)); }},
          {"qwen", [=] { return nn::language_model(Llama(qwen)); }},
          {"mistral", [=] { return nn::language_model(Llama(mistral)); }},
          {"gpt2", [=] { return nn::language_model(Gpt2(gpt2)); }}};
}

class Models : public ::testing::TestWithParam<Family> {};

Tensor tokens_of(std::int64_t batch, std::int64_t sequence) {
  ops::manual_seed(9);
  return ops::randint(0, 20, {batch, sequence});
}

std::vector<float> values_of(const Tensor& x) {
  const Tensor plain = ops::contiguous(ops::cast(shard::gather(x), DType::kF32));
  device::Device::get("host").synchronize();
  return {plain.data_as<float>(), plain.data_as<float>() + plain.numel()};
}

// The loss, and the gradients of all parameters one after another.
std::vector<float> loss_and_gradients(const nn::LanguageModel& model, const Tensor& tokens, const Tensor& targets) {
  const Tensor loss = model.loss(tokens, targets, static_cast<double>(tokens.numel()));
  autograd::backward(loss);
  const std::vector<Tensor> leaves = model.module().parameters();
  shard::reduce_gradients(leaves);
  std::vector<float> out = values_of(loss.detach());
  for (const Tensor& leaf : leaves) {
    const std::vector<float> values = values_of(autograd::grad(leaf));
    out.insert(out.end(), values.begin(), values.end());
    autograd::set_grad(leaf, {});
  }
  return out;
}

void expect_near(const std::vector<float>& got, const std::vector<float>& want, const std::string& where) {
  ASSERT_EQ(got.size(), want.size()) << where;
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-6) << where << ", value " << i;
}

TEST_P(Models, HaveTheSameLossAndGradientsOnEveryMesh) {
  const Tensor tokens = tokens_of(4, 8);
  ops::manual_seed(3);
  const std::vector<float> want = loss_and_gradients(*GetParam().create(), tokens, tokens);
  struct Case {
    const char* mesh;
    bool is_sequence_parallel;
  };
  for (const Case& each : {Case{"dp=2", true},
                           {"fsdp=2", true},
                           {"tp=2", true},
                           {"tp=2", false},
                           {"fsdp=2,tp=2", true},
                           {"dp=2,fsdp=2", true},
                           {"dp=2,tp=2", false}}) {
    std::vector<float> got;
    const int ranks = static_cast<int>(layout::Mesh::parse(each.mesh).size());
    simulate(ranks, [&] {
      const layout::Mesh mesh = layout::Mesh::parse(each.mesh);
      const nn::ShardingTable table = nn::standard_sharding(mesh, each.is_sequence_parallel);
      ops::manual_seed(3);
      std::shared_ptr<nn::LanguageModel> model;
      {
        const nn::ShardingScope scope(mesh, table);
        model = GetParam().create();
      }
      nn::distribute(model->module(), mesh, table);
      const layout::Layout batch = table.layout_of(mesh, {"batch", ""}, "tokens");
      const Tensor own_tokens = shard::distribute(tokens_of(4, 8), batch, shard::DataOn::kEveryRank);
      std::vector<float> own = loss_and_gradients(*model, own_tokens, own_tokens);
      if (current_place().rank == Rank(0)) got = std::move(own);
    });
    expect_near(got, want, each.mesh);
  }
}

TEST_P(Models, HaveTheSameGradientsWithCheckpointing) {
  const Tensor tokens = tokens_of(2, 8);
  const auto model = GetParam().create();
  const std::vector<float> want = loss_and_gradients(*model, tokens, tokens);
  const std::string pattern = GetParam().name == "gpt2" ? "h.*" : "layers.*";
  EXPECT_EQ(nn::set_checkpointing(model->module(), pattern), 2);
  EXPECT_EQ(loss_and_gradients(*model, tokens, tokens), want);
  nn::set_checkpointing(model->module(), pattern, {.kept_operators = {"scaled_dot_product_attention"}});
  EXPECT_EQ(loss_and_gradients(*model, tokens, tokens), want);
}

TEST_P(Models, GiveTheSameRowsWithACache) {
  const auto model = GetParam().create();
  const autograd::NoGrad no_grad;
  const Tensor tokens = tokens_of(2, 8);
  const std::vector<float> want = values_of(model->hidden(tokens, nullptr));
  nn::KvCache cache;
  std::vector<Tensor> rows{model->hidden(tokens.slice(1, 0, 5).contiguous(), &cache)};
  for (std::int64_t i = 5; i < 8; ++i) rows.push_back(model->hidden(tokens.slice(1, i, i + 1).contiguous(), &cache));
  EXPECT_EQ(cache.tokens(), 8);
  std::vector<float> got;
  for (std::int64_t b = 0; b < 2; ++b) {
    for (const Tensor& each : rows) {
      const std::vector<float> values = values_of(each[b]);
      got.insert(got.end(), values.begin(), values.end());
    }
  }
  expect_near(got, want, "with a cache");
}

// Prompts of different lengths, more than a batch.
const std::vector<std::vector<std::uint32_t>>& prompts() {
  static const std::vector<std::vector<std::uint32_t>> all = {
      {1, 2, 3}, {4}, {5, 6, 7}, {8, 9, 10, 11, 12, 13, 14}, {3, 3}};
  return all;
}

std::vector<std::vector<std::uint32_t>> tokens_of(const std::vector<nn::Generated>& results) {
  std::vector<std::vector<std::uint32_t>> all;
  for (const nn::Generated& each : results) all.push_back(each.tokens);
  return all;
}

nn::GenerationOptions greedy(std::int64_t context) {
  return {.max_tokens = 40, .context = context, .sampling = {.temperature = 0}};
}

// A model with large weights, whose best scores are far apart.
std::shared_ptr<nn::LanguageModel> distinct(const Family& family) {
  ops::manual_seed(11);
  std::shared_ptr<nn::LanguageModel> model = family.create();
  const autograd::NoGrad no_grad;
  for (const nn::NamedParameter& each : model->module().named_parameters()) {
    if (each.parameter.decays()) ops::copy_(each.parameter.leaf(), ops::mul(each.parameter.leaf(), 8.0));
  }
  return model;
}

TEST_P(Models, GenerateTheSameTokensWithACache) {
  const std::int64_t context = GetParam().name == "gpt2" ? 64 : 60;
  const auto model = distinct(GetParam());
  nn::GenerationOptions options = greedy(context);
  options.has_cache = false;
  const auto want = tokens_of(nn::generate(*model, prompts(), options));
  for (const auto& each : want) EXPECT_EQ(each.size(), 40U);
  if (GetParam().name != "gpt2") {  // which repeats one token
    EXPECT_NE(want[0], want[1]);
  }
  options.has_cache = true;
  for (const std::int64_t batch : {1, 2, 5}) {
    options.batch = batch;
    EXPECT_EQ(tokens_of(nn::generate(*model, prompts(), options)), want) << "batch " << batch;
  }
  options.context = 10;
  options.slides = true;
  const auto slid = tokens_of(nn::generate(*model, prompts(), options));
  options.has_cache = false;
  EXPECT_EQ(tokens_of(nn::generate(*model, prompts(), options)), slid) << "with a context that slides";
}

TEST_P(Models, ConversationsGiveTheTokensOfAPromptAlone) {
  const auto model = distinct(GetParam());
  nn::GenerationOptions options = greedy(64);
  options.max_tokens = 6;
  nn::Conversation conversation(*model);
  std::vector<std::uint32_t> history;
  for (const std::vector<std::uint32_t>& turn : prompts()) {
    history.insert(history.end(), turn.begin(), turn.end());
    const nn::Generated got = conversation.generate(history, options);
    EXPECT_EQ(got.tokens, nn::generate(*model, {&history, 1}, options)[0].tokens) << history.size() << " tokens";
    history.insert(history.end(), got.tokens.begin(), got.tokens.end());
  }
  EXPECT_LT(conversation.computed_tokens(), 5) << "the last turn has two tokens, and one token was not computed before";
}

TEST_P(Models, GenerateTheSameTokensOnEveryMesh) {
  const auto model = distinct(GetParam());
  nn::GenerationOptions options = greedy(64);
  options.max_tokens = 20;
  options.batch = 3;
  const auto want = tokens_of(nn::generate(*model, prompts(), options));
  for (const char* name : {"tp=2", "fsdp=2", "dp=2,tp=2"}) {
    simulate(static_cast<int>(layout::Mesh::parse(name).size()), [&] {
      const layout::Mesh mesh = layout::Mesh::parse(name);
      const auto own = distinct(GetParam());
      nn::distribute(own->module(), mesh, nn::standard_sharding(mesh));
      nn::GenerationOptions mine = options;
      EXPECT_EQ(tokens_of(nn::generate(*own, prompts(), mine)), want) << name;
      mine.has_cache = false;
      EXPECT_EQ(tokens_of(nn::generate(*own, prompts(), mine)), want) << name << " without a cache";
      mine.has_cache = true;
      mine.sampling.temperature = 1;
      const auto drawn = nn::generate(*own, prompts(), mine);
      const std::vector<std::vector<std::uint32_t>> all = tokens_of(drawn);
      if (current_place().rank == Rank(0)) {
        EXPECT_NE(all, want) << "drawn at random";
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, Models, ::testing::ValuesIn(families()),
                         [](const auto& family) { return family.param.name; });

TEST(ModelFamilies, PresetsHaveTheirPublishedSizes) {
  EXPECT_EQ(nn::model_family_names(), (std::vector<std::string>{"gpt2", "llama"}));
  try {
    (void)nn::model_family("lama");
    ADD_FAILURE();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(error.message().find("did you mean llama?"), std::string::npos) << error.message();
  }
  Gpt2 small({.width = 768, .layers = 1, .heads = 12, .hidden = 3072, .vocabulary = 50257, .sequence = 1024});
  const std::int64_t block = small.h[0].parameter_count();
  EXPECT_EQ(small.parameter_count() + 11 * block, 124'439'808) << "as published for 124M";
}

}  // namespace
}  // namespace tessera::models
