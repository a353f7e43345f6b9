#include "tessera/shard/testing/llama.h"

#include "tessera/autograd/autograd.h"
#include "tessera/autograd/function.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/nn/attention.h"
#include "tessera/ops/nn/cross_entropy.h"
#include "tessera/ops/nn/norm.h"
#include "tessera/ops/nn/rope.h"
#include "tessera/ops/pointwise/activations.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/shard/distribute.h"
#include "tessera/shard/redistribute.h"

namespace tessera::shard::testing {
namespace {

using layout::Layout;

// Weights of a layer, in this order.
enum Weight : std::size_t { kNorm, kQuery, kKey, kValue, kOut, kSecondNorm, kGate, kUp, kDown, kOfLayer };

layout::SubAxis whole_axis(const layout::Mesh& mesh, const char* name) {
  const int axis = mesh.index_of(name);
  return {axis, 1, mesh.axis(axis).size};
}

// Returns the weight; its gradient loses the mark that it is partial over tp.
Tensor unreduced_over_tp(const Tensor& weight) {
  return autograd::apply_function(
      "unreduced_over_tp",
      [](autograd::FunctionCall&, const std::vector<Tensor>& in) { return std::vector{in[0].detach()}; },
      [](autograd::FunctionCall&, const std::vector<Tensor>& gradients) {
        layout::LayoutParts parts = gradients[0].layout().parts();
        const int tp = gradients[0].layout().mesh().index_of("tp");
        std::erase_if(parts.partials, [tp](const layout::PartialAxis& partial) { return partial.by.axis == tp; });
        return std::vector{Tensor::sharded(gradients[0].shape(), gradients[0].dtype(),
                                           Layout::create(gradients[0].layout().mesh(), parts), gradients[0].local())};
      },
      {weight})[0];
}

}  // namespace

Llama::Llama(const LlamaSizes& sizes, const std::optional<layout::Mesh>& mesh, LlamaFault fault)
    : sizes_(sizes), mesh_(mesh), fault_(fault) {
  const Shape square{sizes.width, sizes.width};
  add_weight({sizes.vocabulary, sizes.width}, WeightSplit::kRows);
  for (std::int64_t layer = 0; layer < sizes.layers; ++layer) {
    add_weight({sizes.width}, WeightSplit::kNone);
    for (int i = 0; i < 3; ++i) add_weight(square, WeightSplit::kRows);
    add_weight(square, WeightSplit::kColumns);
    add_weight({sizes.width}, WeightSplit::kNone);
    for (int i = 0; i < 2; ++i) add_weight({sizes.hidden, sizes.width}, WeightSplit::kRows);
    add_weight({sizes.width, sizes.hidden}, WeightSplit::kColumns);
  }
  add_weight({sizes.width}, WeightSplit::kNone);
  add_weight({sizes.vocabulary, sizes.width}, WeightSplit::kRows);
}

Tensor Llama::drawn(const Shape& shape, const Layout& layout, double mean, double deviation) const {
  const double reach = 3 * deviation;
  return ops::trunc_normal(shape, mean, deviation, mean - reach, mean + reach,
                           {.dtype = sizes_.dtype, .layout = layout});
}

// Shards over fsdp divide the first dimension most finely: gathering them copies nothing.
void Llama::add_weight(const Shape& shape, WeightSplit sharding) {
  Layout kept;
  if (mesh_) {
    layout::LayoutParts parts;
    parts.dims.resize(sharding == WeightSplit::kColumns ? 2 : 1);
    if (sharding != WeightSplit::kNone)
      parts.dims[sharding == WeightSplit::kRows ? 0 : 1].shardings.push_back({whole_axis(*mesh_, "tp")});
    in_use_.push_back(Layout::create(*mesh_, parts));
    parts.dims[0].shardings.push_back({whole_axis(*mesh_, "fsdp")});
    kept = Layout::create(*mesh_, parts);
  }
  const Tensor weight =
      drawn(shape, kept, sharding == WeightSplit::kNone ? 1 : 0, sharding == WeightSplit::kNone ? 0.1 : 0.05);
  autograd::set_requires_grad(weight, true);
  parameters_.push_back(weight);
}

std::vector<Tensor> Llama::gathered(std::size_t first, std::size_t count) const {
  const std::span<const Tensor> kept = std::span(parameters_).subspan(first, count);
  if (!mesh_) return {kept.begin(), kept.end()};
  std::vector<Tensor> out = redistribute(kept, std::span(in_use_).subspan(first, count), {.remat = true});
  for (Tensor& weight : out) {
    if (fault_ == LlamaFault::kUnreducedNorm && weight.ndim() == 1) weight = unreduced_over_tp(weight);
  }
  return out;
}

Tensor Llama::moved(const Tensor& x, const char* to) const {
  return mesh_ ? redistribute(x, Layout::parse(*mesh_, to)) : x;
}

Tensor Llama::reduced(const Tensor& block) const {
  if (mesh_ && fault_ == LlamaFault::kSkippedTpReduce) {
    const Layout whole = Layout::parse(*mesh_, "S0,S0,R");
    return moved(from_local(local(block), whole, {.shape = block.shape()}), "S0,S0,S1");
  }
  return moved(block, "S0,S0,S1");
}

Tensor Llama::attention(const Tensor& x, const std::vector<Tensor>& weights) const {
  const std::int64_t per_head = sizes_.width / sizes_.heads;
  const auto heads_of = [&](const Weight weight) {
    const Tensor all = ops::linear(x, weights[weight]);
    return ops::transpose(ops::view(all, {sizes_.batch, sizes_.sequence, sizes_.heads, per_head}), 1, 2);
  };
  const Tensor out = ops::scaled_dot_product_attention(ops::rope(heads_of(kQuery)), ops::rope(heads_of(kKey)),
                                                       heads_of(kValue), {.is_causal = true});
  const Tensor rows = ops::reshape(ops::transpose(out, 1, 2), {sizes_.batch, sizes_.sequence, sizes_.width});
  return ops::linear(rows, weights[kOut]);
}

Tensor Llama::loss(const Tensor& tokens, const Tensor& targets) const {
  Tensor x = reduced(ops::embedding(gathered(0, 1)[0], tokens));
  for (std::int64_t layer = 0; layer < sizes_.layers; ++layer) {
    const std::vector<Tensor> weights = gathered(1 + static_cast<std::size_t>(layer) * kOfLayer, kOfLayer);
    x = ops::add(x, reduced(attention(moved(ops::rms_norm(x, weights[kNorm]), "S0,S0,R"), weights)));
    const Tensor h = moved(ops::rms_norm(x, weights[kSecondNorm]), "S0,S0,R");
    const Tensor hidden = ops::swiglu(ops::linear(h, weights[kGate]), ops::linear(h, weights[kUp]));
    x = ops::add(x, reduced(ops::linear(hidden, weights[kDown])));
  }
  const std::vector<Tensor> last = gathered(parameters_.size() - 2, 2);
  const Tensor rows = moved(ops::rms_norm(x, last[0]), "S0,S0,R");
  std::int64_t count = sizes_.batch * sizes_.sequence;
  if (mesh_ && fault_ == LlamaFault::kSumOverData) count /= whole_axis(*mesh_, "dp").size;
  return ops::linear_cross_entropy(rows, last[1], targets, {.count = static_cast<double>(count)});
}

Tensor Llama::numbers() const {
  const Shape shape{sizes_.batch, sizes_.sequence};
  return ops::randint(0, sizes_.vocabulary, shape, {.layout = mesh_ ? Layout::parse(*mesh_, "S0,S0,R") : Layout()});
}

Tensor Llama::train(const Tensor& tokens, const Tensor& targets, double rate) const {
  const Tensor loss = this->loss(tokens, targets);
  autograd::backward(loss);
  const autograd::NoGrad no_grad;
  for (const Tensor& weight : parameters_) {
    // A gradient is partial where nothing was gathered.
    const Tensor grad = mesh_ ? redistribute(autograd::grad(weight), weight.layout()) : autograd::grad(weight);
    ops::add_(weight, ops::mul(grad, -rate));
    autograd::set_grad(weight, {});
  }
  return loss.detach();
}

}  // namespace tessera::shard::testing
