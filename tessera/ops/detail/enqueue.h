// Enqueues a host kernel and declares its accesses: it reads every input and writes every output (or updates it, if the
// output is also an input).
#pragma once

#include <utility>

#include "tessera/base/small_vector.h"
#include "tessera/ops/detail/elements.h"
#include "tessera/tensor/op_def.h"

namespace tessera::ops::detail {

/// Runs `body` on the stream of the call.
template <class F>
void enqueue(const tensor::KernelCall& call, F&& body) {
  SmallVector<device::Access, 8> accesses;
  for (const Tensor& input : call.inputs) {
    if (!input) continue;
    const ByteRange range = byte_range(input);
    accesses.push_back(device::reads(range.address, range.nbytes));
  }
  for (const Tensor& output : call.outputs) {
    const ByteRange range = byte_range(output);
    accesses.push_back(device::writes(range.address, range.nbytes));
  }
  call.stream().run(std::forward<F>(body),
                    {.label = call.op.name(), .accesses = std::span<const device::Access>(accesses)});
}

}  // namespace tessera::ops::detail
