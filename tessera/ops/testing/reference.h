// Runs the case of an operator against its reference in plain loops, on any device: in each floating dtype, dense and
// strided, into new tensors and into given ones.
#pragma once

#include <span>
#include <string_view>

#include "tessera/device/device.h"
#include "tessera/ops/testing/op_case.h"

namespace tessera::ops::testing {

/// The tensor on `device` as it lies here: with its strides and what is between its elements.
Tensor on_device(const Tensor& tensor, const device::Device& device);
/// Fails, saying where, unless every element is within `tolerance` of what is wanted, relative to max(1, |wanted|).
void expect_close(const Array& got, const Array& want, double tolerance);
/// Whether the operator takes these arguments; a refusal must name the operator and show the call, and hold `word`.
bool is_taken(const OpCaseInfo& info, const OpSample& sample, std::span<const Tensor> inputs,
              std::string_view word = {});
/// All samples of a case on `device`; nothing where it has no reference. Failures are GoogleTest's, and fatal.
void run_case(const OpCaseInfo& info, const device::Device& device);

}  // namespace tessera::ops::testing
