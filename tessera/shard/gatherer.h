// Sharded parameters, gathered for their use (FSDP). A parameter is stored as shards along one axis of the mesh, and a
// call receives it gathered, in its compute dtype. The parameters of a unit travel in one launch.
//
//   forward    unit i is gathered on a separate stream while unit i - 1 computes, and is dropped after use
//   backward   the unit is gathered again at the first gradient that reads it (no copy is kept), while the next unit
//              still computes; gradients return as shards in the stored dtype, by one reduce-scatter per unit
//
// Without an axis, units are only cast to the compute dtype.
//
// Along other axes, gradients stay partial: micro-batches accumulate partial sums, and reduce_gradients() reduces them
// once. If nothing is sharded over the axis and nothing is cast, a unit is the parameters themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/layout/layout.h"
#include "tessera/shard/exposed.h"
#include "tessera/tensor/tensor.h"

namespace tessera::shard {

/// A parameter of a unit.
struct UnitParameter {
  Tensor leaf;                 ///< Leaf tensor with its stored layout, or a plain tensor.
  layout::Layout in_use = {};  ///< Layout in use: gathered over the axis. Empty for a plain tensor.
};

/// Bytes in use.
struct HeldBytes {
  std::int64_t now = 0;   ///< Current bytes.
  std::int64_t peak = 0;  ///< Maximum so far.
};

/// Gathered parameters of a unit. They stay gathered during the lifetime of this object and its copies.
class TESSERA_API GatheredUnit {
 public:
  /// Returns the parameter at this index of the unit.
  [[nodiscard]] const Tensor& operator[](std::size_t index) const { return tensors_.at(index); }
  /// Returns the number of parameters.
  [[nodiscard]] std::size_t size() const { return tensors_.size(); }

 private:
  friend class Gatherer;
  std::vector<Tensor> tensors_;
  std::shared_ptr<void> hold_;  // counts the bytes until it is released
};

/// Treatment of weights that a call saves for its gradient.
enum class SavedWeights : std::uint8_t {
  kGatheredAgain,  ///< Nothing is kept, and backward gathers the unit again.
  kByCaller,       ///< The caller decides: a checkpoint, which calls use() again.
};

/// Options of a Gatherer.
struct GathererOptions {
  DType dtype = DType::kF32;  ///< Dtype of the parameters in use.
  std::string axis = "fsdp";  ///< Mesh axis over which parameters are gathered. Empty: none.
  bool prefetches = true;     ///< True if units are gathered ahead of their use, on a separate stream.
};

/// Gathers parameters ahead of their use. Not thread-safe.
class TESSERA_API Gatherer {
 public:
  /// Adds waiting time to `exposed`, which must outlive the gatherer and the gradients of its units.
  Gatherer(GathererOptions options, ExposedTime& exposed);
  ~Gatherer();
  Gatherer(const Gatherer&) = delete;
  Gatherer& operator=(const Gatherer&) = delete;

  /// Appends a unit and returns its number. Forward uses units in this order. Throws InvalidArgument if the unit is
  /// empty, its dtypes differ, only some of its parameters have layouts, or a mesh does not have the axis.
  std::size_t add_unit(std::vector<UnitParameter> parameters);
  /// Returns the parameters of a unit for calls on the current stream.
  [[nodiscard]] GatheredUnit use(std::size_t unit, SavedWeights saved);
  /// Sets whether a unit keeps its shards in the compute dtype after their first use, so that later uses do not cast
  /// again. While they are kept, the leaves must not change. `false` releases them.
  void keep_casts(bool is_kept);
  /// Returns the current and the maximum number of gathered bytes, with kept casts.
  [[nodiscard]] const HeldBytes& held() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tessera::shard
