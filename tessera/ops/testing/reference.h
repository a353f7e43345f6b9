// Compares an operator with its reference in plain loops, on any device: in each floating dtype, contiguous and
// strided, with new and given result tensors.
#pragma once

#include <span>
#include <string_view>

#include "tessera/device/device.h"
#include "tessera/ops/testing/op_case.h"

namespace tessera::ops::testing {

/// Fails, with the position, unless every element is within `tolerance` of the expected value, relative to max(1,
/// |wanted|).
void expect_close(const Array& got, const Array& want, double tolerance);
/// Returns true if the operator accepts these arguments. An error must name the operator, show the call and contain
/// `word`.
bool is_taken(const OpCaseInfo& info, const OpSample& sample, std::span<const Tensor> inputs,
              std::string_view word = {});
/// Runs all samples of a case on `device`, if it has a reference. Failures are fatal GoogleTest failures.
void run_case(const OpCaseInfo& info, const device::Device& device);

}  // namespace tessera::ops::testing
