// Tensors of one row, such as the weight of a norm, which all rows of a call share.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tessera/ops/nn/cuda/row_cursor.cuh"

namespace tessera::ops::cuda {

/// A tensor of one row, such as a weight. A thread that holds rows keeps the vectors that belong to its own, and loads
/// them before its row: a load after that, even from the cache, waits for the rows that other threads have under way.
template <class Form>
class HeldWeight {
 public:
  /// Loads the vectors; if the tensor is absent, all elements are `otherwise`.
  template <class Group>
  __device__ HeldWeight(const Group& group, const DeviceRows& weight, std::int64_t length, float otherwise) {
    const RowCursor<Form> from(weight);
    float same[Form::N];
#pragma unroll
    for (float& each : same) each = otherwise;
#pragma unroll
    for (int v = 0; v < kHeldVectors; ++v) {
      const int i = (v * group.width + group.index) * Form::N;
      raw_[v] = pack<Form>(same);
      if (from.at != nullptr && i < length) raw_[v] = from.read(i);
    }
  }
  __device__ void read(float (&to)[Form::N], std::int64_t, int v) const {
    uint4 raw = raw_[v];
    // Keeps the compiler from converting all vectors before the loop over rows, for which registers do not suffice.
    asm volatile("" : "+r"(raw.x), "+r"(raw.y), "+r"(raw.z), "+r"(raw.w));
    unpack<Form>(to, raw);
  }

 private:
  uint4 raw_[kHeldVectors];
};
/// Such a tensor for rows that are read at every pass.
template <class Form>
class ReadWeight {
 public:
  template <class Group>
  __device__ ReadWeight(const Group&, const DeviceRows& weight, std::int64_t, typename Form::T otherwise)
      : from_(weight), otherwise_(otherwise) {}
  __device__ void read(typename Form::T (&to)[Form::N], std::int64_t i, int) const { from_.read_or(to, i, otherwise_); }

 private:
  RowCursor<Form> from_;
  typename Form::T otherwise_;
};
template <class Form, bool kIsHeld>
using WeightOf = std::conditional_t<kIsHeld, HeldWeight<Form>, ReadWeight<Form>>;

}  // namespace tessera::ops::cuda
