// Cases of attention: plain loops over queries and keys, with complete rows of scores.
#include <cmath>
#include <limits>

#include "tessera/ops/nn/attention.h"
#include "tessera/ops/testing/op_case.h"

namespace tessera::ops::testing {
namespace {

struct Sizes {
  std::int64_t batch, heads, kv_heads, queries, keys, d, e;
  explicit Sizes(const Array& q, const Array& k, const Array& v)
      : batch(q.shape[0]),
        heads(q.shape[1]),
        kv_heads(k.shape[1]),
        queries(q.shape[2]),
        keys(k.shape[2]),
        d(q.shape[3]),
        e(v.shape[3]) {}
};

// Returns true if query i attends to key j, by the definition.
bool may_look(const AttentionBias& bias, std::int64_t i, std::int64_t j, std::int64_t queries, std::int64_t keys) {
  const std::int64_t place = i + (bias.is_bottom_right ? keys - queries : 0);
  if (bias.is_causal && j > place) return false;
  if (bias.window_left >= 0 && j < place - bias.window_left) return false;
  return bias.window_right < 0 || j <= place + bias.window_right;
}

// Returns true if query i attends to key j, for positions in packed sequences.
bool may_look(const AttentionBias& bias, std::int64_t i, std::int64_t j, const Sizes& of, const Array& q_offsets,
              const Array& k_offsets) {
  if (q_offsets.shape.size() == 0) return may_look(bias, i, j, of.queries, of.keys);
  for (std::size_t s = 0; s + 1 < q_offsets.values.size(); ++s) {
    const auto q0 = static_cast<std::int64_t>(q_offsets.values[s]);
    const auto q1 = static_cast<std::int64_t>(q_offsets.values[s + 1]);
    const auto k0 = static_cast<std::int64_t>(k_offsets.values[s]);
    const auto k1 = static_cast<std::int64_t>(k_offsets.values[s + 1]);
    if (i >= q0 && i < q1) return j >= k0 && j < k1 && may_look(bias, i - q0, j - k0, q1 - q0, k1 - k0);
  }
  return false;
}

double at(const Array& x, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c) {
  return x.values[static_cast<std::size_t>(((b * x.shape[1] + h) * x.shape[2] + i) * x.shape[3] + c)];
}
double& ref(Array& x, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c) {
  return x.values[static_cast<std::size_t>(((b * x.shape[1] + h) * x.shape[2] + i) * x.shape[3] + c)];
}

double score(const Array& q, const Array& k, const Sizes& of, const AttentionBias& bias, std::int64_t b, std::int64_t h,
             std::int64_t i, std::int64_t j) {
  double sum = 0;
  for (std::int64_t c = 0; c < of.d; ++c) sum += at(q, b, h, i, c) * at(k, b, h * of.kv_heads / of.heads, j, c);
  return sum * (bias.scale != 0 ? bias.scale : 1 / std::sqrt(static_cast<double>(of.d)));
}

std::vector<Array> forward_reference(std::span<const Array> in, const AttentionBias& bias) {
  const Sizes of(in[0], in[1], in[2]);
  Array out(Shape({of.batch, of.heads, of.queries, of.e}));
  Array all(Shape({of.batch, of.heads, of.queries}), -std::numeric_limits<double>::infinity());
  for (std::int64_t row = 0; row < of.batch * of.heads * of.queries; ++row) {
    const std::int64_t i = row % of.queries;
    const std::int64_t h = row / of.queries % of.heads;
    const std::int64_t b = row / of.queries / of.heads;
    double sum = 0;
    for (std::int64_t j = 0; j < of.keys; ++j) {
      if (!may_look(bias, i, j, of, in[3], in[4])) continue;
      const double p = std::exp(score(in[0], in[1], of, bias, b, h, i, j));
      sum += p;
      for (std::int64_t c = 0; c < of.e; ++c)
        ref(out, b, h, i, c) += p * at(in[2], b, h * of.kv_heads / of.heads, j, c);
    }
    if (sum == 0) continue;
    all.values[static_cast<std::size_t>(row)] = std::log(sum);
    for (std::int64_t c = 0; c < of.e; ++c) ref(out, b, h, i, c) /= sum;
  }
  return {out, all};
}

std::vector<Array> backward_reference(std::span<const Array> in, const AttentionBias& bias) {
  const Array& grad = in[0];
  const Sizes of(in[1], in[2], in[3]);
  const double scale = bias.scale != 0 ? bias.scale : 1 / std::sqrt(static_cast<double>(of.d));
  Array dq(in[1].shape);
  Array dk(in[2].shape);
  Array dv(in[3].shape);
  for (std::int64_t row = 0; row < of.batch * of.heads * of.queries; ++row) {
    const std::int64_t i = row % of.queries;
    const std::int64_t h = row / of.queries % of.heads;
    const std::int64_t b = row / of.queries / of.heads;
    const std::int64_t kv = h * of.kv_heads / of.heads;
    double delta = 0;
    for (std::int64_t c = 0; c < of.e; ++c) delta += at(grad, b, h, i, c) * at(in[4], b, h, i, c);
    if (in[8].shape.size() == 3) delta -= in[8].values[static_cast<std::size_t>(row)];
    for (std::int64_t j = 0; j < of.keys; ++j) {
      if (!may_look(bias, i, j, of, in[6], in[7])) continue;
      const double p =
          std::exp(score(in[1], in[2], of, bias, b, h, i, j) - in[5].values[static_cast<std::size_t>(row)]);
      double dp = 0;
      for (std::int64_t c = 0; c < of.e; ++c) {
        dp += at(grad, b, h, i, c) * at(in[3], b, kv, j, c);
        ref(dv, b, kv, j, c) += p * at(grad, b, h, i, c);
      }
      const double ds = p * (dp - delta) * scale;
      for (std::int64_t c = 0; c < of.d; ++c) {
        ref(dq, b, h, i, c) += ds * at(in[2], b, kv, j, c);
        ref(dk, b, kv, j, c) += ds * at(in[1], b, h, i, c);
      }
    }
  }
  return {dq, dk, dv};
}

SampleInput offsets(std::vector<double> values) {
  SampleInput input;
  const auto count = static_cast<std::int64_t>(values.size());
  input.value = Array(Shape({count}), std::move(values));
  input.dtype = DType::kI64;
  input.is_differentiable = false;
  return input;
}

std::vector<OpSample> samples(Random& random) {
  std::vector<OpSample> all;
  const auto add = [&](const Shape& q, const Shape& k, std::int64_t e, const AttentionBias& bias, bool has_offsets) {
    all.push_back(
        {.inputs = {normal(random, q), normal(random, k), normal(random, {k[0], k[1], k[2], e}),
                    has_offsets ? offsets({0, 3, 3, 7}) : absent(), has_offsets ? offsets({0, 4, 5, 9}) : absent()},
         .attributes = tensor::Attributes(bias),
         .outputs = 2});
  };
  add({2, 4, 5, 3}, {2, 2, 7, 3}, 3, {}, false);
  add({1, 2, 5, 4}, {1, 2, 5, 4}, 2, {.is_causal = true}, false);
  add({1, 2, 3, 5}, {1, 1, 7, 5}, 5, {.is_causal = true, .is_bottom_right = true}, false);
  add({1, 1, 7, 4}, {1, 1, 3, 4}, 4, {.is_causal = true, .is_bottom_right = true, .scale = 0.3}, false);
  add({1, 2, 9, 3}, {1, 2, 9, 3}, 3, {.window_left = 2, .window_right = 1}, false);
  add({1, 2, 6, 3}, {1, 2, 9, 3}, 3, {.is_causal = true, .is_bottom_right = true, .window_left = 3}, false);
  add({1, 4, 7, 3}, {1, 2, 9, 3}, 4, {.is_causal = true}, true);
  add({1, 2, 7, 3}, {1, 2, 9, 3}, 3, {.is_causal = true, .is_bottom_right = true, .window_left = 1}, true);
  add({1, 2, 0, 3}, {1, 2, 5, 3}, 3, {}, false);
  add({1, 2, 3, 3}, {1, 2, 0, 3}, 3, {}, false);
  return all;
}

std::vector<OpSample> backward_samples(Random& random) {
  std::vector<OpSample> all = samples(random);
  bool is_first = true;  // the first sample includes the gradient of logsumexp
  for (OpSample& sample : all) {
    const Shape q = sample.inputs[0].value.shape;
    const Shape out({q[0], q[1], q[2], sample.inputs[2].value.shape[3]});
    sample.inputs.insert(sample.inputs.begin(), normal(random, out));
    sample.inputs.insert(sample.inputs.begin() + 4, normal(random, out));
    sample.inputs.insert(sample.inputs.begin() + 5, uniform(random, {q[0], q[1], q[2]}, 7, 8));
    const bool has_second = is_first;
    is_first = false;
    sample.inputs.push_back(has_second ? normal(random, {q[0], q[1], q[2]}) : absent());
    sample.outputs = 3;
  }
  return all;
}

const OpCase kAttention{{.op = "scaled_dot_product_attention",
                         .samples = samples,
                         .reference = [](std::span<const Array> in, const tensor::AttributesRef& attributes) {
                           return forward_reference(in, attributes.as<AttentionBias>());
                         }}};
const OpCase kAttentionBackward{{.op = "scaled_dot_product_attention_backward",
                                 .samples = backward_samples,
                                 .reference = [](std::span<const Array> in, const tensor::AttributesRef& attributes) {
                                   return backward_reference(in, attributes.as<AttentionBias>());
                                 }}};

}  // namespace
}  // namespace tessera::ops::testing
