#include "tessera/train/model.h"

#include <cmath>

#include "tessera/autograd/autograd.h"
#include "tessera/autograd/checkpoint.h"
#include "tessera/autograd/function.h"
#include "tessera/memory/label.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/nn/attention.h"
#include "tessera/ops/nn/cross_entropy.h"
#include "tessera/ops/nn/dropout.h"
#include "tessera/ops/nn/norm.h"
#include "tessera/ops/nn/rope.h"
#include "tessera/ops/pointwise/activations.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/shard/distribute.h"
#include "tessera/shard/gradients.h"
#include "tessera/shard/redistribute.h"
#include "tessera/tensor/device_context.h"

namespace tessera::train {
namespace {

constexpr double kDeviation = 0.02;

DType dtype_of_blocks(const Config& config) { return config.train.dtype == "bf16" ? DType::kBF16 : DType::kF32; }

// shard::redistribute with its time measured, also in backward.
class MoveFunction final : public autograd::Function {
 public:
  MoveFunction(layout::Layout from, layout::Layout to, shard::ExposedTime& exposed)
      : from_(std::move(from)), to_(std::move(to)), exposed_(exposed) {}
  [[nodiscard]] std::string name() const override { return "move"; }
  std::vector<Tensor> forward(autograd::FunctionCall& /*call*/, const std::vector<Tensor>& inputs) const override {
    return {moved(inputs[0], to_)};
  }
  std::vector<Tensor> backward(autograd::FunctionCall& /*call*/, const std::vector<Tensor>& gradients) const override {
    if (!gradients[0]) return {Tensor()};
    return {moved(gradients[0], layout::gradient_layout(from_))};
  }

 private:
  [[nodiscard]] Tensor moved(const Tensor& x, const layout::Layout& to) const {
    const shard::ExposedTime::Scope scope(exposed_, tensor::current_stream(x.device()));
    return shard::redistribute(x, to);
  }
  layout::Layout from_;
  layout::Layout to_;
  shard::ExposedTime& exposed_;
};

Tensor moved(const Tensor& x, const layout::Layout& to, shard::ExposedTime& exposed) {
  return autograd::apply_function(std::make_shared<const MoveFunction>(x.layout(), to, exposed), {x})[0];
}

}  // namespace

Model::Model(const Config& config, const ParallelPlan& plan, shard::ExposedTime& exposed)
    : config_(config.model),
      plan_(plan),
      exposed_(exposed),
      checkpointing_(config.train.checkpointing),
      gatherer_({.dtype = dtype_of_blocks(config), .prefetches = config.mesh.prefetch}, exposed) {
  const memory::Label label("parameters");
  const Shape table{config_.vocabulary, config_.width};
  const Parameter embedding = draw("embedding", ParameterKind::kEmbedding, table, kDeviation);
  embedding_unit_ = add_unit({embedding}, false);
  for (std::int64_t i = 0; i < config_.layers; ++i) add_layer(i);
  const Parameter norm = draw("last_norm", ParameterKind::kLastNorm, Shape{config_.width}, 0);
  Parameter head{"head", ParameterKind::kHead, embedding.tensor};
  if (!config_.tied) head = draw("head", ParameterKind::kHead, table, kDeviation);
  last_unit_ = add_unit({norm, head});
}

// Without a deviation: ones.
Parameter Model::draw(const std::string& name, ParameterKind kind, const Shape& shape, double deviation) {
  const double most = 3 * deviation;
  const ops::CreateOptions options{.layout = plan_.kept(kind)};
  Tensor weight =
      deviation == 0 ? ops::ones(shape, options) : ops::trunc_normal(shape, 0, deviation, -most, most, options);
  autograd::set_requires_grad(weight, true);
  parameters_.push_back({name, kind, weight});
  return parameters_.back();
}

void Model::add_layer(std::int64_t number) {
  const std::int64_t width = config_.width;
  const std::int64_t keys = width / config_.heads * config_.kv_heads;
  const double end = kDeviation / std::sqrt(2.0 * static_cast<double>(config_.layers));
  const auto drawn = [&](ParameterKind kind, const Shape& shape, double deviation) {
    return draw("layers." + std::to_string(number) + "." + std::string(row_of(kind).name), kind, shape, deviation);
  };
  std::vector<Parameter> entry{
      drawn(ParameterKind::kAttentionNorm, {width}, 0), drawn(ParameterKind::kQuery, {width, width}, kDeviation),
      drawn(ParameterKind::kKey, {keys, width}, kDeviation), drawn(ParameterKind::kValue, {keys, width}, kDeviation)};
  std::vector<Parameter> rest{drawn(ParameterKind::kOut, {width, width}, end),
                              drawn(ParameterKind::kFeedForwardNorm, {width}, 0),
                              drawn(ParameterKind::kGate, {config_.hidden, width}, kDeviation),
                              drawn(ParameterKind::kUp, {config_.hidden, width}, kDeviation),
                              drawn(ParameterKind::kDown, {width, config_.hidden}, end)};
  if (checkpointing_ == "selective") {
    const std::size_t first = add_unit(entry);
    layers_.push_back({first, add_unit(rest), number});
    return;
  }
  entry.insert(entry.end(), rest.begin(), rest.end());
  const std::size_t unit = add_unit(entry);
  layers_.push_back({unit, unit, number});
}

std::size_t Model::add_unit(const std::vector<Parameter>& parameters, bool is_used_in_backward) {
  std::vector<ParameterKind> kinds;
  std::vector<shard::UnitParameter> unit;
  for (const Parameter& parameter : parameters) {
    kinds.push_back(parameter.kind);
    unit.push_back({parameter.tensor, plan_.in_use(parameter.kind)});
  }
  unit_kinds_.push_back(std::move(kinds));
  return gatherer_.add_unit(std::move(unit), is_used_in_backward);
}

Weights Model::use(std::size_t unit, shard::SavedWeights saved) {
  return {unit_kinds_[unit], gatherer_.use(unit, saved)};
}

std::vector<Tensor> Model::leaves() const {
  std::vector<Tensor> out;
  for (const Parameter& parameter : parameters_) out.push_back(parameter.tensor);
  return out;
}

std::int64_t Model::parameter_count() const {
  std::int64_t count = 0;
  for (const Parameter& parameter : parameters_) count += parameter.tensor.numel();
  return count;
}

// From the residual stream into a block: with sequence parallelism an all-gather over tp and, in backward, a
// reduce-scatter; otherwise nothing and, in backward, an all-reduce.
Tensor Model::entered(const Tensor& x, const Pass& pass) const {
  if (!plan_.mesh() || plan_.tp() == 1) return x;
  if (!plan_.is_sequence_parallel()) return shard::settle(x, {"tp"});
  return moved(x, plan_.at(ActivationPoint::kInside, pass.is_batch_sharded), exposed_);
}

// Back to the residual stream: each rank of tp has a summand. A reduce-scatter, or an all-reduce.
Tensor Model::left(const Tensor& x, const Pass& pass) const {
  if (!plan_.mesh() || plan_.tp() == 1) return x;
  const layout::Layout residual = plan_.at(ActivationPoint::kResidual, pass.is_batch_sharded);
  return moved(x, residual, exposed_);
}

Tensor Model::seen(const Layer& layer, std::string_view module, Tensor output) const {
  if (watch_) watch_("layers." + std::to_string(layer.number) + "." + std::string(module), output);
  return output;
}

Tensor Model::seen(std::string_view module, Tensor output) const {
  if (watch_) watch_(std::string(module), output);
  return output;
}

// Computes all scores, which the loss never holds together.
void Model::watch_scores(const Tensor& rows, const Weights& weights) const {
  if (!watch_) return;
  const autograd::NoGrad no_grad;
  watch_("head", ops::linear(rows.detach(), weights[ParameterKind::kHead].detach()));
}

Model::Heads Model::project(const Layer& layer, const Tensor& x, const Weights& weights, const Pass& pass) const {
  const Tensor& norm = weights[ParameterKind::kAttentionNorm];
  const Tensor rows = entered(seen(layer, "attention_norm", ops::rms_norm(x, norm, config_.norm_eps)), pass);
  const auto heads_of = [&](ParameterKind kind, std::int64_t heads) {
    const std::int64_t per_head = config_.width / config_.heads;
    const Tensor all = seen(layer, row_of(kind).name, ops::linear(rows, weights[kind]));
    return ops::transpose(ops::view(all, {all.size(0), all.size(1), heads, per_head}), 1, 2);
  };
  const ops::RopeAttributes turn{.base = config_.rope_base};
  return {ops::rope(heads_of(ParameterKind::kQuery, config_.heads), turn),
          ops::rope(heads_of(ParameterKind::kKey, config_.kv_heads), turn),
          heads_of(ParameterKind::kValue, config_.kv_heads)};
}

Tensor Model::attend(const Layer& layer, const Heads& heads) const {
  const Tensor out = ops::scaled_dot_product_attention(heads[0], heads[1], heads[2], {.is_causal = true});
  return seen(layer, "attention", ops::reshape(ops::transpose(out, 1, 2), {out.size(0), out.size(2), config_.width}));
}

Tensor Model::rest_of_layer(const Layer& layer, const Tensor& x, const Tensor& attended, const Weights& weights,
                            const Pass& pass) const {
  const auto product = [&](const Tensor& rows, ParameterKind kind) { return ops::linear(rows, weights[kind]); };
  const auto added = [&](const Tensor& to, const char* module, const Tensor& part) {
    return ops::add(to, ops::dropout(seen(layer, module, left(part, pass)), config_.dropout, pass.is_training));
  };
  const Tensor y = added(x, "out", product(attended, ParameterKind::kOut));
  const Tensor& norm = weights[ParameterKind::kFeedForwardNorm];
  const Tensor rows = entered(seen(layer, "feed_forward_norm", ops::rms_norm(y, norm, config_.norm_eps)), pass);
  const Tensor hidden = ops::swiglu(seen(layer, "gate", product(rows, ParameterKind::kGate)),
                                    seen(layer, "up", product(rows, ParameterKind::kUp)));
  return added(y, "down", product(hidden, ParameterKind::kDown));
}

Tensor Model::layer(const Layer& layer, const Tensor& x, const Pass& pass) {
  if (checkpointing_ == "none") {
    const Weights weights = use(layer.entry, shard::SavedWeights::kGatheredAgain);
    return rest_of_layer(layer, x, attend(layer, project(layer, x, weights, pass)), weights, pass);
  }
  if (checkpointing_ == "full") {
    const auto body = [this, layer, pass](const std::vector<Tensor>& in) -> std::vector<Tensor> {
      const Weights weights = use(layer.entry, shard::SavedWeights::kByCaller);
      return {rest_of_layer(layer, in[0], attend(layer, project(layer, in[0], weights, pass)), weights, pass)};
    };
    return autograd::checkpoint(body, {x})[0];
  }
  const auto entry = [this, layer, pass](const std::vector<Tensor>& in) {
    return project(layer, in[0], use(layer.entry, shard::SavedWeights::kByCaller), pass);
  };
  const auto rest = [this, layer, pass](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    return {rest_of_layer(layer, in[0], in[1], use(layer.rest, shard::SavedWeights::kByCaller), pass)};
  };
  return autograd::checkpoint(rest, {x, attend(layer, autograd::checkpoint(entry, {x}))})[0];
}

Tensor Model::trunk(const Tensor& tokens, const Pass& pass) {
  Tensor x;
  {
    const Weights weights = use(embedding_unit_, shard::SavedWeights::kGatheredAgain);
    x = seen("embedding", left(ops::embedding(weights[ParameterKind::kEmbedding], tokens), pass));
  }
  for (const Layer& each : layers_) {
    x = layer(each, x, pass);
    if (watch_) watch_("layers." + std::to_string(each.number), x);
  }
  return x;
}

Tensor Model::last_norm(const Tensor& x, const Weights& weights, const Pass& pass) const {
  return entered(seen("last_norm", ops::rms_norm(x, weights[ParameterKind::kLastNorm], config_.norm_eps)), pass);
}

Tensor Model::loss(const Tensor& tokens, const Tensor& targets, double count, const Pass& pass) {
  const Tensor x = trunk(seen("tokens", tokens), pass);
  const Weights weights = use(last_unit_, shard::SavedWeights::kGatheredAgain);
  const Tensor rows = last_norm(x, weights, pass);
  watch_scores(rows, weights);
  return seen("loss", ops::linear_cross_entropy(rows, weights[ParameterKind::kHead], seen("targets", targets),
                                                {.ignore_index = kIgnoredTarget, .count = count}));
}

Tensor Model::scores(const Tensor& tokens, std::int64_t place, const Pass& pass) {
  const Tensor x = trunk(tokens, pass);
  const Weights weights = use(last_unit_, shard::SavedWeights::kGatheredAgain);
  const Tensor row = ops::select(last_norm(x, weights, pass), 1, place);
  return ops::linear(row, weights[ParameterKind::kHead]);
}

}  // namespace tessera::train
