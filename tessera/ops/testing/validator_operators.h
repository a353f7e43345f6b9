// Small operators with plain kernels for the tests of the validator: correct ones, and ones with a typical error in a
// rule, localize or cooperation. Only one test includes this file, because it registers the operators.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tessera/ops/testing/op_case.h"
#include "tessera/tensor/cooperation.h"

namespace tessera::ops::testing::planted {

using layout::FactorRule;
using layout::LocalOperand;
using tensor::Attributes;
using tensor::AttributesRef;
using tensor::Call;
using tensor::KernelCall;
using tensor::LocalizeCall;
using tensor::OutputInfo;

/// Elements as these kernels see them: f64, or i64 and bool in results, contiguous.
struct ValidatorElements {
  std::byte* data = nullptr;
  Shape shape;
  DType dtype = DType::kF64;
  [[nodiscard]] std::int64_t numel() const { return shape.numel(); }
  // A wrong rule may give a rank fewer elements than the kernel reads. It then reads a value that no right result
  // contains.
  [[nodiscard]] double get(std::int64_t i) const { return i < numel() ? read_element(data + at(i), dtype) : 1e30; }
  void set(std::int64_t i, double value) const {
    if (i < numel()) write_element(data + at(i), dtype, value);
  }
  [[nodiscard]] std::int64_t at(std::int64_t i) const { return i * static_cast<std::int64_t>(itemsize(dtype)); }
};

/// Attributes of all operators below.
struct PlainAttributes {
  double scale = 1;
  Shape shape;
  std::vector<layout::IndexMap> index;  // empty: all indices from 0
  TESSERA_ATTRIBUTES(scale, shape, index)
};

using Compute = void (*)(const std::vector<ValidatorElements>& in, const ValidatorElements& out,
                         const PlainAttributes& attributes);

inline ValidatorElements elements_of(const Tensor& tensor) { return {tensor.data(), tensor.shape(), tensor.dtype()}; }

/// A kernel that runs a plain function on the stream.
template <Compute kCompute>
void kernel(const KernelCall& call) {
  std::vector<ValidatorElements> in;
  for (const Tensor& input : call.inputs) in.push_back(elements_of(input));
  call.stream().run([in, out = elements_of(call.outputs[0]),
                     attributes = call.as<PlainAttributes>()] { kCompute(in, out, attributes); },
                    {.label = "plain"});
}

/// Returns the rule with this text for every call.
template <const char* kText>
FactorRule rule(const Call& /*call*/) {
  return FactorRule::parse(kText);
}

inline void infer_like_first(const Call& call, std::span<OutputInfo> outputs) {
  outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
}
template <DType kDType>
void infer_rows(const Call& call, std::span<OutputInfo> outputs) {
  outputs[0] = {Shape({call.inputs[0].shape()[0]}), kDType};
}
inline void infer_product(const Call& call, std::span<OutputInfo> outputs) {
  outputs[0] = {Shape({call.inputs[0].shape()[0], call.inputs[1].shape()[1]}), DType::kF64};
}
inline void infer_attribute_shape(const Call& call, std::span<OutputInfo> outputs) {
  outputs[0] = {call.as<PlainAttributes>().shape, DType::kF64};
}

template <double (*kFunction)(double)>
void each(const std::vector<ValidatorElements>& in, const ValidatorElements& out,
          const PlainAttributes& /*attributes*/) {
  for (std::int64_t i = 0; i < out.numel(); ++i) out.set(i, kFunction(in[0].get(i)));
}
template <double (*kFunction)(double, double)>
void each_pair(const std::vector<ValidatorElements>& in, const ValidatorElements& out,
               const PlainAttributes& /*attributes*/) {
  for (std::int64_t i = 0; i < out.numel(); ++i) out.set(i, kFunction(in[0].get(i), in[1].get(i)));
}
inline double absolute(double x) { return std::abs(x); }
inline double negative(double x) { return -x; }
inline double logarithm(double x) { return std::log(x); }
inline double plus(double a, double b) { return a + b; }
inline double times(double a, double b) { return a * b; }

/// Reduces each row to one number.
template <double (*kFold)(double, double), int kStart, double (*kEnd)(double)>
void fold_rows(const std::vector<ValidatorElements>& in, const ValidatorElements& out,
               const PlainAttributes& attributes) {
  const std::int64_t columns = in[0].shape[1];
  for (std::int64_t r = 0; r < out.numel(); ++r) {
    double value = kStart;
    for (std::int64_t c = 0; c < columns; ++c) value = kFold(value, in[0].get(r * columns + c));
    out.set(r, kEnd(value) * attributes.scale);
  }
}
inline double same(double x) { return x; }
inline double root(double x) { return std::sqrt(x); }
inline double plus_square(double a, double b) { return a + b * b; }
inline double or_positive(double a, double b) { return a != 0 || b > 0 ? 1 : 0; }

inline void mean_rows(const std::vector<ValidatorElements>& in, const ValidatorElements& out,
                      const PlainAttributes& attributes) {
  fold_rows<plus, 0, same>(in, out, attributes);
  for (std::int64_t r = 0; r < out.numel(); ++r) {
    out.set(r, in[0].shape[1] == 0 ? 0 : out.get(r) / static_cast<double>(in[0].shape[1]));
  }
}
inline void prod_rows_nothing_is_0(const std::vector<ValidatorElements>& in, const ValidatorElements& out,
                                   const PlainAttributes& attributes) {
  fold_rows<times, 1, same>(in, out, attributes);
  for (std::int64_t r = 0; r < out.numel() && in[0].shape[1] == 0; ++r) out.set(r, 0);
}
inline void argmax_rows(const std::vector<ValidatorElements>& in, const ValidatorElements& out,
                        const PlainAttributes& /*attributes*/) {
  const std::int64_t columns = in[0].shape[1];
  for (std::int64_t r = 0; r < out.numel(); ++r) {
    std::int64_t best = 0;
    for (std::int64_t c = 1; c < columns; ++c) {
      if (in[0].get(r * columns + c) > in[0].get(r * columns + best)) best = c;
    }
    out.set(r, static_cast<double>(best));
  }
}
inline void product(const std::vector<ValidatorElements>& in, const ValidatorElements& out,
                    const PlainAttributes& /*attributes*/) {
  const std::int64_t inner = in[0].shape[1];
  for (std::int64_t i = 0; i < out.shape[0]; ++i) {
    for (std::int64_t j = 0; j < out.shape[1]; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < inner; ++k) sum += in[0].get(i * inner + k) * in[1].get(k * out.shape[1] + j);
      if (in.size() > 2) sum += in[2].get(j);
      out.set(i * out.shape[1] + j, sum);
    }
  }
}
inline void softmax_rows(const std::vector<ValidatorElements>& in, const ValidatorElements& out,
                         const PlainAttributes& /*attributes*/) {
  const std::int64_t columns = out.shape[1];
  for (std::int64_t r = 0; r < out.shape[0]; ++r) {
    double sum = 0;
    for (std::int64_t c = 0; c < columns; ++c) sum += std::exp(in[0].get(r * columns + c));
    for (std::int64_t c = 0; c < columns; ++c) out.set(r * columns + c, std::exp(in[0].get(r * columns + c)) / sum);
  }
}
inline void copy_all(const std::vector<ValidatorElements>& in, const ValidatorElements& out,
                     const PlainAttributes& /*attributes*/) {
  for (std::int64_t i = 0; i < out.numel(); ++i) out.set(i, in[0].get(i));
}
inline void lower_triangle(const std::vector<ValidatorElements>& in, const ValidatorElements& out,
                           const PlainAttributes& attributes) {
  const auto& index = attributes.index;
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    const std::int64_t r = i / out.shape[1];
    const std::int64_t c = i % out.shape[1];
    const bool is_kept = index.empty() ? c <= r : index[1].global(c) <= index[0].global(r);
    out.set(i, is_kept ? in[0].get(i) : 0);
  }
}
inline void iota(const std::vector<ValidatorElements>& /*in*/, const ValidatorElements& out,
                 const PlainAttributes& attributes) {
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    out.set(i, static_cast<double>(attributes.index.empty() ? i : attributes.index[0].global(i)));
  }
}

inline Attributes with_local_shape(const LocalizeCall& call) {
  PlainAttributes local = call.global.as<PlainAttributes>();
  local.shape = call.outputs[0].shape;
  return Attributes(local);
}
inline Attributes with_index(const LocalizeCall& call) {
  PlainAttributes local = call.global.as<PlainAttributes>();
  local.shape = call.outputs[0].shape;
  local.index = call.outputs[0].index;
  return Attributes(local);
}
/// Right only for equal shards: a mean of means.
inline Attributes with_share_of_equal_pieces(const LocalizeCall& call) {
  PlainAttributes local = call.global.as<PlainAttributes>();
  const auto whole = static_cast<double>(call.global.inputs[0].shape()[1]);
  const auto mine = static_cast<double>(call.inputs[0].shape[1]);
  local.scale = mine == 0 ? 1 : 1 / std::ceil(whole / mine);
  return Attributes(local);
}

}  // namespace tessera::ops::testing::planted
