// Cases of cross entropy: plain loops over rows and classes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/ops/nn/cross_entropy.h"
#include "tessera/ops/testing/op_case.h"

namespace tessera::ops::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

double divisor(const Array& targets, const CrossEntropyAttributes& how) {
  if (how.reduction != "mean") return 1;
  if (how.count > 0) return how.count;
  double count = 0;
  for (const double target : targets.values) count += target != static_cast<double>(how.ignore_index) ? 1 : 0;
  return std::max(count, 1.0);
}

// Returns the target probability of a class.
double wanted(double target, std::size_t i, std::size_t classes, const CrossEntropyAttributes& how) {
  return how.label_smoothing / static_cast<double>(classes) +
         (static_cast<double>(i) == target ? 1 - how.label_smoothing : 0);
}

std::vector<Array> loss_reference(const Array& logits, const Array& targets, const CrossEntropyAttributes& how) {
  const auto classes = static_cast<std::size_t>(logits.shape.dim(-1));
  Array rows(targets.shape);
  Array all(targets.shape);
  double total = 0;
  for (std::size_t row = 0; row < rows.values.size(); ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < classes; ++i) sum += std::exp(logits.values[row * classes + i]);
    all.values[row] = std::log(sum);
    const double target = targets.values[row];
    if (target == static_cast<double>(how.ignore_index)) continue;
    for (std::size_t i = 0; i < classes; ++i) {
      const double share = wanted(target, i, classes, how);
      if (share > 0) rows.values[row] += share * (std::log(sum) - logits.values[row * classes + i]);
    }
    total += rows.values[row];
  }
  if (how.reduction == "none") return {rows, all};
  return {Array(Shape(), total / divisor(targets, how)), all};
}

Array logits_gradient(const Array& grad, const Array& logits, const Array& targets, const Array& all,
                      const Array* all_grad, const CrossEntropyAttributes& how) {
  const auto classes = static_cast<std::size_t>(logits.shape.dim(-1));
  Array dx(logits.shape);
  for (std::size_t row = 0; row < targets.values.size(); ++row) {
    const double target = targets.values[row];
    const bool counts = target != static_cast<double>(how.ignore_index);
    const double by = counts ? grad.values[how.reduction == "none" ? row : 0] / divisor(targets, how) : 0;
    for (std::size_t i = 0; i < classes; ++i) {
      const double p = std::exp(logits.values[row * classes + i] - all.values[row]);
      dx.values[row * classes + i] =
          by * (p - wanted(target, i, classes, how)) + (all_grad != nullptr ? all_grad->values[row] * p : 0);
    }
  }
  return dx;
}

const CrossEntropyAttributes kHow[] = {{.reduction = "mean"},
                                       {.ignore_index = 2, .reduction = "mean"},
                                       {.label_smoothing = 0.2, .reduction = "sum"},
                                       {.ignore_index = 1, .label_smoothing = 0.1, .reduction = "none"},
                                       {.ignore_index = 0, .reduction = "mean", .count = 3}};
struct Sizes {
  Shape rows;
  std::int64_t classes;
};
const Sizes kSizes[] = {{{5}, 7}, {{2, 3}, 33}, {{0}, 4}, {{}, 3}};

std::vector<OpSample> samples(Random& random) {
  std::vector<OpSample> all;
  for (const Sizes& sizes : kSizes) {
    for (const CrossEntropyAttributes& how : kHow) {
      std::vector<std::int64_t> shape(sizes.rows.begin(), sizes.rows.end());
      shape.push_back(sizes.classes);
      all.push_back({.inputs = {normal(random, Shape(std::span<const std::int64_t>(shape))),
                                integers(random, sizes.rows, 0, sizes.classes)},
                     .attributes = tensor::Attributes(how),
                     .outputs = 2});
    }
  }
  return all;
}

std::vector<OpSample> backward_samples(Random& random) {
  std::vector<OpSample> all = samples(random);
  for (OpSample& sample : all) {
    const Shape rows = sample.inputs[1].value.shape;
    const bool is_none = sample.attributes.ref().as<CrossEntropyAttributes>().reduction == "none";
    sample.inputs.insert(sample.inputs.begin(), normal(random, is_none ? rows : Shape()));
    sample.inputs.push_back(uniform(random, rows, 4, 6));
    sample.inputs.push_back(is_none ? normal(random, rows) : absent());
    sample.outputs = 1;
  }
  return all;
}

// Some classes are impossible; a shard may hold only such classes.
std::vector<OpSample> forward_samples(Random& random) {
  std::vector<OpSample> all = samples(random);
  for (const char* reduction : {"none", "mean"}) {
    OpSample& sample =
        all.emplace_back(OpSample{.inputs = {normal(random, {4, 6}), integers(random, {4}, 3, 6)},
                                  .attributes = tensor::Attributes(CrossEntropyAttributes{.reduction = reduction}),
                                  .note = "impossible classes",
                                  .outputs = 2});
    sample.inputs[0].is_differentiable = false;
    for (const std::size_t row : {0, 1, 3}) std::fill_n(sample.inputs[0].value.values.begin() + row * 6, 3, -kInf);
  }
  return all;
}

const OpCase kCrossEntropy{{.op = "cross_entropy",
                            .samples = forward_samples,
                            .reference = [](std::span<const Array> in, const tensor::AttributesRef& attributes) {
                              return loss_reference(in[0], in[1], attributes.as<CrossEntropyAttributes>());
                            }}};
const OpCase kCrossEntropyBackward{
    {.op = "cross_entropy_backward",
     .samples = backward_samples,
     .reference = [](std::span<const Array> in, const tensor::AttributesRef& attributes) -> std::vector<Array> {
       const auto& how = attributes.as<CrossEntropyAttributes>();
       return {logits_gradient(in[0], in[1], in[2], in[3], how.reduction == "none" ? &in[4] : nullptr, how)};
     }}};

const OpCase kCountTargets{
    {.op = "count_targets",
     .samples = [](Random& random) -> std::vector<OpSample> {
       std::vector<OpSample> all;
       for (const DType dtype : {DType::kF32, DType::kF64}) {
         for (const Shape& shape : {Shape{7}, Shape{3, 5}, Shape{0}, Shape{}}) {
           all.push_back({.inputs = {integers(random, shape, 0, 3)},
                          .attributes = tensor::Attributes(CountTargetsAttributes{1, dtype})});
         }
       }
       all.push_back({.inputs = {integers(random, {4}, 2, 3)},
                      .attributes = tensor::Attributes(CountTargetsAttributes{2, DType::kF32}),
                      .note = "none counts"});
       return all;
     },
     .reference = [](std::span<const Array> in, const tensor::AttributesRef& attributes) -> std::vector<Array> {
       const auto ignored = static_cast<double>(attributes.as<CountTargetsAttributes>().ignore_index);
       const auto count = std::ranges::count_if(in[0].values, [&](double target) { return target != ignored; });
       return {Array(Shape(), std::max(1.0, static_cast<double>(count)))};
     }}};

// Returns x times the transpose of weight.
Array logits_of(const Array& x, const Array& weight, const Array& targets) {
  std::vector<std::int64_t> shape(targets.shape.begin(), targets.shape.end());
  shape.push_back(weight.shape[0]);
  Array logits((Shape(std::span<const std::int64_t>(shape))));
  const auto classes = static_cast<std::size_t>(weight.shape[0]);
  const auto features = static_cast<std::size_t>(weight.shape[1]);
  for (std::size_t i = 0; i < logits.values.size(); ++i) {
    for (std::size_t f = 0; f < features; ++f) {
      logits.values[i] += x.values[i / classes * features + f] * weight.values[i % classes * features + f];
    }
  }
  return logits;
}

std::vector<Array> linear_backward_reference(std::span<const Array> in, const tensor::AttributesRef& attributes) {
  const auto& how = attributes.as<CrossEntropyAttributes>();
  const Array& x = in[1];
  const Array& weight = in[2];
  const Array gradients = logits_gradient(in[0], logits_of(x, weight, in[3]), in[3], in[4],
                                          how.reduction == "none" ? &in[5] : nullptr, how);
  const auto classes = static_cast<std::size_t>(weight.shape[0]);
  const auto features = static_cast<std::size_t>(weight.shape[1]);
  Array dx(x.shape);
  Array dweight(weight.shape);
  for (std::size_t i = 0; i < gradients.values.size(); ++i) {
    for (std::size_t f = 0; f < features; ++f) {
      const std::size_t of_x = i / classes * features + f;
      const std::size_t of_weight = i % classes * features + f;
      dx.values[of_x] += gradients.values[i] * weight.values[of_weight];
      dweight.values[of_weight] += gradients.values[i] * x.values[of_x];
    }
  }
  return {dx, dweight};
}

std::vector<OpSample> linear_samples(Random& random) {
  std::vector<OpSample> all;
  for (const OpSample& sample : samples(random)) {
    const Shape logits = sample.inputs[0].value.shape;
    std::vector<std::int64_t> shape(logits.begin(), logits.end());
    shape.back() = 3;
    all.push_back({.inputs = {uniform(random, Shape(std::span<const std::int64_t>(shape)), -1, 1),
                              uniform(random, {logits.dim(-1), 3}, -1, 1), sample.inputs[1]},
                   .attributes = sample.attributes,
                   .outputs = 2});
  }
  return all;
}

std::vector<OpSample> linear_backward_samples(Random& random) {
  std::vector<OpSample> all = linear_samples(random);
  for (OpSample& sample : all) {
    const Shape rows = sample.inputs[2].value.shape;
    const bool is_none = sample.attributes.ref().as<CrossEntropyAttributes>().reduction == "none";
    sample.inputs.insert(sample.inputs.begin(), normal(random, is_none ? rows : Shape()));
    sample.inputs.push_back(uniform(random, rows, 4, 6));
    sample.inputs.push_back(is_none ? normal(random, rows) : absent());
  }
  return all;
}

const OpCase kLinearCrossEntropy{{.op = "linear_cross_entropy",
                                  .samples = linear_samples,
                                  .reference = [](std::span<const Array> in, const tensor::AttributesRef& attributes) {
                                    return loss_reference(logits_of(in[0], in[1], in[2]), in[2],
                                                          attributes.as<CrossEntropyAttributes>());
                                  }}};
const OpCase kLinearCrossEntropyBackward{{.op = "linear_cross_entropy_backward",
                                          .samples = linear_backward_samples,
                                          .reference = linear_backward_reference}};

// A loss over all classes, and its gradients.
std::vector<OpSample> with_gradients_samples(Random& random) {
  std::vector<OpSample> all = linear_samples(random);
  std::erase_if(all, [](const OpSample& sample) {
    return sample.attributes.ref().as<CrossEntropyAttributes>().reduction == "none";
  });
  for (OpSample& sample : all) sample.outputs = 3;
  return all;
}
const OpCase kLinearCrossEntropyWithGradients{
    {.op = "linear_cross_entropy_with_gradients",
     .samples = with_gradients_samples,
     .reference = [](std::span<const Array> in, const tensor::AttributesRef& attributes) -> std::vector<Array> {
       const auto loss = loss_reference(logits_of(in[0], in[1], in[2]), in[2], attributes.as<CrossEntropyAttributes>());
       const Array given[] = {Array(Shape(), 1), in[0], in[1], in[2], loss[1]};
       const std::vector<Array> gradients = linear_backward_reference(given, attributes);
       return {loss[0], gradients[0], gradients[1]};
     }}};

}  // namespace
}  // namespace tessera::ops::testing
