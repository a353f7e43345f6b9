// A pointwise operator as a row of data: its inputs, kernels, sharding and cost. This file provides shape and dtype
// inference, broadcasting, conversion and threads for all rows.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "tessera/layout/factor_rule.h"
#include "tessera/ops/detail/tiles.h"
#include "tessera/ops/pointwise/detail/types.h"
#include "tessera/tensor/op_def.h"

namespace tessera::ops::detail {

/// Kernels by Compute; null if the row does not compute in it.
struct TileKernels {
  TileKernel by_compute[4] = {};
};

/// Numbers among the arguments of a row.
enum class Numbers : std::uint8_t {
  kNone,
  kLast,   // ScalarAttributes, after the tensors
  kFirst,  // ScalarAttributes, before the tensors
  kRange,  // ClampAttributes, after the tensors
};

/// Algebra of the inputs of a row.
using RowAlgebra = std::array<layout::Algebra, 4>;
inline constexpr layout::Algebra kOpaque = {};
inline constexpr layout::Algebra kLinear = {layout::Linearity::kJoint, layout::Monotony::kNone};
inline constexpr layout::Algebra kMulti = {layout::Linearity::kMulti, layout::Monotony::kNone};
inline constexpr layout::Algebra kRising = {layout::Linearity::kNone, layout::Monotony::kUp};
inline constexpr layout::Algebra kFalling = {layout::Linearity::kNone, layout::Monotony::kDown};
inline constexpr layout::Algebra kLinearRising = {layout::Linearity::kJoint, layout::Monotony::kUp};
inline constexpr layout::Algebra kLinearFalling = {layout::Linearity::kJoint, layout::Monotony::kDown};

/// The description of a pointwise operator.
struct PointwiseRow {
  std::string_view name;
  std::string_view function = {};  // as in OpDef
  std::string_view inputs;
  std::string_view outputs = "out";  // of one shape and dtype
  std::uint8_t types = kFloats;
  const TileKernels& (*kernels)() = nullptr;
  RowAlgebra algebra = {};
  void (*gradient)(tensor::GradientCall&) = nullptr;
  std::string_view saves = {};
  Numbers numbers = Numbers::kNone;
  bool is_linear_with_0 = false;  // linear in its last input if its number is 0
  double flops = 1;
};

/// The functions of the OpDef of a row.
TESSERA_API void infer_row(const PointwiseRow& row, const tensor::Call& call, std::span<tensor::OutputInfo> outputs);
TESSERA_API void run_row(const PointwiseRow& row, const tensor::KernelCall& call);
TESSERA_API layout::FactorRule rule_of_row(const PointwiseRow& row, const tensor::Call& call);
TESSERA_API tensor::Cost cost_of_row(const PointwiseRow& row, const tensor::Call& call);
/// Returns the dtype that a call computes with.
TESSERA_API DType computed_dtype(const PointwiseRow& row, const tensor::Call& call);

/// The arguments of the kernel of a row, in its order.
struct RowInputs {
  TileInput values[5];
  std::size_t count = 0;
  Compute compute;

  /// Lists the tensors and numbers of a call.
  TESSERA_API RowInputs(const PointwiseRow& row, const tensor::KernelCall& call);
  /// Returns the arguments.
  [[nodiscard]] std::span<const TileInput> span() const { return std::span(values, count); }
};

/// Registers the operator of a row.
template <const PointwiseRow& kRow>
tensor::Operator register_row() {
  return tensor::register_op(
      {.name = kRow.name,
       .function = kRow.function,
       .inputs = kRow.inputs,
       .outputs = kRow.outputs,
       .infer = [](const tensor::Call& call, std::span<tensor::OutputInfo> outputs) { infer_row(kRow, call, outputs); },
       .host = [](const tensor::KernelCall& call) { run_row(kRow, call); },
       .gradient = kRow.gradient,
       .saves = kRow.saves,
       .rule = [](const tensor::Call& call) { return rule_of_row(kRow, call); },
       .cost = [](const tensor::Call& call) { return cost_of_row(kRow, call); },
       .traits = {.is_pointwise = true}});
}

}  // namespace tessera::ops::detail
