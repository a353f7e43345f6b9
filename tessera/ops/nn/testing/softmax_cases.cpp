// Cases of softmax, log_softmax and their gradients: plain loops along the dimension.
#include <cmath>

#include "tessera/ops/nn/softmax.h"
#include "tessera/ops/testing/op_case.h"

namespace tessera::ops::testing {
namespace {

// Calls body(offset, step, count) for each row along `dim`.
template <class F>
void for_rows(const Shape& shape, std::int64_t dim, const F& body) {
  const auto ndim = static_cast<std::int64_t>(shape.size());
  if (ndim == 0) {
    body(0, 1, 1);
    return;
  }
  const auto at = static_cast<std::size_t>(dim < 0 ? dim + ndim : dim);
  std::int64_t inner = 1;
  for (std::size_t i = at + 1; i < shape.size(); ++i) inner *= shape[i];
  std::int64_t outer = 1;
  for (std::size_t i = 0; i < at; ++i) outer *= shape[i];
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < inner; ++i) body(o * shape[at] * inner + i, inner, shape[at]);
  }
}

std::vector<Array> softmax_reference(const Array& x, std::int64_t dim, bool is_log) {
  Array y(x.shape);
  for_rows(x.shape, dim, [&](std::int64_t offset, std::int64_t step, std::int64_t count) {
    const auto at = [&](std::int64_t i) { return static_cast<std::size_t>(offset + i * step); };
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i) sum += std::exp(x.values[at(i)]);
    for (std::int64_t i = 0; i < count; ++i) {
      y.values[at(i)] = is_log ? x.values[at(i)] - std::log(sum) : std::exp(x.values[at(i)]) / sum;
    }
  });
  return {y};
}

std::vector<Array> backward_reference(const Array& grad, const Array& y, std::int64_t dim, bool is_log) {
  Array dx(y.shape);
  for_rows(y.shape, dim, [&](std::int64_t offset, std::int64_t step, std::int64_t count) {
    const auto at = [&](std::int64_t i) { return static_cast<std::size_t>(offset + i * step); };
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i) sum += grad.values[at(i)] * (is_log ? 1 : y.values[at(i)]);
    for (std::int64_t i = 0; i < count; ++i) {
      dx.values[at(i)] =
          is_log ? grad.values[at(i)] - std::exp(y.values[at(i)]) * sum : y.values[at(i)] * (grad.values[at(i)] - sum);
    }
  });
  return {dx};
}

const Shape kShapes[] = {{5, 7}, {3, 4, 5}, {2, 33}, {}, {3, 0}, {0, 3}};

std::vector<OpSample> samples(Random& random, bool is_backward) {
  std::vector<OpSample> all;
  for (const Shape& shape : kShapes) {
    for (const std::int64_t dim : {std::int64_t{-1}, std::int64_t{0}}) {
      OpSample sample;
      sample.inputs.push_back(normal(random, shape));
      if (is_backward) sample.inputs.push_back(uniform(random, shape, -3, 0));
      sample.attributes = tensor::Attributes(SoftmaxAttributes{dim});
      all.push_back(std::move(sample));
    }
  }
  return all;
}

const OpCase kSoftmax{{.op = "softmax",
                       .samples = [](Random& random) { return samples(random, false); },
                       .reference =
                           [](std::span<const Array> in, const tensor::AttributesRef& attributes) {
                             return softmax_reference(in[0], attributes.as<SoftmaxAttributes>().dim, false);
                           }}};
const OpCase kLogSoftmax{{.op = "log_softmax",
                          .samples = [](Random& random) { return samples(random, false); },
                          .reference =
                              [](std::span<const Array> in, const tensor::AttributesRef& attributes) {
                                return softmax_reference(in[0], attributes.as<SoftmaxAttributes>().dim, true);
                              }}};
const OpCase kSoftmaxBackward{{.op = "softmax_backward",
                               .samples = [](Random& random) { return samples(random, true); },
                               .reference =
                                   [](std::span<const Array> in, const tensor::AttributesRef& attributes) {
                                     return backward_reference(in[0], in[1], attributes.as<SoftmaxAttributes>().dim,
                                                               false);
                                   }}};
const OpCase kLogSoftmaxBackward{{.op = "log_softmax_backward",
                                  .samples = [](Random& random) { return samples(random, true); },
                                  .reference =
                                      [](std::span<const Array> in, const tensor::AttributesRef& attributes) {
                                        return backward_reference(in[0], in[1], attributes.as<SoftmaxAttributes>().dim,
                                                                  true);
                                      }}};

}  // namespace
}  // namespace tessera::ops::testing
