// Units of parameters that are gathered together (shard/gatherer.h), addressed by parameter. Reading a parameter
// activates its unit: the previous unit is released, and this one stays gathered until another is activated.
//
// A parameter may be in several units, such as an embedding that is also the output head. In forward, the next unit
// after the active one is used; in backward, the one before it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "tessera/nn/parameter.h"
#include "tessera/shard/gatherer.h"

namespace tessera::nn::detail {

/// The units of a model. Not thread-safe.
class ParameterUnits {
 public:
  /// Adds waiting time to `exposed`.
  ParameterUnits(shard::GathererOptions options, shard::ExposedTime& exposed)
      : gatherer_(std::move(options), exposed) {}

  /// Appends a unit of these parameters and notes their positions in it.
  void add(const std::vector<std::shared_ptr<ParameterSlot>>& slots);
  /// Returns the parameter as calls read it.
  Tensor read(const ParameterSlot& slot);
  /// Releases the active unit.
  void release();
  /// Keeps parameters in the compute dtype (Gatherer::keep_casts).
  void keep_casts(bool is_kept) { gatherer_.keep_casts(is_kept); }
  /// Returns the bytes of gathered parameters.
  [[nodiscard]] const shard::HeldBytes& held() const { return gatherer_.held(); }

  /// Marks a computation that backward repeats, and which therefore keeps no weights, for the lifetime of the scope.
  class RepeatedScope {
   public:
    /// `units` may be null.
    explicit RepeatedScope(ParameterUnits* units);
    ~RepeatedScope();
    RepeatedScope(const RepeatedScope&) = delete;
    RepeatedScope& operator=(const RepeatedScope&) = delete;

   private:
    ParameterUnits* units_;
  };

 private:
  [[nodiscard]] const UnitPlace& next_place(const ParameterSlot& slot) const;

  shard::Gatherer gatherer_;
  std::optional<shard::GatheredUnit> active_;
  std::size_t last_ = 0;   // last active unit
  bool was_used_ = false;  // false: no unit was active yet
  int repeated_ = 0;
};

}  // namespace tessera::nn::detail
