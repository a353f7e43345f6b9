// A parameter of a module: a leaf tensor, its initial values and the meaning of its dimensions.
//
// A Parameter is a shared handle, and converts to the tensor that a call reads. After nn::distribute(), that tensor may
// be gathered and cast: it is then held until the model reads a parameter of another unit. Optimizers and checkpoints
// use the leaf.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/shape.h"
#include "tessera/layout/layout.h"
#include "tessera/nn/meaning.h"
#include "tessera/tensor/tensor.h"

namespace tessera::nn {

/// Initial values of a parameter.
struct TESSERA_API Init {
  /// Distribution of the values.
  enum class Kind : std::uint8_t { kZeros, kOnes, kUniform, kNormal, kTruncatedNormal };
  Kind kind = Kind::kTruncatedNormal;  ///< Distribution.
  double scale = 0.02;                 ///< Standard deviation; for kUniform, the bound of the absolute value.

  /// Zeros.
  static Init zeros() { return {Kind::kZeros, 0}; }
  /// Ones.
  static Init ones() { return {Kind::kOnes, 0}; }
  /// Uniform values in [-bound, bound).
  static Init uniform(double bound) { return {Kind::kUniform, bound}; }
  /// Normal values.
  static Init normal(double deviation) { return {Kind::kNormal, deviation}; }
  /// Normal values within three standard deviations.
  static Init truncated_normal(double deviation) { return {Kind::kTruncatedNormal, deviation}; }
};

/// Options of a new parameter.
struct ParameterOptions {
  Init init = {};             ///< Initial values, drawn from the generator of this rank.
  Meaning meaning = {};       ///< Meaning of each dimension.
  bool decays = true;         ///< True if weight decay applies by default.
  DType dtype = DType::kF32;  ///< Dtype of the leaf.
};

namespace detail {

class ParameterUnits;

// Position of a parameter in a unit that is gathered together.
struct UnitPlace {
  std::size_t unit;
  std::size_t index;
};

// The shared object of parameter handles.
struct ParameterSlot {
  Tensor leaf;
  ParameterOptions options;
  bool is_buffer = false;
  bool has_adapter = false;               // a linear map adds a product to that with this weight (lora.h)
  layout::Layout in_use = {};             // set by distribute(); empty without a mesh
  std::shared_ptr<ParameterUnits> units;  // null: calls read the leaf
  std::vector<UnitPlace> places;          // in increasing order of units
};

}  // namespace detail

/// Handle to a parameter or a buffer of a module. Copies refer to the same parameter. Not thread-safe.
class TESSERA_API Parameter {
 public:
  /// Constructs an empty handle: a layer without that parameter. It converts to an empty tensor.
  Parameter() = default;
  /// Constructs a handle to a parameter of a module.
  explicit Parameter(std::shared_ptr<detail::ParameterSlot> slot) : slot_(std::move(slot)) {}
  /// Returns true if the handle refers to a parameter.
  explicit operator bool() const { return slot_ != nullptr; }

  /// Returns the tensor that calls read: the leaf, or the leaf gathered and cast.
  operator Tensor() const { return tensor(); }  // NOLINT(google-explicit-constructor): a parameter is used as a tensor
  /// Returns the tensor that calls read.
  [[nodiscard]] Tensor tensor() const;
  /// Returns the leaf with its stored layout, which optimizers update. Throws InvalidArgument for an empty handle.
  [[nodiscard]] const Tensor& leaf() const;
  /// Returns the global shape.
  [[nodiscard]] const Shape& shape() const { return leaf().shape(); }
  /// Returns the meaning of each dimension.
  [[nodiscard]] const Meaning& meaning() const { return slot_->options.meaning; }
  /// Returns true if weight decay applies by default.
  [[nodiscard]] bool decays() const { return slot_->options.decays; }
  /// Returns the layout of the tensor that calls read; empty without a mesh.
  [[nodiscard]] const layout::Layout& layout_in_use() const { return slot_->in_use; }
  /// Returns true if both handles refer to the same parameter.
  [[nodiscard]] bool is_same(const Parameter& other) const { return slot_ == other.slot_; }
  /// Returns the shared object of the handle.
  [[nodiscard]] const std::shared_ptr<detail::ParameterSlot>& slot() const { return slot_; }

 private:
  std::shared_ptr<detail::ParameterSlot> slot_;
};

/// A parameter and its path in the model.
struct NamedParameter {
  std::string path;     ///< "layers.3.mlp.up_proj.weight"
  Parameter parameter;  ///< The parameter.
};

}  // namespace tessera::nn
