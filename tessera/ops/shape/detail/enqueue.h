// Puts a host kernel on the stream of its call, saying which bytes it touches: all of its inputs and outputs.
#pragma once

#include <utility>

#include "tessera/base/small_vector.h"
#include "tessera/device/stream.h"
#include "tessera/ops/detail/elements.h"
#include "tessera/tensor/op_def.h"

namespace tessera::ops::detail {

/// Runs `body` in the order of the stream. It is called later, on a thread of the stream, and owns what it captures.
template <class F>
void enqueue(const tensor::KernelCall& call, F&& body) {
  SmallVector<device::Access, 8> accesses;
  for (const Tensor& input : call.inputs) {
    if (!input) continue;
    const ByteRange range = byte_range(input);
    if (range.nbytes > 0) accesses.push_back(device::reads(range.address, range.nbytes));
  }
  for (const Tensor& output : call.outputs) {
    const ByteRange range = byte_range(output);
    if (range.nbytes > 0) accesses.push_back(device::writes(range.address, range.nbytes));
  }
  call.stream().run(std::forward<F>(body),
                    {.label = call.op.name(), .accesses = std::span<const device::Access>(accesses)});
}

/// Likewise, for kernels that also read what they write.
inline double bytes_of(const Tensor& tensor) {
  return static_cast<double>(tensor.numel()) * static_cast<double>(itemsize(tensor.dtype()));
}

}  // namespace tessera::ops::detail
