// Cases of attention over pages: plain loops over queries and positions.
#include <cmath>

#include "tessera/ops/nn/paged_attention.h"
#include "tessera/ops/testing/op_case.h"

namespace tessera::ops::testing {
namespace {

// Pages of sequences and their lengths.
struct Places {
  const Array& tables;
  const Array& starts;
  std::int64_t tokens;

  [[nodiscard]] std::int64_t start(std::int64_t b) const {
    return static_cast<std::int64_t>(starts.values[static_cast<std::size_t>(b)]);
  }
  // Returns the element of `pages` at a position of a sequence.
  [[nodiscard]] std::size_t at(const Array& pages, std::int64_t b, std::int64_t head, std::int64_t position,
                               std::int64_t c) const {
    const auto page =
        static_cast<std::int64_t>(tables.values[static_cast<std::size_t>(b * tables.shape[1] + position / tokens)]);
    return static_cast<std::size_t>(((page * pages.shape[1] + head) * tokens + position % tokens) * pages.shape[3] + c);
  }
};

std::size_t row_at(const Array& x, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c) {
  return static_cast<std::size_t>(((b * x.shape[1] + h) * x.shape[2] + i) * x.shape[3] + c);
}

std::vector<Array> attention_reference(std::span<const Array> in, const tensor::AttributesRef& attributes) {
  const auto& how = attributes.as<PagedAttentionAttributes>();
  const Array& q = in[0];
  const Array& keys = in[1];
  const Array& values = in[2];
  const Places places{in[3], in[4], keys.shape[2]};
  const std::int64_t group = q.shape[1] / keys.shape[1];
  const double scale = how.scale != 0 ? how.scale : 1 / std::sqrt(static_cast<double>(q.shape[3]));
  Array out(Shape({q.shape[0], q.shape[1], q.shape[2], values.shape[3]}));
  for (std::int64_t row = 0; row < q.shape[0] * q.shape[1] * q.shape[2]; ++row) {
    const std::int64_t i = row % q.shape[2];
    const std::int64_t h = row / q.shape[2] % q.shape[1];
    const std::int64_t b = row / q.shape[2] / q.shape[1];
    const std::int64_t position = places.start(b) + i;
    double sum = 0;
    for (std::int64_t key = 0; key <= position; ++key) {
      if (how.window_left >= 0 && key < position - how.window_left) continue;
      double score = 0;
      for (std::int64_t c = 0; c < q.shape[3]; ++c) {
        score += q.values[row_at(q, b, h, i, c)] * keys.values[places.at(keys, b, h / group, key, c)];
      }
      const double p = std::exp(score * scale);
      sum += p;
      for (std::int64_t c = 0; c < values.shape[3]; ++c) {
        out.values[row_at(out, b, h, i, c)] += p * values.values[places.at(values, b, h / group, key, c)];
      }
    }
    for (std::int64_t c = 0; c < values.shape[3]; ++c) out.values[row_at(out, b, h, i, c)] /= sum;
  }
  return {out};
}

SampleInput list(const Shape& shape, std::vector<double> values) {
  SampleInput input;
  input.value = Array(shape, std::move(values));
  input.dtype = DType::kI64;
  input.is_differentiable = false;
  return input;
}

std::vector<OpSample> attention_samples(Random& random) {
  std::vector<OpSample> all;
  const auto add = [&](const Shape& q, const Shape& keys, std::int64_t e, SampleInput tables, SampleInput starts,
                       const PagedAttentionAttributes& how) {
    all.push_back({.inputs = {normal(random, q), normal(random, keys), normal(random, {keys[0], keys[1], keys[2], e}),
                              std::move(tables), std::move(starts)},
                   .attributes = tensor::Attributes(how)});
  };
  add({2, 4, 1, 5}, {5, 2, 4, 5}, 3, list({2, 3}, {1, 4, 0, 3, 2, 1}), list({2}, {7, 2}), {});
  add({2, 2, 3, 4}, {5, 2, 4, 4}, 4, list({2, 3}, {1, 4, 0, 3, 2, 1}), list({2}, {0, 8}), {.window_left = 2});
  add({1, 4, 9, 19}, {4, 2, 16, 19}, 18, list({1, 2}, {3, 1}), list({1}, {20}), {.window_left = 0, .scale = 0.3});
  add({1, 2, 0, 4}, {4, 2, 4, 4}, 4, list({1, 2}, {3, 1}), list({1}, {3}), {});
  return all;
}

const OpCase kWritePages{{.op = "write_pages", .samples = {}, .why_no_reference = "ops_paged_attention_test"}};
const OpCase kPagedAttention{{.op = "paged_attention", .samples = attention_samples, .reference = attention_reference}};

}  // namespace
}  // namespace tessera::ops::testing
