// Cases of the reduce family. A reference collects the elements of each result and reduces them with a plain function.
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
// Rows, columns, all, several dimensions, no remaining dimension, nothing to reduce.
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
    OpSample sample{.inputs = {normal(random, selection.shape)}, .attributes = make(selection.dims, selection.keepdim)};
    sample.inputs[0].is_differentiable = !selection.shape.is_empty();  // some empty reductions are not finite
    samples.push_back(std::move(sample));
  }
  return samples;
}

std::vector<OpSample> plain_samples(Random& random) {
  return samples_over(random, [](const IntList& dims, bool keepdim) {
    return Attributes(ReduceAttributes{dims, keepdim});
  });
}

const OpCase kSum{{.op = "sum",
                   .samples =
                       [](Random& random) {
                         auto samples = samples_over(random, [](const IntList& dims, bool keepdim) {
                           return Attributes(SumAttributes{dims, keepdim, DType::kF64});
                         });
                         samples.push_back({.inputs = {integers(random, {5, 7}, -9, 9)},
                                            .attributes = Attributes(SumAttributes{{0}, false, DType::kI64})});
                         samples.push_back({.inputs = {bools(random, {5, 7})},
                                            .attributes = Attributes(SumAttributes{{1}, false, DType::kI64})});
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
                            return Attributes(MeanAttributes{dims, keepdim, -1});
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
  samples.push_back({.inputs = {bools(random, {5, 3})}, .attributes = Attributes(ReduceAttributes{{1}, false})});
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

const OpCase kVar{{.op = "var",
                   .samples =
                       [](Random& random) {
                         auto samples = samples_over(random, [](const IntList& dims, bool keepdim) {
                           return Attributes(VarAttributes{dims, keepdim, 1});
                         });
                         for (OpSample& sample : samples) {  // not finite for one element
                           sample.inputs[0].is_differentiable &= sample.inputs[0].value.values.size() > 1;
                         }
                         samples.push_back({.inputs = {uniform(random, {5, 7}, 1000, 1001)},
                                            .attributes = Attributes(VarAttributes{{1}, false, 0})});
                         return samples;
                       },
                   .reference =
                       [](Arrays in, const AttributesRef& ref) {
                         const auto& a = ref.as<VarAttributes>();
                         return folded(in[0], a.dims, a.keepdim, [&](const Values& values) {
                           const auto n = static_cast<double>(values.size());
                           double squares = 0;
                           for (const double v : values) squares += std::pow(v - sum_of(values) / n, 2);
                           return squares / std::max(0.0, n - static_cast<double>(a.correction));
                         });
                       }}};

const OpCase kDeviation{
    {.op = "deviation",
     .samples = [](Random& random) -> std::vector<OpSample> {
       return {{.inputs = {normal(random, {5, 7})}, .attributes = Attributes(DeviationAttributes{{1}})},
               {.inputs = {normal(random, {3, 4, 5})}, .attributes = Attributes(DeviationAttributes{{0, -1}})},
               {.inputs = {normal(random, {6})}, .attributes = Attributes(DeviationAttributes{{}})},
               {.inputs = {normal(random, {})}, .attributes = Attributes(DeviationAttributes{{}})}};
     },
     .reference =
         [](Arrays in, const AttributesRef& ref) {
           const auto& dims = ref.as<DeviationAttributes>().dims;
           const Array means = folded(in[0], dims, true, [](const Values& values) {
             return sum_of(values) / static_cast<double>(values.size());
           })[0];
           Array out = in[0];
           for (std::int64_t i = 0; i < out.shape.numel(); ++i) {
             const auto index = digits(out.shape, i);
             std::int64_t at = 0;
             for (std::size_t d = 0; d < index.size(); ++d) {
               at = at * means.shape[d] + (means.shape[d] == 1 ? 0 : index[d]);
             }
             out.values[static_cast<std::size_t>(i)] -= means.values[static_cast<std::size_t>(at)];
           }
           return std::vector<Array>{out};
         }}};

double norm_of(const Values& values, double p) {
  double sum = p == -kInf ? kInf : 0;
  for (const double v : values) {
    const double size = std::abs(v);
    if (std::isinf(p)) {
      sum = p > 0 ? std::max(sum, size) : std::min(sum, size);
    } else {
      sum += p == 0 ? (v != 0 ? 1 : 0) : std::pow(size, p);
    }
  }
  return std::isinf(p) || p == 0 ? sum : std::pow(sum, 1 / p);
}

const OpCase kNorm{{.op = "norm",
                    .samples =
                        [](Random& random) {
                          std::vector<OpSample> samples;
                          for (const double p : {2.0, 1.0, 3.0, 0.0, kInf, -kInf}) {
                            for (OpSample& sample : samples_over(
                                     random,
                                     [&](const IntList&dims, bool keepdim) {
                                       return Attributes(PNormAttributes{p, dims, keepdim});
                                     },
                                     false)) {
                              for (double& value : sample.inputs[0].value.values) value += value < 0 ? -0.1 : 0.1;
                              sample.inputs[0].is_differentiable = p != 0;
                              samples.push_back(std::move(sample));
                            }
                          }
                          return samples;
                        },
                    .reference =
                        [](Arrays in, const AttributesRef& ref) {
                          const auto& a = ref.as<PNormAttributes>();
                          return folded(in[0], a.dims, a.keepdim,
                                        [&](const Values& values) { return norm_of(values, a.p); });
                        }}};

const OpCase kLogsumexp{{.op = "logsumexp",
                         .samples =
                             [](Random& random) {
                               auto samples = plain_samples(random);
                               samples.push_back({.inputs = {uniform(random, {5, 7}, 700, 720)},
                                                  .attributes = Attributes(ReduceAttributes{{1}, false})});
                               return samples;
                             },
                         .reference =
                             [](Arrays in, const AttributesRef& ref) {
                               return plain_reference(in, ref, [](const Values& values) {
                                 if (values.empty()) return -kInf;
                                 const double most = *std::ranges::max_element(values);
                                 double sum = 0;
                                 for (const double v : values) sum += std::exp(v - most);
                                 return most + std::log(sum);
                               });
                             }}};

std::vector<OpSample> search_samples(Random& random) {
  std::vector<OpSample> samples = {
      {.inputs = {normal(random, {5, 7})}, .attributes = Attributes(ArgAttributes{1, false})},
      {.inputs = {normal(random, {5, 7})}, .attributes = Attributes(ArgAttributes{0, true})},
      {.inputs = {normal(random, {3, 4, 5})}, .attributes = Attributes(ArgAttributes{-2, false})},
      {.inputs = {integers(random, {5, 7}, 0, 3)}, .attributes = Attributes(ArgAttributes{1, false}), .note = "ties"},
      {.inputs = {normal(random, {12})}, .attributes = Attributes(ArgAttributes{0, false})},
      {.inputs = {normal(random, {3, 6})}, .attributes = Attributes(ArgAttributes{1, true}), .note = "nan"},
      {.inputs = {normal(random, {3, 6})}, .attributes = Attributes(ArgAttributes{1, false}), .note = "infinite"},
      {.inputs = {bools(random, {4, 5})}, .attributes = Attributes(ArgAttributes{1, false})},
      {.inputs = {normal(random, {0, 3})}, .attributes = Attributes(ArgAttributes{1, false})},
      {.inputs = {normal(random, {})}, .attributes = Attributes(ArgAttributes{0, false})}};
  for (OpSample& sample : samples) {
    sample.inputs[0].is_differentiable = false;
    std::vector<double>& values = sample.inputs[0].value.values;
    if (sample.note == "nan") values[2] = values[4] = values[17] = std::nan("");
    if (sample.note == "infinite") std::fill_n(values.begin(), 6, -kInf);
    if (sample.note == "infinite") std::fill_n(values.begin() + 6, 6, kInf);
  }
  return samples;
}

template <bool kMax>
std::vector<Array> search_reference(Arrays in, const AttributesRef& ref) {
  const auto& a = ref.as<ArgAttributes>();
  return folded(in[0], IntList{a.dim}, a.keepdim, [](const Values& values) {
    const auto nan = std::ranges::find_if(values, [](double value) { return std::isnan(value); });
    if (nan != values.end()) return static_cast<double>(nan - values.begin());
    const auto found = kMax ? std::ranges::max_element(values) : std::ranges::min_element(values);
    return static_cast<double>(found - values.begin());
  });
}

const OpCase kArgmax{{.op = "argmax", .samples = search_samples, .reference = search_reference<true>}};
const OpCase kArgmin{{.op = "argmin", .samples = search_samples, .reference = search_reference<false>}};

const OpCase kCumsum{{.op = "cumsum",
                      .samples = [](Random& random) -> std::vector<OpSample> {
                        return {{.inputs = {normal(random, {5, 7})}, .attributes = Attributes(CumsumAttributes{1})},
                                {.inputs = {normal(random, {3, 4, 5})}, .attributes = Attributes(CumsumAttributes{-2})},
                                {.inputs = {bools(random, {600})}, .attributes = Attributes(CumsumAttributes{0})},
                                {.inputs = {normal(random, {0, 3})}, .attributes = Attributes(CumsumAttributes{0})},
                                {.inputs = {normal(random, {})}, .attributes = Attributes(CumsumAttributes{0})}};
                      },
                      .reference = [](Arrays in, const AttributesRef& ref) -> std::vector<Array> {
                        Array out = in[0];
                        const std::int64_t dim = ref.as<CumsumAttributes>().dim;
                        const auto d = static_cast<std::size_t>(dim < 0 ? dim + out.shape.ndim() : dim);
                        if (out.shape.size() == 0) return {out};
                        std::int64_t step = 1;
                        for (std::size_t i = d + 1; i < out.shape.size(); ++i) step *= out.shape[i];
                        for (std::int64_t i = 0; i < out.shape.numel(); ++i) {
                          if (digits(out.shape, i)[d] == 0) continue;
                          out.values[static_cast<std::size_t>(i)] += out.values[static_cast<std::size_t>(i - step)];
                        }
                        return {out};
                      }}};

const OpCase kHistc{
    {.op = "histc",
     .samples =
         [](Random& random) {
           std::vector<OpSample> samples = {
               {.inputs = {normal(random, {5, 7})}, .attributes = Attributes(HistcAttributes{4, -1, 2})},
               {.inputs = {integers(random, {20}, 0, 5)}, .attributes = Attributes(HistcAttributes{4, 0, 4})},
               {.inputs = {normal(random, {0, 7})}, .attributes = Attributes(HistcAttributes{3, -1, 2})}};
           for (OpSample& sample : samples) sample.inputs[0].is_differentiable = false;
           return samples;
         },
     .reference = [](Arrays in, const AttributesRef& ref) -> std::vector<Array> {
       const auto& a = ref.as<HistcAttributes>();
       Array out(Shape({a.bins}));
       for (const double v : in[0].values) {
         for (std::int64_t b = 0; b < a.bins; ++b) {
           const double width = (a.high - a.low) / static_cast<double>(a.bins);
           const double low = a.low + width * static_cast<double>(b);
           const bool is_last = b + 1 == a.bins;
           const bool is_inside = v >= low && (is_last ? v <= a.high : v < low + width);
           out.values[static_cast<std::size_t>(b)] += is_inside ? 1 : 0;
         }
       }
       return {out};
     }}};

}  // namespace
}  // namespace tessera::ops::testing
