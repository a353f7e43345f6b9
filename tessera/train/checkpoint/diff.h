// Comparison of two checkpoints. It compares global tensors: the meshes that saved them do not matter.
//
//   const bool equal = diff_checkpoints(a, b, [](const CheckpointDifference& d) { print(d.name, d.differing); });
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/export.h"
#include "tessera/base/shape.h"
#include "tessera/train/checkpoint/checkpoint.h"

namespace tessera::train {

/// Result for one tensor or metadata entry of two checkpoints.
struct CheckpointDifference {
  /// Kind of a difference.
  enum class Kind : std::uint8_t {
    kEqual,       ///< Bitwise equal.
    kValues,      ///< Elements differ.
    kShape,       ///< Shapes differ. Elements are not compared.
    kDType,       ///< Dtypes differ. Elements are not compared.
    kOnlyFirst,   ///< Missing in the second checkpoint.
    kOnlySecond,  ///< Missing in the first checkpoint.
    kText,        ///< Metadata entries differ.
  };
  std::string name;            ///< Name of the tensor or metadata entry.
  bool is_text = false;        ///< True for metadata, false for a tensor.
  Kind kind = Kind::kEqual;    ///< Kind of this difference.
  Shape shape[2] = {};         ///< Shapes in the first and the second checkpoint.
  DType dtype[2] = {};         ///< Dtypes in the first and the second checkpoint.
  std::int64_t differing = 0;  ///< Number of elements with different bits.
  /// Maximum absolute difference of elements with different bits. NaN if one of two elements is NaN. For complex
  /// elements, that of their real and imaginary parts.
  double largest = 0;
};

/// Calls `tell` for each tensor of either checkpoint, in the order of the first one, then for each metadata entry that
/// differs. Returns true if all tensors are equal. Metadata does not count, because it may depend on the mesh. Holds
/// one tensor of each in memory at a time. Verifies both first: throws IoError, before any call of `tell`, if one is
/// corrupt.
TESSERA_API bool diff_checkpoints(const CheckpointInfo& a, const CheckpointInfo& b,
                                  const std::function<void(const CheckpointDifference&)>& tell);

}  // namespace tessera::train
