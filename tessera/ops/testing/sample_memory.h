// Memory for the arguments of samples. A host device writes the elements itself, as work on a stream, with any strides;
// other devices get a copy.
#pragma once

#include <string_view>

#include "tessera/ops/testing/op_case.h"

namespace tessera::ops::testing {

/// Memory order of the elements.
enum class Lay : std::uint8_t {
  kDense,     ///< contiguous
  kReversed,  ///< dimensions reversed, every second element unused
  kRandom,    ///< dimensions in any order, with gaps between and in front, some reversed
};

/// Allocates memory on `device` for its current stream.
Tensor allocate_laid(const Shape& shape, DType dtype, const device::Device& device, Lay lay, Random& random);
/// Writes the elements, rounded to the dtype, as work on `stream` that declares the access.
void write_on(const device::Stream& stream, const Tensor& to, const Array& from, std::string_view label);
/// Returns the device that fuzzers and the gradient test check: the one that TESSERA_TEST_DEVICE names, or the host.
device::Device tested_device();
/// Copies the tensor to `device` with its strides and the bytes between its elements.
Tensor on_device(const Tensor& tensor, const device::Device& device);
/// Returns the values of a tensor on any device.
Array read_back(const Tensor& tensor);
/// Returns the dtype of an argument; `dtype` if it is floating. The operator and the reference use the same dtype.
DType dtype_in(const SampleInput& input, DType dtype);
/// Returns the arguments of a sample for the reference: rounded; omitted arguments are empty.
std::vector<Array> reference_inputs(const OpSample& sample, DType dtype);
/// Calls the operator on the current stream of `device`. Writes to outputs that are tensors.
void call_sample(const OpCaseInfo& info, const OpSample& sample, const device::Device& device,
                 std::span<const Tensor> inputs, std::span<Tensor> outputs);
/// Returns "" if all elements are close, relative to max(1, |want|); otherwise describes the first difference.
std::string difference(const Array& got, const Array& want, double tolerance);
/// Returns the tolerance in a dtype, from that in f32 (OpCaseInfo::tolerance).
double tolerance_in(DType dtype, double in_f32);
/// Returns for example "sum dims=[1], keepdim=false (f32[5, 7]) note".
std::string text_of(const OpCaseInfo& info, const OpSample& sample);

}  // namespace tessera::ops::testing
