// The methods of tensors that call operators.
#include "tessera/tensor/methods.h"

#include "tessera/ops/create/create.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/nn/softmax.h"
#include "tessera/ops/pointwise/activations.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/functions.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/host_values.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/tensor/tensor.h"

namespace tessera::tensor {

Tensor Methods::reshape(std::initializer_list<std::int64_t> sizes) const { return ops::reshape(self(), sizes); }
Tensor Methods::reshape(std::span<const std::int64_t> sizes) const { return ops::reshape(self(), sizes); }
Tensor Methods::view(std::initializer_list<std::int64_t> sizes) const { return ops::view(self(), sizes); }
Tensor Methods::view(std::span<const std::int64_t> sizes) const { return ops::view(self(), sizes); }
Tensor Methods::expand(std::initializer_list<std::int64_t> sizes) const { return ops::expand(self(), sizes); }
Tensor Methods::flatten(std::int64_t first, std::int64_t last) const { return ops::flatten(self(), first, last); }
Tensor Methods::transpose(std::int64_t dim0, std::int64_t dim1) const { return ops::transpose(self(), dim0, dim1); }
Tensor Methods::permute(const IntList& dims) const { return ops::permute(self(), dims); }
Tensor Methods::squeeze(const IntList& dims) const { return ops::squeeze(self(), dims); }
Tensor Methods::unsqueeze(std::int64_t dim) const { return ops::unsqueeze(self(), dim); }
Tensor Methods::slice(std::int64_t dim, std::int64_t from, std::int64_t to, std::int64_t step) const {
  return ops::slice(self(), dim, from, to, step);
}
Tensor Methods::select(std::int64_t dim, std::int64_t index) const { return ops::select(self(), dim, index); }
Tensor Methods::operator[](std::int64_t index) const { return ops::select(self(), 0, index); }
Tensor Methods::index_select(std::int64_t dim, const Tensor& index) const {
  return ops::index_select(self(), dim, index);
}
Tensor Methods::contiguous() const { return ops::contiguous(self()); }

Tensor Methods::clone() const { return ops::clone(self()); }
Tensor Methods::to(DType dtype) const { return ops::cast(self(), dtype); }
Tensor Methods::to(const device::Device& device) const { return ops::to(self(), device); }
Tensor Methods::to(const device::Device& device, DType dtype) const { return ops::to(self(), device, dtype); }
Scalar Methods::item() const { return ops::item(self()); }

Tensor Methods::abs() const { return ops::abs(self()); }
Tensor Methods::exp() const { return ops::exp(self()); }
Tensor Methods::log() const { return ops::log(self()); }
Tensor Methods::sqrt() const { return ops::sqrt(self()); }
Tensor Methods::rsqrt() const { return ops::rsqrt(self()); }
Tensor Methods::square() const { return ops::square(self()); }
Tensor Methods::sin() const { return ops::sin(self()); }
Tensor Methods::cos() const { return ops::cos(self()); }
Tensor Methods::tanh() const { return ops::tanh(self()); }
Tensor Methods::sigmoid() const { return ops::sigmoid(self()); }
Tensor Methods::relu() const { return ops::relu(self()); }
Tensor Methods::gelu() const { return ops::gelu(self()); }
Tensor Methods::silu() const { return ops::silu(self()); }
Tensor Methods::pow(const Scalar& exponent) const { return ops::pow(self(), exponent); }
Tensor Methods::clamp(const Scalar& low, const Scalar& high) const { return ops::clamp(self(), low, high); }
Tensor Methods::matmul(const Tensor& other) const { return ops::matmul(self(), other); }
Tensor Methods::softmax(std::int64_t dim) const { return ops::softmax(self(), dim); }
Tensor Methods::log_softmax(std::int64_t dim) const { return ops::log_softmax(self(), dim); }

Tensor Methods::sum(const IntList& dims, bool keepdim) const { return ops::sum(self(), dims, keepdim); }
Tensor Methods::sum(std::int64_t dim, bool keepdim) const { return ops::sum(self(), {dim}, keepdim); }
Tensor Methods::mean(const IntList& dims, bool keepdim) const { return ops::mean(self(), dims, keepdim); }
Tensor Methods::mean(std::int64_t dim, bool keepdim) const { return ops::mean(self(), {dim}, keepdim); }
Tensor Methods::var(const IntList& dims, bool keepdim) const { return ops::var(self(), dims, 1, keepdim); }
Tensor Methods::var(std::int64_t dim, bool keepdim) const { return ops::var(self(), {dim}, 1, keepdim); }
Tensor Methods::amax(const IntList& dims, bool keepdim) const { return ops::amax(self(), dims, keepdim); }
Tensor Methods::amax(std::int64_t dim, bool keepdim) const { return ops::amax(self(), {dim}, keepdim); }
Tensor Methods::amin(const IntList& dims, bool keepdim) const { return ops::amin(self(), dims, keepdim); }
Tensor Methods::amin(std::int64_t dim, bool keepdim) const { return ops::amin(self(), {dim}, keepdim); }
Tensor Methods::any(const IntList& dims, bool keepdim) const { return ops::any(self(), dims, keepdim); }
Tensor Methods::all(const IntList& dims, bool keepdim) const { return ops::all(self(), dims, keepdim); }
Tensor Methods::argmax(std::int64_t dim, bool keepdim) const { return ops::argmax(self(), dim, keepdim); }
Tensor Methods::argmax() const { return ops::argmax(self()); }
Tensor Methods::norm(double p) const { return ops::norm(self(), p); }

const Tensor& Methods::fill_(const Scalar& value) const {
  ops::fill_(self(), value);
  return self();
}
const Tensor& Methods::zero_() const {
  ops::zero_(self());
  return self();
}
const Tensor& Methods::add_(const Tensor& other) const { return self() += other; }
const Tensor& Methods::add_(const Scalar& other) const { return self() += other; }
const Tensor& Methods::copy_(const Tensor& from) const {
  ops::copy_(self(), from);
  return self();
}

}  // namespace tessera::tensor
