// Elements of a parameter inside a tensor of a Hugging Face model: a share of its last dimension, transposed or not.
// Also conversion between floating dtypes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"

namespace tessera::train::detail {

/// Position of a parameter in a tensor.
struct ShareOfTensor {
  Shape shape;                 ///< Shape of the tensor.
  std::int64_t index = 0;      ///< Index of the parameter along the last dimension.
  std::int64_t count = 1;      ///< Number of parameters along the last dimension.
  bool is_transposed = false;  ///< The parameter is the transposed share of a matrix.
};

/// Returns true if tensors of this dtype can be converted.
bool is_convertible(DType dtype);
/// Converts floating elements by way of f32, rounded to nearest.
void convert(std::byte* to, DType to_dtype, const std::byte* from, DType from_dtype, std::int64_t count);

/// Reads a parameter of a tensor in chunks, converted. Not thread-safe.
class ShareReader {
 public:
  /// `elements` are those of the tensor, and must outlive the reader.
  ShareReader(ShareOfTensor share, const std::byte* elements, DType dtype, DType to);
  /// Returns the bytes [offset, offset + nbytes) of the parameter, valid until the next call. Both are multiples of the
  /// size of an element.
  std::span<const std::byte> read(std::uint64_t offset, std::size_t nbytes);

 private:
  const std::byte* gathered(std::int64_t first, std::int64_t count);

  ShareOfTensor share_;
  const std::byte* elements_;
  DType dtype_;
  DType to_;
  std::int64_t last_ = 1;     // size of the last dimension of the tensor
  std::int64_t columns_ = 1;  // size of the last dimension of the parameter
  std::vector<std::byte> gathered_;
  std::vector<std::byte> converted_;
};

/// Writes all elements of a parameter to its share of a tensor: the inverse of ShareReader.
void put_share(const ShareOfTensor& share, std::byte* tensor, const std::byte* parameter, std::size_t item);

}  // namespace tessera::train::detail
