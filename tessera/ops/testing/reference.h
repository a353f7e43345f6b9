// Runs the case of an operator against its reference in plain loops, on any device: in each floating dtype, dense and
// strided, into new tensors and into given ones.
#pragma once

#include "tessera/device/device.h"
#include "tessera/ops/testing/op_case.h"

namespace tessera::ops::testing {

/// The tensor on `device` as it lies here: with its strides and what is between its elements.
Tensor on_device(const Tensor& tensor, const device::Device& device);
/// Fails, saying where, unless every element is within `tolerance` of what is wanted, relative to max(1, |wanted|).
void expect_close(const Array& got, const Array& want, double tolerance);
/// All samples of a case on `device`; nothing where it has no reference. Failures are GoogleTest's, and fatal.
void run_case(const OpCaseInfo& info, const device::Device& device);

}  // namespace tessera::ops::testing
