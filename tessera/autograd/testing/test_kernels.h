// Building blocks for the kernels of the test operators: elements of strided
// f64 tensors, and work with declared accesses.
#pragma once

#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "tessera/tensor/call.h"

namespace tessera::autograd::testing {

using tensor::Call;
using tensor::GradientCall;
using tensor::KernelCall;
using tensor::Operator;
using tensor::OutputInfo;
using tensor::register_op;

/// Access to the elements of a tensor for the kernels below.
struct TestElements {
  explicit TestElements(const Tensor& tensor)
      : data(tensor.data_as<double>()), shape(tensor.shape()), strides(tensor.strides()), count(tensor.numel()) {}
  [[nodiscard]] double& operator[](std::int64_t place) const {
    std::int64_t at = 0;
    for (std::size_t d = shape.size(); d-- > 0; place /= shape[d]) at += place % shape[d] * strides[d];
    return data[at];
  }
  double* data;
  Shape shape;
  Strides strides;
  std::int64_t count;
};

inline std::pair<const std::byte*, std::size_t> bytes_of(const Tensor& tensor) {
  const auto bounds = view_bounds(tensor.shape(), tensor.strides());
  if (!bounds) return {tensor.data(), 0};
  const auto item = static_cast<std::int64_t>(itemsize(tensor.dtype()));
  return {tensor.data() + bounds->min * item, static_cast<std::size_t>((bounds->max - bounds->min + 1) * item)};
}

/// Enqueues `body` with the accesses of all tensors of the call.
inline void enqueue(const KernelCall& call, std::function<void()> body) {
  std::vector<device::Access> accesses;
  for (const Tensor& input : call.inputs) {
    const auto [at, nbytes] = bytes_of(input);
    accesses.push_back(device::reads(at, nbytes));
  }
  for (const Tensor& output : call.outputs) {
    const auto [at, nbytes] = bytes_of(output);
    accesses.push_back(device::writes(const_cast<std::byte*>(at), nbytes));
  }
  call.stream().run([body = std::move(body)] { body(); }, {.label = call.op.name(), .accesses = accesses});
}

inline void infer_like_first(const Call& call, std::span<OutputInfo> outputs) {
  for (const Tensor& input : call.inputs) {
    TESSERA_CHECK_CALL(call, input.shape() == call.inputs[0].shape(), "shapes differ");
  }
  for (OutputInfo& output : outputs) output = {call.inputs[0].shape(), call.inputs[0].dtype()};
}

template <double (*F)(double, double)>
void binary_kernel(const KernelCall& call) {
  const TestElements a(call.inputs[0]);
  const TestElements b(call.inputs[1]);
  const TestElements out(call.outputs[0]);
  enqueue(call, [=] {
    for (std::int64_t i = 0; i < out.count; ++i) out[i] = F(a[i], b[i]);
  });
}
template <double (*F)(double)>
void unary_kernel(const KernelCall& call) {
  const TestElements x(call.inputs[0]);
  const TestElements out(call.outputs[0]);
  enqueue(call, [=] {
    for (std::int64_t i = 0; i < out.count; ++i) out[i] = F(x[i]);
  });
}

inline double plus(double a, double b) { return a + b; }
inline double times(double a, double b) { return a * b; }
inline double minus(double x) { return -x; }
inline double exponential(double x) { return std::exp(x); }

}  // namespace tessera::autograd::testing
