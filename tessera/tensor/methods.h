// The methods of tensors that call operators: x.reshape({2, -1}), x.sum(-1), x.to(kBF16), loss.backward().
//
// Each method calls the free function of the same name, which documents it: operators in tessera/ops, gradients in
// tessera/autograd/autograd.h, layouts in tessera/shard. A trailing underscore changes the tensor in place.
//
// The methods are defined in the layers of these functions (tessera/ops/methods.cpp, ...). This header only declares
// them, so that all of a tensor's methods are in one place.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>

#include "tessera/base/dtype.h"
#include "tessera/base/export.h"
#include "tessera/device/device.h"
#include "tessera/layout/layout.h"
#include "tessera/tensor/attributes.h"
#include "tessera/tensor/scalar.h"

namespace tessera::tensor {

class Tensor;

/// Base of Tensor.
class TESSERA_API Methods {
 public:
  // Shapes. One size may be -1 and is then computed.

  /// Returns the elements with these sizes; a view if possible, otherwise a copy.
  [[nodiscard]] Tensor reshape(std::initializer_list<std::int64_t> sizes) const;
  /// Returns the elements with these sizes; a view if possible, otherwise a copy.
  [[nodiscard]] Tensor reshape(std::span<const std::int64_t> sizes) const;
  /// Returns a view with these sizes.
  [[nodiscard]] Tensor view(std::initializer_list<std::int64_t> sizes) const;
  /// Returns a view with these sizes.
  [[nodiscard]] Tensor view(std::span<const std::int64_t> sizes) const;
  /// Returns a view with dimensions of size 1 repeated to these sizes.
  [[nodiscard]] Tensor expand(std::initializer_list<std::int64_t> sizes) const;
  /// Returns dimensions first..last merged into one.
  [[nodiscard]] Tensor flatten(std::int64_t first = 0, std::int64_t last = -1) const;
  /// Returns a view with two dimensions swapped.
  [[nodiscard]] Tensor transpose(std::int64_t dim0, std::int64_t dim1) const;
  /// Returns a view whose dimension i is dimension dims[i].
  [[nodiscard]] Tensor permute(const IntList& dims) const;
  /// Returns a view without those of `dims` that have size 1; by default, without all of them.
  [[nodiscard]] Tensor squeeze(const IntList& dims = {}) const;
  /// Returns a view with a new dimension `dim` of size 1.
  [[nodiscard]] Tensor unsqueeze(std::int64_t dim) const;
  /// Returns a view of the indices [from, to) of a dimension, `step` apart.
  [[nodiscard]] Tensor slice(std::int64_t dim, std::int64_t from, std::int64_t to = INT64_MAX,
                             std::int64_t step = 1) const;
  /// Returns a view of one index of a dimension, without that dimension.
  [[nodiscard]] Tensor select(std::int64_t dim, std::int64_t index) const;
  /// Returns select(0, index).
  [[nodiscard]] Tensor operator[](std::int64_t index) const;
  /// Returns the given indices (i64) of a dimension.
  [[nodiscard]] Tensor index_select(std::int64_t dim, const Tensor& index) const;
  /// Returns the tensor itself if it is contiguous, otherwise a contiguous copy.
  [[nodiscard]] Tensor contiguous() const;

  // Conversions.

  /// Returns a contiguous copy.
  [[nodiscard]] Tensor clone() const;
  /// Returns the elements converted to `dtype`; the tensor itself if it has this dtype.
  [[nodiscard]] Tensor to(DType dtype) const;
  /// Returns the tensor on `device`; the tensor itself if it is there.
  [[nodiscard]] Tensor to(const device::Device& device) const;
  /// Returns the elements on `device`, converted to `dtype`.
  [[nodiscard]] Tensor to(const device::Device& device, DType dtype) const;
  /// Returns the only element. Waits for the current stream.
  [[nodiscard]] Scalar item() const;
  /// Returns the only element as a T, converted as by static_cast. Waits for the current stream.
  template <class T>
  [[nodiscard]] T item() const {
    return item().template to<T>();
  }

  // Elements.

  /// Returns the absolute values.
  [[nodiscard]] Tensor abs() const;
  /// Returns e to the power of the elements.
  [[nodiscard]] Tensor exp() const;
  /// Returns the natural logarithms.
  [[nodiscard]] Tensor log() const;
  /// Returns the square roots.
  [[nodiscard]] Tensor sqrt() const;
  /// Returns 1 / sqrt().
  [[nodiscard]] Tensor rsqrt() const;
  /// Returns the squares.
  [[nodiscard]] Tensor square() const;
  /// Returns the sines.
  [[nodiscard]] Tensor sin() const;
  /// Returns the cosines.
  [[nodiscard]] Tensor cos() const;
  /// Returns the hyperbolic tangents.
  [[nodiscard]] Tensor tanh() const;
  /// Returns the logistic function.
  [[nodiscard]] Tensor sigmoid() const;
  /// Returns the elements, but at least 0.
  [[nodiscard]] Tensor relu() const;
  /// Returns the elements times the cumulative normal distribution at them.
  [[nodiscard]] Tensor gelu() const;
  /// Returns the elements times their logistic function.
  [[nodiscard]] Tensor silu() const;
  /// Returns the elements to the power `exponent`.
  [[nodiscard]] Tensor pow(const Scalar& exponent) const;
  /// Returns the elements limited to [low, high].
  [[nodiscard]] Tensor clamp(const Scalar& low, const Scalar& high) const;
  /// Returns the matrix product with `other`.
  [[nodiscard]] Tensor matmul(const Tensor& other) const;
  /// Returns exp(x) divided by its sum along `dim`.
  [[nodiscard]] Tensor softmax(std::int64_t dim) const;
  /// Returns the logarithm of softmax().
  [[nodiscard]] Tensor log_softmax(std::int64_t dim) const;

  // Reductions over some dimensions, by default over all.

  /// Returns the sum.
  [[nodiscard]] Tensor sum(const IntList& dims = {}, bool keepdim = false) const;
  /// Returns the sum along `dim`.
  [[nodiscard]] Tensor sum(std::int64_t dim, bool keepdim = false) const;
  /// Returns the mean.
  [[nodiscard]] Tensor mean(const IntList& dims = {}, bool keepdim = false) const;
  /// Returns the mean along `dim`.
  [[nodiscard]] Tensor mean(std::int64_t dim, bool keepdim = false) const;
  /// Returns the variance with divisor count - 1.
  [[nodiscard]] Tensor var(const IntList& dims = {}, bool keepdim = false) const;
  /// Returns the variance along `dim`.
  [[nodiscard]] Tensor var(std::int64_t dim, bool keepdim = false) const;
  /// Returns the greatest element.
  [[nodiscard]] Tensor amax(const IntList& dims = {}, bool keepdim = false) const;
  /// Returns the greatest element along `dim`.
  [[nodiscard]] Tensor amax(std::int64_t dim, bool keepdim = false) const;
  /// Returns the least element.
  [[nodiscard]] Tensor amin(const IntList& dims = {}, bool keepdim = false) const;
  /// Returns the least element along `dim`.
  [[nodiscard]] Tensor amin(std::int64_t dim, bool keepdim = false) const;
  /// Returns whether an element is not zero.
  [[nodiscard]] Tensor any(const IntList& dims = {}, bool keepdim = false) const;
  /// Returns whether no element is zero.
  [[nodiscard]] Tensor all(const IntList& dims = {}, bool keepdim = false) const;
  /// Returns the index (i64) of the greatest element along `dim`.
  [[nodiscard]] Tensor argmax(std::int64_t dim, bool keepdim = false) const;
  /// Returns the index (i64) of the greatest of all elements.
  [[nodiscard]] Tensor argmax() const;
  /// Returns the p-norm of all elements.
  [[nodiscard]] Tensor norm(double p = 2) const;

  // In place. Each returns the tensor.

  /// Sets all elements to `value`.
  const Tensor& fill_(const Scalar& value) const;
  /// Sets all elements to 0.
  const Tensor& zero_() const;
  /// Adds `other`, which is broadcast.
  const Tensor& add_(const Tensor& other) const;
  /// Adds a number.
  const Tensor& add_(const Scalar& other) const;
  /// Copies the elements of `from`, converted and broadcast.
  const Tensor& copy_(const Tensor& from) const;

  // Gradients.

  /// Makes the tensor a leaf that accumulates gradients, or an untracked tensor. Returns the tensor.
  const Tensor& requires_grad_(bool requires_grad = true) const;
  /// Returns true if gradients flow to this tensor.
  [[nodiscard]] bool requires_grad() const;
  /// Returns the gradient of a leaf; empty if none was computed.
  [[nodiscard]] Tensor grad() const;
  /// Removes the gradient of a leaf.
  void zero_grad() const;
  /// Adds to the gradient of every leaf that this tensor depends on. `gradient` is the gradient of this tensor, by
  /// default 1 for a tensor of one element.
  void backward() const;
  /// Same, with the gradient of this tensor.
  void backward(const Tensor& gradient) const;

  // Layouts.

  /// Returns the global tensor as a plain tensor on every rank of the mesh; a plain tensor itself.
  [[nodiscard]] Tensor gather() const;
  /// Returns the tensor with these placements on its mesh; axes that are not named replicate. A plain tensor is
  /// returned unchanged.
  [[nodiscard]] Tensor redistribute(std::initializer_list<layout::AxisPlacement> to) const;

 protected:
  Methods() = default;

 private:
  [[nodiscard]] const Tensor& self() const;
};

}  // namespace tessera::tensor
