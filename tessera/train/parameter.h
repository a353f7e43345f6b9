// The parameters of a model, and those of a unit while it is in use.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/shard/gatherer.h"
#include "tessera/tensor/tensor.h"
#include "tessera/train/plan.h"

namespace tessera::train {

/// A parameter of a model.
struct Parameter {
  std::string name;                                ///< "layers.3.query"
  ParameterKind kind = ParameterKind::kEmbedding;  ///< Role of the parameter.
  Tensor tensor = {};                              ///< Leaf tensor in f32.
};

/// Gathered parameters of a unit, by kind. They stay gathered during the lifetime of this object.
class TESSERA_API Weights {
 public:
  /// Names the parameters of `unit` by kind, in its order.
  Weights(std::vector<ParameterKind> kinds, shard::GatheredUnit unit)
      : kinds_(std::move(kinds)), unit_(std::move(unit)) {}
  /// Returns the parameter of this kind, which must be in the unit.
  [[nodiscard]] const Tensor& operator[](ParameterKind kind) const;

 private:
  std::vector<ParameterKind> kinds_;
  shard::GatheredUnit unit_;
};

}  // namespace tessera::train
