// Parameters as the blocks of a model use them. They are kept in f32, in pieces over fsdp; a block is given all of
// each, in the dtype that it computes in. Those of a block are one unit: they travel together, in one launch.
//
//   forward    unit i is gathered, on a stream of its own, while unit i - 1 is computed with, and dropped after use
//   backward   it is gathered again where a gradient first asks for it (no copy of it was kept), while the unit behind
//              it is still computed with; gradients go back as f32, in pieces, by one reduce-scatter a unit
//
// Along dp and tp gradients stay pending: micro-batches accumulate partial sums, and the trainer settles them once.
// Where nothing is cut over fsdp and nothing cast, a unit is the parameters themselves.
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
  ParameterKind kind = ParameterKind::kEmbedding;  ///< what it is for
  Tensor tensor = {};                              ///< f32, a leaf
};

/// Bytes that are held at one time.
struct HeldBytes {
  std::int64_t now = 0;   ///< at this moment
  std::int64_t peak = 0;  ///< the most so far
};

/// The parameters of a unit while they are used.
class TESSERA_API Weights {
 public:
  /// The one of this kind, which the unit has.
  [[nodiscard]] const Tensor& operator[](ParameterKind kind) const;

 private:
  friend class Gatherer;
  std::vector<ParameterKind> kinds_;
  std::vector<Tensor> tensors_;
  std::shared_ptr<void> hold_;  // counts the bytes until it goes
};

/// What becomes of weights that a call saves for its gradient.
enum class SavedWeights : std::uint8_t {
  kGatheredAgain,  ///< nothing is kept, and the unit is gathered again
  kByCaller,       ///< up to whoever is around: a checkpoint, which calls use() again
};

/// See the head of this file. For one thread.
class TESSERA_API Gatherer {
 public:
  /// For parameters of this plan, used as `dtype`. What is waited for is counted in `exposed`, which outlives it.
  Gatherer(const Plan& plan, DType dtype, bool prefetches, ExposedTime& exposed);
  ~Gatherer();
  Gatherer(const Gatherer&) = delete;
  Gatherer& operator=(const Gatherer&) = delete;

  /// Adds a unit behind those that there are: forward uses units in this order. `is_used_in_backward`: whether a
  /// gradient reads these parameters. Returns its number.
  std::size_t add_unit(std::vector<Parameter> parameters, bool is_used_in_backward = true);
  /// The parameters of a unit, for calls on the current stream.
  [[nodiscard]] Weights use(std::size_t unit, SavedWeights saved);
  /// Bytes that are gathered now, and were at most.
  [[nodiscard]] const HeldBytes& held() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tessera::train
