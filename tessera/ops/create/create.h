// Tensors made from nothing: filled, counted, or only allocated. On the host unless a device is named. Forms ending in
// _like take shape, dtype and device from a tensor, and its layout where it has one (whole values where it is partial);
// a trailing underscore fills one in place.
#pragma once

#include <vector>

#include "tessera/base/export.h"
#include "tessera/device/device.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/tensor/attributes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// What tensors are made of, beside their shape.
struct CreateOptions {
  DType dtype = DType::kF32;   ///< of the elements
  device::Device device = {};  ///< where; none: this rank's host
};

/// Attributes of full.
struct FullAttributes {
  Shape shape;                ///< of the result
  DType dtype = DType::kF32;  ///< of the result
  tensor::Scalar value;       ///< of every element
  TESSERA_ATTRIBUTES(shape, dtype, value)
};
/// Attributes of arange.
struct ArangeAttributes {
  std::int64_t size = 0;                ///< elements of the result
  DType dtype = DType::kI64;            ///< of the result
  tensor::Scalar start;                 ///< element of global index 0
  tensor::Scalar step = 1;              ///< from one element to the next
  std::vector<layout::IndexMap> index;  ///< global indices of the elements; none: their own
  TESSERA_ATTRIBUTES(size, dtype, start, step, index)
};
/// Attributes of eye.
struct EyeAttributes {
  Shape shape;                          ///< of the result, two dimensions
  DType dtype = DType::kF32;            ///< of the result
  std::vector<layout::IndexMap> index;  ///< global indices, of each dimension; none: their own
  TESSERA_ATTRIBUTES(shape, dtype, index)
};

/// Memory as it comes.
TESSERA_API Tensor empty(const Shape& shape, const CreateOptions& options = {});
/// Every element `value`.
TESSERA_API Tensor full(const Shape& shape, const Scalar& value, const CreateOptions& options = {});
/// Every element 0.
TESSERA_API Tensor zeros(const Shape& shape, const CreateOptions& options = {});
/// Every element 1.
TESSERA_API Tensor ones(const Shape& shape, const CreateOptions& options = {});
/// start, start + step, ... up to but without `end`.
TESSERA_API Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step,
                          const CreateOptions& options = {.dtype = DType::kI64});
/// How many elements that is.
TESSERA_API std::int64_t arange_size(const Scalar& start, const Scalar& end, const Scalar& step);
/// 0, 1, ... up to but without `end`.
TESSERA_API Tensor arange(const Scalar& end, const CreateOptions& options = {.dtype = DType::kI64});
/// A matrix with ones from its upper left corner down, else zeros.
TESSERA_API Tensor eye(std::int64_t rows, std::int64_t columns, const CreateOptions& options = {});

/// empty, like x.
TESSERA_API Tensor empty_like(const Tensor& x);
/// full, like x.
TESSERA_API Tensor full_like(const Tensor& x, const Scalar& value);
/// zeros, like x.
TESSERA_API Tensor zeros_like(const Tensor& x);
/// ones, like x.
TESSERA_API Tensor ones_like(const Tensor& x);

/// Sets every element.
TESSERA_API void fill_(const Tensor& x, const Scalar& value);
/// Sets every element to 0.
TESSERA_API void zero_(const Tensor& x);

}  // namespace tessera::ops
