// What two checkpoints differ in. They are compared as whole tensors: the meshes that saved them do not matter.
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

/// A tensor, or text, of two checkpoints.
struct CheckpointDifference {
  /// In what it differs.
  enum class Kind : std::uint8_t {
    kEqual,       ///< bit for bit the same
    kValues,      ///< in elements
    kShape,       ///< in shape; elements are not compared
    kDType,       ///< in dtype; elements are not compared
    kOnlyFirst,   ///< the second does not have it
    kOnlySecond,  ///< the first does not have it
    kText,        ///< a text, which is another
  };
  std::string name;            ///< of the tensor or text
  bool is_text = false;        ///< a text and no tensor
  Kind kind = Kind::kEqual;    ///< in what it differs
  Shape shape[2] = {};         ///< of each
  DType dtype[2] = {};         ///< of each
  std::int64_t differing = 0;  ///< elements with other bits
  /// The greatest absolute difference of elements that differ in bits; NaN where one is, which a number is not. Of
  /// complex elements: of their parts.
  double largest = 0;
};

/// Calls `tell` for each tensor of either, in the order of the first, then for each text that differs. One tensor of
/// each is in memory at a time. Whether all tensors are equal: texts may say on what mesh a run was, and do not count.
/// Both are verified first: IoError, before anything is told, when one is damaged.
TESSERA_API bool diff_checkpoints(const CheckpointInfo& a, const CheckpointInfo& b,
                                  const std::function<void(const CheckpointDifference&)>& tell);

}  // namespace tessera::train
