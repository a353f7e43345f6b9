// Packed documents: losses and gradients are those of separate documents, on meshes too.
#include "tessera/nn/packing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/models/gpt2.h"
#include "tessera/models/llama.h"
#include "tessera/nn/checkpointing.h"
#include "tessera/nn/distribute.h"
#include "tessera/nn/kv_cache.h"
#include "tessera/ops/create/generator.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/shard/distribute.h"
#include "tessera/shard/gradients.h"

namespace tessera::models {
namespace {

constexpr std::int32_t kEnd = 0;
constexpr std::int64_t kRows = 2, kSequence = 8;
// Rows with documents of 3, 1 and 4 tokens, and of 5 and 3: the last ones end with their rows.
const std::vector<std::int32_t> kTokens{4, 7, 0, 0, 9, 3, 11, 5, 8, 2, 6, 1, 0, 10, 3, 7};

std::vector<std::int32_t> targets() {
  std::vector<std::int32_t> out(kTokens.begin() + 1, kTokens.end());
  out.push_back(kEnd);
  return out;
}

Tensor tensor_of(const std::vector<std::int32_t>& values, const Shape& shape) {
  const auto owner = std::make_shared<std::vector<std::int32_t>>(values);
  return Tensor::wrap(owner->data(), shape, DType::kI32, device::Device::get("host"), owner);
}

std::vector<float> values_of(const Tensor& x) {
  const Tensor plain = ops::contiguous(ops::cast(shard::gather(x.detach()), DType::kF32));
  device::Device::get("host").synchronize();
  return {plain.data_as<float>(), plain.data_as<float>() + plain.numel()};
}

std::shared_ptr<nn::LanguageModel> model_of(const std::string& family) {
  ops::manual_seed(3);
  if (family == "gpt2")
    return nn::language_model(
        Gpt2({.width = 16, .layers = 2, .heads = 4, .hidden = 32, .vocabulary = 12, .sequence = kSequence}));
  LlamaConfig config{.width = 16, .layers = 2, .heads = 4, .kv_heads = 2, .hidden = 24, .vocabulary = 12};
  if (family == "window") config.window = 2;
  return nn::language_model(Llama(config));
}

// The loss, and the gradients of all parameters one after another.
std::vector<float> results(const nn::LanguageModel& model, const Tensor& loss) {
  std::vector<float> out = values_of(loss);
  const std::vector<Tensor> leaves = model.module().parameters();
  shard::reduce_gradients(leaves);
  for (const Tensor& leaf : leaves) {
    const std::vector<float> values = values_of(autograd::grad(leaf));
    out.insert(out.end(), values.begin(), values.end());
    autograd::set_grad(leaf, {});
  }
  return out;
}

std::vector<float> of_separate_documents(const nn::LanguageModel& model) {
  const std::vector<std::int32_t> next = targets();
  std::vector<float> losses;
  std::size_t begin = 0;
  double sum = 0;
  for (const std::size_t end : {3U, 4U, 8U, 13U, 16U}) {
    const auto part = [&](const std::vector<std::int32_t>& all) {
      return tensor_of(
          {all.begin() + static_cast<std::ptrdiff_t>(begin), all.begin() + static_cast<std::ptrdiff_t>(end)},
          {1, static_cast<std::int64_t>(end - begin)});
    };
    const Tensor loss = model.loss(part(kTokens), part(next), static_cast<double>(kTokens.size()));
    autograd::backward(loss);
    sum += static_cast<double>(values_of(loss)[0]);
    begin = end;
  }
  std::vector<float> out = results(model, tensor_of({0}, {1}));
  out[0] = static_cast<float>(sum);
  return out;
}

std::vector<float> of_packed_documents(const nn::LanguageModel& model, const layout::Mesh& mesh) {
  const nn::ShardingTable& table = nn::table_of(model.module());
  const auto laid = [&](const std::vector<std::int32_t>& values) {
    const Tensor all = tensor_of(values, {kRows, kSequence});
    return mesh ? shard::distribute(all, table.layout_of(mesh, {"batch", ""}, "x"), shard::DataOn::kEveryRank) : all;
  };
  const Tensor tokens = laid(kTokens);
  const Tensor own = ops::contiguous(tokens.has_layout() ? tokens.local() : tokens);
  device::Device::get("host").synchronize();
  nn::Packing packing =
      nn::packing_of({own.data_as<std::int32_t>(), static_cast<std::size_t>(own.numel())}, own.size(0), kEnd);
  if (mesh)
    packing.positions = shard::from_local(packing.positions, tokens.layout(), {.shape = Shape{kRows, kSequence}});
  nn::set_packing(model.module(), packing);
  const Tensor loss = model.loss(tokens, laid(targets()), static_cast<double>(kTokens.size()));
  autograd::backward(loss);
  nn::set_packing(model.module(), {});
  return results(model, loss);
}

void expect_near(const std::vector<float>& got, const std::vector<float>& want, const std::string& where) {
  ASSERT_EQ(got.size(), want.size()) << where;
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-6) << where << ", value " << i;
}

class Packed : public ::testing::TestWithParam<const char*> {};

TEST_P(Packed, DocumentsAreThoseOfSeparateCalls) {
  const auto model = model_of(GetParam());
  const std::vector<float> want = of_separate_documents(*model);
  expect_near(of_packed_documents(*model, {}), want, "packed");
  const Tensor tokens = tensor_of(kTokens, {kRows, kSequence});
  const Tensor loss = model->loss(tokens, tensor_of(targets(), {kRows, kSequence}), 16);
  EXPECT_GT(std::abs(values_of(loss)[0] - want[0]), 1e-5) << "documents see each other if they are not packed";
  nn::set_checkpointing(model->module(), GetParam() == std::string("gpt2") ? "h.*" : "layers.*");
  for (const Tensor& leaf : model->module().parameters()) autograd::set_grad(leaf, {});
  expect_near(of_packed_documents(*model, {}), want, "checkpointed");
}

TEST_P(Packed, DocumentsAreTheSameOnMeshes) {
  const std::vector<float> want = of_separate_documents(*model_of(GetParam()));
  for (const char* text : {"dp=2", "fsdp=2", "tp=2", "fsdp=2,tp=2"}) {
    std::vector<float> got;
    simulate(static_cast<int>(layout::Mesh::parse(text).size()), [&] {
      const layout::Mesh mesh = layout::Mesh::parse(text);
      const auto model = model_of(GetParam());
      nn::distribute(model->module(), mesh, nn::standard_sharding(mesh));
      std::vector<float> own = of_packed_documents(*model, mesh);
      if (current_place().rank == Rank(0)) got = std::move(own);
    });
    expect_near(got, want, text);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Packed, ::testing::Values("llama", "window", "gpt2"),
                         [](const auto& family) { return std::string(family.param); });

TEST(Packing, SplitsRowsAtEndOfTextTokens) {
  const nn::Packing packing = nn::packing_of(kTokens, kRows, kEnd);
  const auto* offsets = packing.offsets.data_as<std::int32_t>();
  EXPECT_EQ(std::vector(offsets, offsets + packing.offsets.numel()), (std::vector<std::int32_t>{0, 3, 4, 8, 13, 16}));
  const auto* positions = packing.positions.data_as<std::int32_t>();
  EXPECT_EQ(std::vector(positions, positions + packing.positions.numel()),
            (std::vector<std::int32_t>{0, 1, 2, 0, 0, 1, 2, 3, 0, 1, 2, 3, 4, 0, 1, 2}));
  expect_error<InvalidArgument>([] { (void)nn::packing_of(kTokens, 3, kEnd); }, {"must have 3 rows", "got 16 tokens"});
  const auto model = model_of("llama");
  nn::set_packing(model->module(), packing);
  nn::KvCache cache;
  expect_error<InvalidArgument>(
      [&] {
        (void)model->hidden(tensor_of(kTokens, {kRows, kSequence}), &cache);
      },
      {"packed documents require calls without a cache"});
}

}  // namespace
}  // namespace tessera::models
