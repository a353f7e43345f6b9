// Cases of the norms: plain loops over rows.
#include <cmath>

#include "tessera/ops/nn/norm.h"
#include "tessera/ops/testing/op_case.h"

namespace tessera::ops::testing {
namespace {

Shape rows_of(const Shape& shape) { return Shape(shape.values().first(shape.size() - 1)); }
double value_or(const Array& array, bool is_there, std::size_t i, double otherwise) {
  return is_there ? array.values[i] : otherwise;
}

// Computes layer_norm if `bias` is given, otherwise rms_norm.
std::vector<Array> norm_reference(const Array& x, const Array& weight, const Array* bias, double eps) {
  const auto n = static_cast<std::size_t>(x.shape.dim(-1));
  Array y(x.shape);
  Array mean(rows_of(x.shape));
  Array rstd(rows_of(x.shape));
  for (std::size_t row = 0; row < mean.values.size(); ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += x.values[row * n + i];
    const double center = bias != nullptr ? sum / static_cast<double>(n) : 0;
    double squares = 0;
    for (std::size_t i = 0; i < n; ++i) squares += std::pow(x.values[row * n + i] - center, 2);
    mean.values[row] = center;
    rstd.values[row] = 1 / std::sqrt(squares / static_cast<double>(n) + eps);
    for (std::size_t i = 0; i < n; ++i) {
      y.values[row * n + i] =
          (x.values[row * n + i] - center) * rstd.values[row] * value_or(weight, weight.shape.size() == 1, i, 1) +
          (bias != nullptr ? value_or(*bias, bias->shape.size() == 1, i, 0) : 0);
    }
  }
  if (bias == nullptr) return {y, rstd};
  return {y, mean, rstd};
}

std::vector<Array> backward_reference(std::span<const Array> in, bool is_layer_norm) {
  const Array& grad = in[0];
  const Array& x = in[1];
  const Array& weight = in[2];
  const auto n = static_cast<std::size_t>(x.shape.dim(-1));
  const Array& rstd = in[is_layer_norm ? 4 : 3];
  Array dx(x.shape);
  Array dweight(Shape({x.shape.dim(-1)}));
  Array dbias = dweight;
  for (std::size_t row = 0; row < rstd.values.size(); ++row) {
    const double mean = is_layer_norm ? in[3].values[row] : 0;
    double sum = 0;
    double dot = 0;
    const auto g = [&](std::size_t i) {
      return grad.values[row * n + i] * value_or(weight, weight.shape.size() == 1, i, 1);
    };
    const auto hat = [&](std::size_t i) { return (x.values[row * n + i] - mean) * rstd.values[row]; };
    for (std::size_t i = 0; i < n; ++i) {
      sum += is_layer_norm ? g(i) : 0;
      dot += g(i) * hat(i);
      dweight.values[i] += grad.values[row * n + i] * hat(i);
      dbias.values[i] += grad.values[row * n + i];
    }
    for (std::size_t i = 0; i < n; ++i) {
      dx.values[row * n + i] =
          rstd.values[row] * (g(i) - sum / static_cast<double>(n) - hat(i) * dot / static_cast<double>(n));
    }
  }
  if (!is_layer_norm) return {dx, dweight};
  return {dx, dweight, dbias};
}

const Shape kShapes[] = {{5, 7}, {3, 4, 33}, {9}, {0, 5}};

std::vector<OpSample> samples(Random& random, bool is_layer_norm) {
  std::vector<OpSample> all;
  for (const Shape& shape : kShapes) {
    for (const bool has_parameters : {true, false}) {
      const Shape row({shape.dim(-1)});
      OpSample sample;
      sample.inputs = {normal(random, shape), has_parameters ? normal(random, row) : absent()};
      if (is_layer_norm) sample.inputs.push_back(has_parameters ? normal(random, row) : absent());
      sample.attributes = tensor::Attributes(NormalizationAttributes{1e-3});
      sample.outputs = is_layer_norm ? 3 : 2;
      all.push_back(std::move(sample));
    }
  }
  return all;
}

std::vector<OpSample> backward_samples(Random& random, bool is_layer_norm) {
  std::vector<OpSample> all;
  for (const Shape& shape : kShapes) {
    for (const bool has_weight : {true, false}) {
      OpSample sample;
      sample.inputs = {normal(random, shape), normal(random, shape),
                       has_weight ? normal(random, {shape.dim(-1)}) : absent()};
      if (is_layer_norm) sample.inputs.push_back(normal(random, rows_of(shape)));
      sample.inputs.push_back(uniform(random, rows_of(shape), 0.5, 1.5));
      sample.outputs = is_layer_norm ? 3 : 2;
      all.push_back(std::move(sample));
    }
  }
  return all;
}

const OpCase kLayerNorm{{.op = "layer_norm",
                         .samples = [](Random& random) { return samples(random, true); },
                         .reference =
                             [](std::span<const Array> in, const tensor::AttributesRef& attributes) {
                               return norm_reference(in[0], in[1], &in[2],
                                                     attributes.as<NormalizationAttributes>().eps);
                             }}};
const OpCase kRmsNorm{{.op = "rms_norm",
                       .samples = [](Random& random) { return samples(random, false); },
                       .reference =
                           [](std::span<const Array> in, const tensor::AttributesRef& attributes) {
                             return norm_reference(in[0], in[1], nullptr, attributes.as<NormalizationAttributes>().eps);
                           }}};
const OpCase kLayerNormBackward{
    {.op = "layer_norm_backward",
     .samples = [](Random& random) { return backward_samples(random, true); },
     .reference = [](std::span<const Array> in,
                     const tensor::AttributesRef&) { return backward_reference(in, true); }}};
const OpCase kRmsNormBackward{
    {.op = "rms_norm_backward",
     .samples = [](Random& random) { return backward_samples(random, false); },
     .reference = [](std::span<const Array> in,
                     const tensor::AttributesRef&) { return backward_reference(in, false); }}};

}  // namespace
}  // namespace tessera::ops::testing
