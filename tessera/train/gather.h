// Parameters as the blocks of a model use them. Parameters are stored in f32, sharded over fsdp. A block receives them
// gathered, in its compute dtype. The parameters of a block are one unit and travel in one launch.
//
//   forward    unit i is gathered on a separate stream while unit i - 1 computes, and is dropped after use
//   backward   the unit is gathered again at the first gradient that reads it (no copy is kept), while the next unit
//              still computes; gradients return as f32 shards, by one reduce-scatter per unit
//
// Along dp and tp, gradients stay partial: micro-batches accumulate partial sums, and the trainer reduces them once. If
// nothing is sharded over fsdp and nothing is cast, a unit is the parameters themselves.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/device/stream.h"
#include "tessera/layout/layout.h"
#include "tessera/tensor/tensor.h"
#include "tessera/train/exposed.h"
#include "tessera/train/plan.h"

namespace tessera::train {

/// A parameter of a model.
struct Parameter {
  std::string name;                                ///< "layers.3.query"
  ParameterKind kind = ParameterKind::kEmbedding;  ///< Role of the parameter.
  Tensor tensor = {};                              ///< Leaf tensor in f32.
};

/// Bytes in use.
struct HeldBytes {
  std::int64_t now = 0;   ///< Current bytes.
  std::int64_t peak = 0;  ///< Maximum so far.
};

/// Gathered parameters of a unit. They stay gathered during the lifetime of this object.
class TESSERA_API Weights {
 public:
  /// Returns the parameter of this kind, which must be in the unit.
  [[nodiscard]] const Tensor& operator[](ParameterKind kind) const;

 private:
  friend class Gatherer;
  std::vector<ParameterKind> kinds_;
  std::vector<Tensor> tensors_;
  std::shared_ptr<void> hold_;  // counts the bytes until it is released
};

/// Treatment of weights that a call saves for its gradient.
enum class SavedWeights : std::uint8_t {
  kGatheredAgain,  ///< Nothing is kept, and backward gathers the unit again.
  kByCaller,       ///< The caller decides: a checkpoint, which calls use() again.
};

/// Gathers parameters ahead of their use. Not thread-safe.
class TESSERA_API Gatherer {
 public:
  /// Gathers parameters of `plan` as `dtype`, ahead of use if `prefetches`. Waiting time is added to `exposed`, which
  /// must outlive the gatherer.
  Gatherer(const ParallelPlan& plan, DType dtype, bool prefetches, ExposedTime& exposed);
  ~Gatherer();
  Gatherer(const Gatherer&) = delete;
  Gatherer& operator=(const Gatherer&) = delete;

  /// Appends a unit and returns its number. Forward uses units in this order. `is_used_in_backward` states whether a
  /// gradient reads these parameters.
  std::size_t add_unit(std::vector<Parameter> parameters, bool is_used_in_backward = true);
  /// Returns the parameters of a unit for calls on the current stream.
  [[nodiscard]] Weights use(std::size_t unit, SavedWeights saved);
  /// Returns the current and the maximum number of gathered bytes.
  [[nodiscard]] const HeldBytes& held() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tessera::train
