// Cases of updates over lists: two or three tensors each, element by element.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tessera/ops/testing/op_case.h"
#include "tessera/ops/update/update.h"

namespace tessera::ops::testing {
namespace {

const Shape kShapes[] = {{5, 7}, {3}, {}};

SampleInput scalar(double value, std::optional<DType> dtype = {}) {
  SampleInput input;
  input.value = Array(Shape(), value);
  input.dtype = dtype;
  input.is_differentiable = false;
  return input;
}

// `lists` lists of tensors; those from `positive` on hold positive numbers.
std::vector<SampleInput> lists_of(Random& random, std::size_t lists, std::size_t positive) {
  std::vector<SampleInput> inputs;
  for (std::size_t list = 0; list < lists; ++list) {
    for (const Shape& shape : kShapes) {
      inputs.push_back(list >= positive ? uniform(random, shape, 0.1, 1) : normal(random, shape));
      inputs.back().is_differentiable = false;
    }
  }
  return inputs;
}

constexpr std::size_t kCount = std::size(kShapes);

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The p-norm of the elements of some tensors.
double norm_of(std::span<const Array> all, double p) {
  double sum = 0;
  double most = 0;
  for (const Array& x : all) {
    for (const double value : x.values) {
      sum += std::pow(std::abs(value), p);
      most = std::max(most, std::abs(value));
    }
  }
  return p == kInfinity ? most : std::pow(sum, 1 / p);
}

const OpCase kForeachAdd{{.op = "foreach_add",
                          .samples = [](Random& random) -> std::vector<OpSample> {
                            return {{.inputs = lists_of(random, 2, 2),
                                     .attributes = tensor::Attributes(ForeachAttributes{-0.5}),
                                     .outputs = static_cast<int>(kCount)}};
                          },
                          .reference =
                              [](std::span<const Array> in, const tensor::AttributesRef& attributes) {
                                std::vector<Array> out(in.begin(), in.begin() + kCount);
                                for (std::size_t i = 0; i < kCount; ++i) {
                                  for (std::size_t e = 0; e < out[i].values.size(); ++e) {
                                    out[i].values[e] +=
                                        attributes.as<ForeachAttributes>().by * in[kCount + i].values[e];
                                  }
                                }
                                return out;
                              }}};

const OpCase kForeachMul{{.op = "foreach_mul",
                          .samples = [](Random& random) -> std::vector<OpSample> {
                            std::vector<OpSample> all;
                            for (const bool has_factor : {true, false}) {
                              OpSample sample{.inputs = lists_of(random, 1, 1),
                                              .attributes = tensor::Attributes(ForeachAttributes{1.5}),
                                              .outputs = static_cast<int>(kCount)};
                              sample.inputs.push_back(has_factor ? scalar(0.25) : absent());
                              all.push_back(std::move(sample));
                            }
                            return all;
                          },
                          .reference =
                              [](std::span<const Array> in, const tensor::AttributesRef& attributes) {
                                std::vector<Array> out(in.begin(), in.begin() + kCount);
                                const double factor = in[kCount].values.empty() ? 1 : in[kCount].values[0];
                                for (Array& array : out) {
                                  for (double& value : array.values)
                                    value *= attributes.as<ForeachAttributes>().by * factor;
                                }
                                return out;
                              }}};

const OpCase kForeachNorm{{.op = "foreach_norm",
                           .samples = [](Random& random) -> std::vector<OpSample> {
                             std::vector<OpSample> all;
                             for (const double p : {2.0, 1.0, 3.0, kInfinity}) {
                               all.push_back({.inputs = lists_of(random, 1, 1),
                                              .attributes = tensor::Attributes(ForeachNormAttributes{p}),
                                              .outputs = static_cast<int>(kCount)});
                             }
                             return all;
                           },
                           .reference =
                               [](std::span<const Array> in, const tensor::AttributesRef& attributes) {
                                 const double p = attributes.as<ForeachNormAttributes>().p;
                                 std::vector<Array> out;
                                 for (const Array& x : in) out.emplace_back(Shape(), norm_of({&x, 1}, p));
                                 return out;
                               }}};

const OpCase kGradNorm{
    {.op = "grad_norm",
     .samples = [](Random& random) -> std::vector<OpSample> {
       std::vector<OpSample> all;
       for (const auto& [bound, p] :
            std::vector<std::pair<double, double>>{{0.5, 2}, {1000, 2}, {0.5, 1}, {0.5, kInfinity}, {0.5, 1.5}}) {
         all.push_back({.inputs = lists_of(random, 1, 1),
                        .attributes = tensor::Attributes(GradNormAttributes{bound, p}),
                        .outputs = 2});
       }
       return all;
     },
     .reference = [](std::span<const Array> in, const tensor::AttributesRef& attributes) -> std::vector<Array> {
       const auto& how = attributes.as<GradNormAttributes>();
       const double norm = norm_of(in, how.p);
       return {Array(Shape(), norm), Array(Shape(), std::min(1.0, how.max_norm / norm))};
     }}};

// Values of the singles after the lists; absent ones are `otherwise`.
double single(std::span<const Array> in, std::size_t at, bool is_there, double otherwise) {
  return is_there ? in[at].values[0] : otherwise;
}

// Samples with clip and skip in all ways; singles before them are given.
std::vector<OpSample> step_samples(Random& random, std::size_t lists, std::size_t positive, int outputs,
                                   const std::vector<SampleInput>& singles, const tensor::Attributes& attributes) {
  std::vector<OpSample> all;
  for (const int way : {0, 1, 2}) {
    OpSample sample{.inputs = lists_of(random, lists, positive), .attributes = attributes, .outputs = outputs};
    sample.inputs.insert(sample.inputs.end(), singles.begin(), singles.end());
    sample.inputs.push_back(way == 0 ? absent() : scalar(0.5));
    sample.inputs.push_back(way == 0 ? absent() : scalar(way == 2 ? 1 : 0, DType::kBool));
    all.push_back(std::move(sample));
  }
  return all;
}

std::vector<Array> sgd_reference(std::span<const Array> in, const SgdAttributes& how, bool has_momenta) {
  const std::size_t lists = has_momenta ? 3 : 2;
  const double rate = in[lists * kCount].values[0];
  const bool is_given = !in[lists * kCount + 1].values.empty();
  const double clip = single(in, lists * kCount + 1, is_given, 1);
  std::vector<Array> out(in.begin(), in.begin() + kCount);
  if (has_momenta) out.insert(out.end(), in.begin() + 2 * kCount, in.begin() + 3 * kCount);
  if (single(in, lists * kCount + 2, is_given, 0) != 0) return out;
  for (std::size_t i = 0; i < kCount; ++i) {
    for (std::size_t e = 0; e < out[i].values.size(); ++e) {
      double grad = in[kCount + i].values[e] * clip + how.weight_decay * in[i].values[e];
      if (has_momenta) {
        double& momentum = out[kCount + i].values[e];
        momentum = how.momentum * momentum + grad;
        grad = how.is_nesterov ? grad + how.momentum * momentum : momentum;
      }
      out[i].values[e] -= rate * grad;
    }
  }
  return out;
}

const OpCase kSgd{{.op = "sgd",
                   .samples =
                       [](Random& random) {
                         return step_samples(random, 2, 2, static_cast<int>(kCount), {scalar(0.25)},
                                             tensor::Attributes(SgdAttributes{.weight_decay = 0.125}));
                       },
                   .reference =
                       [](std::span<const Array> in, const tensor::AttributesRef& attributes) {
                         return sgd_reference(in, attributes.as<SgdAttributes>(), false);
                       }}};

const OpCase kSgdMomentum{{.op = "sgd_momentum",
                           .samples =
                               [](Random& random) {
                                 std::vector<OpSample> all;
                                 for (const bool is_nesterov : {false, true}) {
                                   for (OpSample& sample :
                                        step_samples(random, 3, 3, static_cast<int>(2 * kCount), {scalar(0.25)},
                                                     tensor::Attributes(SgdAttributes{0.5, 0.125, is_nesterov}))) {
                                     all.push_back(std::move(sample));
                                   }
                                 }
                                 return all;
                               },
                           .reference =
                               [](std::span<const Array> in, const tensor::AttributesRef& attributes) {
                                 return sgd_reference(in, attributes.as<SgdAttributes>(), true);
                               }}};

std::vector<Array> adamw_reference(std::span<const Array> in, const AdamWAttributes& how) {
  const double done = in[4 * kCount].values[0];
  const double rate = in[4 * kCount + 1].values[0];
  const bool is_given = !in[4 * kCount + 2].values.empty();
  const double clip = single(in, 4 * kCount + 2, is_given, 1);
  std::vector<Array> out(in.begin(), in.begin() + kCount);
  out.insert(out.end(), in.begin() + 2 * kCount, in.begin() + 4 * kCount);
  out.push_back(in[4 * kCount]);
  if (single(in, 4 * kCount + 3, is_given, 0) != 0) return out;
  for (std::size_t i = 0; i < kCount; ++i) {
    for (std::size_t e = 0; e < out[i].values.size(); ++e) {
      const double grad = in[kCount + i].values[e] * clip;
      double& first = out[kCount + i].values[e];
      double& second = out[2 * kCount + i].values[e];
      first = how.beta1 * first + (1 - how.beta1) * grad;
      second = how.beta2 * second + (1 - how.beta2) * grad * grad;
      const double mean = first / (1 - std::pow(how.beta1, done + 1));
      const double root = std::sqrt(second / (1 - std::pow(how.beta2, done + 1))) + how.eps;
      out[i].values[e] -= rate * (mean / root + how.weight_decay * in[i].values[e]);
    }
  }
  out[3 * kCount].values[0] = done + 1;
  return out;
}

const OpCase kAdamW{{.op = "adamw",
                     .samples =
                         [](Random& random) {
                           return step_samples(random, 4, 3, static_cast<int>(3 * kCount + 1),
                                               {scalar(4, DType::kI64), scalar(0.125)},
                                               tensor::Attributes(AdamWAttributes{0.875, 0.75, 1e-3, 0.25}));
                         },
                     .reference =
                         [](std::span<const Array> in, const tensor::AttributesRef& attributes) {
                           return adamw_reference(in, attributes.as<AdamWAttributes>());
                         }}};

std::vector<Array> lion_reference(std::span<const Array> in, const LionAttributes& how) {
  const double rate = in[3 * kCount].values[0];
  const bool is_given = !in[3 * kCount + 1].values.empty();
  const double clip = single(in, 3 * kCount + 1, is_given, 1);
  std::vector<Array> out(in.begin(), in.begin() + kCount);
  out.insert(out.end(), in.begin() + 2 * kCount, in.begin() + 3 * kCount);
  if (single(in, 3 * kCount + 2, is_given, 0) != 0) return out;
  for (std::size_t i = 0; i < kCount; ++i) {
    for (std::size_t e = 0; e < out[i].values.size(); ++e) {
      const double grad = in[kCount + i].values[e] * clip;
      double& mean = out[kCount + i].values[e];
      const double between = how.beta1 * mean + (1 - how.beta1) * grad;
      const double sign = between > 0 ? 1 : between < 0 ? -1 : 0;
      mean = how.beta2 * mean + (1 - how.beta2) * grad;
      out[i].values[e] -= rate * (sign + how.weight_decay * in[i].values[e]);
    }
  }
  return out;
}

const OpCase kLion{{.op = "lion",
                    .samples =
                        [](Random& random) {
                          return step_samples(random, 3, 3, static_cast<int>(2 * kCount), {scalar(0.125)},
                                              tensor::Attributes(LionAttributes{0.875, 0.75, 0.25}));
                        },
                    .reference =
                        [](std::span<const Array> in, const tensor::AttributesRef& attributes) {
                          return lion_reference(in, attributes.as<LionAttributes>());
                        }}};

}  // namespace
}  // namespace tessera::ops::testing
