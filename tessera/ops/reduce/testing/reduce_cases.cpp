// Cases of the reduce family. A reference collects the elements of each result and folds them by a plain function.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/testing/op_case.h"

namespace tessera::ops::testing {
namespace {

using tensor::Attributes;
using tensor::AttributesRef;
using tensor::IntList;
using Arrays = std::span<const Array>;
using Values = std::vector<double>;

template <class A>
Attributes kept(const A& attributes) {
  return Attributes(AttributesRef(attributes));
}

template <class F>
std::vector<Array> folded(const Array& x, const IntList& dims, bool keepdim, const F& fold) {
  std::vector<bool> goes(x.shape.size(), dims.empty());
  if (!x.shape.values().empty()) {
    for (const auto d : dims) goes[static_cast<std::size_t>(d < 0 ? d + x.shape.ndim() : d)] = true;
  }
  std::vector<std::int64_t> sizes;
  for (std::size_t d = 0; d < x.shape.size(); ++d) sizes.push_back(goes[d] ? 1 : x.shape[d]);
  const Shape whole{std::span<const std::int64_t>(sizes)};
  std::vector<Values> parts(static_cast<std::size_t>(whole.numel()));
  for (std::int64_t i = 0; i < x.shape.numel(); ++i) {
    const auto index = digits(x.shape, i);
    std::int64_t at = 0;
    for (std::size_t d = 0; d < index.size(); ++d) at = at * sizes[d] + (goes[d] ? 0 : index[d]);
    parts[static_cast<std::size_t>(at)].push_back(x.values[static_cast<std::size_t>(i)]);
  }
  std::vector<std::int64_t> left;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (!goes[d] || keepdim) left.push_back(sizes[d]);
  }
  Array out{Shape(std::span<const std::int64_t>(left))};
  for (std::size_t i = 0; i < parts.size(); ++i) out.values[i] = fold(parts[i]);
  return {out};
}

double sum_of(const Values& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

struct Selection {
  Shape shape;
  IntList dims;
  bool keepdim;
};
// Rows, columns, all, several dimensions, none left, nothing to reduce.
std::vector<Selection> selections() {
  return {{{5, 7}, {1}, false},        {{5, 7}, {0}, true},     {{3, 4, 5}, {-1, 0}, false},
          {{3, 4, 5}, {}, true},       {{3, 4, 5}, {1}, false}, {{}, {}, false},
          {{4, 0}, {1}, false},        {{0, 3}, {1}, false},    {{70, 33}, {0}, false},
          {{2, 3, 2, 2}, {1, 3}, true}};
}

template <class Make>
std::vector<OpSample> samples_over(Random& random, const Make& make, bool with_empty = true) {
  std::vector<OpSample> samples;
  for (const Selection& selection : selections()) {
    if (!with_empty && selection.shape.is_empty()) continue;
    samples.push_back(
        {.inputs = {normal(random, selection.shape)}, .attributes = make(selection.dims, selection.keepdim)});
  }
  return samples;
}

std::vector<OpSample> plain_samples(Random& random) {
  return samples_over(random, [](const IntList& dims, bool keepdim) { return kept(ReduceAttributes{dims, keepdim}); });
}

const OpCase kSum{{.op = "sum",
                   .samples =
                       [](Random& random) {
                         auto samples = samples_over(random, [](const IntList& dims, bool keepdim) {
                           return kept(SumAttributes{dims, keepdim, DType::kF64});
                         });
                         samples.push_back({.inputs = {integers(random, {5, 7}, -9, 9)},
                                            .attributes = kept(SumAttributes{{0}, false, DType::kI64})});
                         samples.push_back({.inputs = {bools(random, {5, 7})},
                                            .attributes = kept(SumAttributes{{1}, false, DType::kI64})});
                         return samples;
                       },
                   .reference =
                       [](Arrays in, const AttributesRef& ref) {
                         const auto& a = ref.as<SumAttributes>();
                         return folded(in[0], a.dims, a.keepdim, sum_of);
                       }}};

const OpCase kMean{{.op = "mean",
                    .samples =
                        [](Random& random) {
                          return samples_over(random, [](const IntList& dims, bool keepdim) {
                            return kept(MeanAttributes{dims, keepdim, -1});
                          });
                        },
                    .reference =
                        [](Arrays in, const AttributesRef& ref) {
                          const auto& a = ref.as<MeanAttributes>();
                          return folded(in[0], a.dims, a.keepdim, [](const Values& values) {
                            return sum_of(values) / static_cast<double>(values.size());
                          });
                        }}};

template <class F>
std::vector<Array> plain_reference(Arrays in, const AttributesRef& ref, const F& fold) {
  const auto& a = ref.as<ReduceAttributes>();
  return folded(in[0], a.dims, a.keepdim, fold);
}

const OpCase kProd{{.op = "prod",
                    .samples =
                        [](Random& random) {
                          auto samples = plain_samples(random);
                          for (OpSample& sample : samples) {
                            for (double& value : sample.inputs[0].value.values)
                              value = value < 0 ? value - 0.5 : value + 0.5;
                          }
                          std::erase_if(samples,
                                        [](const OpSample& s) { return s.inputs[0].value.shape.numel() > 100; });
                          return samples;
                        },
                    .reference =
                        [](Arrays in, const AttributesRef& ref) {
                          return plain_reference(in, ref, [](const Values& values) {
                            return std::accumulate(values.begin(), values.end(), 1.0, std::multiplies<>());
                          });
                        },
                    .tolerance = 3e-5}};

constexpr double kInf = std::numeric_limits<double>::infinity();

const OpCase kAmax{{.op = "amax", .samples = plain_samples, .reference = [](Arrays in, const AttributesRef& ref) {
                      return plain_reference(in, ref, [](const Values& values) {
                        return std::accumulate(values.begin(), values.end(), -kInf,
                                               [](double a, double b) { return std::max(a, b); });
                      });
                    }}};
const OpCase kAmin{{.op = "amin", .samples = plain_samples, .reference = [](Arrays in, const AttributesRef& ref) {
                      return plain_reference(in, ref, [](const Values& values) {
                        return std::accumulate(values.begin(), values.end(), kInf,
                                               [](double a, double b) { return std::min(a, b); });
                      });
                    }}};

std::vector<OpSample> truth_samples(Random& random) {
  auto samples = plain_samples(random);
  for (OpSample& sample : samples) {
    for (double& value : sample.inputs[0].value.values) value = std::abs(value) < 0.3 ? 0 : value;
    sample.inputs[0].is_differentiable = false;
  }
  samples.push_back({.inputs = {bools(random, {5, 3})}, .attributes = kept(ReduceAttributes{{1}, false})});
  return samples;
}

const OpCase kAny{{.op = "any", .samples = truth_samples, .reference = [](Arrays in, const AttributesRef& ref) {
                     return plain_reference(in, ref, [](const Values& values) {
                       return std::ranges::any_of(values, [](double v) { return v != 0; }) ? 1.0 : 0.0;
                     });
                   }}};
const OpCase kAll{{.op = "all", .samples = truth_samples, .reference = [](Arrays in, const AttributesRef& ref) {
                     return plain_reference(in, ref, [](const Values& values) {
                       return std::ranges::all_of(values, [](double v) { return v != 0; }) ? 1.0 : 0.0;
                     });
                   }}};

}  // namespace
}  // namespace tessera::ops::testing
