// Memory for the arguments of samples, on any host device: elements are written by the device itself, when its work
// comes to it, and may lie in any way that strides can tell.
#pragma once

#include <string_view>

#include "tessera/ops/testing/op_case.h"

namespace tessera::ops::testing {

/// How elements lie.
enum class Lay : std::uint8_t {
  kDense,     ///< as they are counted
  kReversed,  ///< dimensions in reverse, every second element unused
  kRandom,    ///< dimensions in any order, with gaps between and in front, some backwards
};

/// New memory on `device`, of its current stream.
Tensor allocate_laid(const Shape& shape, DType dtype, const device::Device& device, Lay lay, Random& random);
/// Writes the elements, rounded to the dtype, as work of `stream` that declares it.
void write_on(const device::Stream& stream, const Tensor& to, const Array& from, std::string_view label);
/// A floating argument becomes one of `dtype`: what the operator is given, and the reference too.
DType dtype_in(const SampleInput& input, DType dtype);
/// The arguments of a sample as the reference gets them: rounded; left out ones are empty.
std::vector<Array> reference_inputs(const OpSample& sample, DType dtype);
/// Calls the operator, on the current stream of `device`; outputs that are tensors are written into.
void call_sample(const OpCaseInfo& info, const OpSample& sample, const device::Device& device,
                 std::span<const Tensor> inputs, std::span<Tensor> outputs);
/// Empty when all elements are close: relative to max(1, |want|). Else the first that is not.
std::string difference(const Array& got, const Array& want, double tolerance);
/// The error allowed in a dtype, from that in f32 (OpCaseInfo::tolerance).
double tolerance_in(DType dtype, double in_f32);
/// "sum dims=[1], keepdim=false (f32[5, 7]) note".
std::string text_of(const OpCaseInfo& info, const OpSample& sample);

}  // namespace tessera::ops::testing
