// Rows of vectors that groups of threads read in turn. Blocks stay, and the next rows of each group are copied to
// shared memory while the current one is processed, so that loads are always in flight. Each thread copies only the
// vectors that it reads itself, so that no barrier is needed.
#pragma once

#include "tessera/ops/nn/cuda/copy_ahead.cuh"
#include "tessera/ops/nn/cuda/row_groups.cuh"

namespace tessera::ops::cuda {

extern __shared__ uint4 shared_vectors[];

/// The rows of a tensor that a group processes: every (gridDim.x * slots)-th.
template <class Form>
class RowStream {
 public:
  using T = typename Form::T;
  static constexpr int N = Form::N;

  __device__ RowStream(const RowGroup<false>& group, const DeviceRows& rows)
      : rows_(rows), width_(group.width), index_(group.index), slot_(group.slot), slots_(group.slots) {}

  /// Calls body(row, is_valid) for each row. The groups of a block make equally many calls.
  template <class F>
  __device__ void for_rows(const F& body) {
    const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.x) * slots_;
    const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * slots_;
    const auto calls = static_cast<int>((rows_.count - first_row + step - 1) / step);
    std::int64_t row = first_row + slot_;
#pragma unroll 1
    for (int s = 0; s < kStreamRowsAhead; ++s) fetch(s, row + s * step);
    for (int i = 0; i < calls; ++i, row += step) {
      fetch(stage_ == 0 ? kStreamRowsAhead : stage_ - 1, row + kStreamRowsAhead * step);
      wait_for_copies<kStreamRowsAhead>();
      const bool is_valid = row < rows_.count;
      length_ = is_valid ? static_cast<int>(rows_.length) : 0;
      body(is_valid ? row : rows_.count - 1, is_valid);
      stage_ = stage_ == kStreamRowsAhead ? 0 : stage_ + 1;
    }
    wait_for_copies<0>();
  }

  /// Calls body(values, i) for the elements of this thread in the current row, N at a time: T values[1][N] from element
  /// i on.
  template <class F>
  __device__ void each(const F& body) const {
#pragma unroll
    for (int v = 0; v < kStreamVectors; ++v) {
      const int i = (v * width_ + index_) * N;
      if (i >= length_) continue;
      T values[1][N];
      unpack<Form>(values[0], *cell(stage_, v));
      body(values, i, v);
    }
  }

 private:
  __device__ uint4* cell(int stage, int v) const {
    return shared_vectors + (stage * kStreamVectors + v) * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);
  }
  __device__ void fetch(int stage, std::int64_t row) {
    if (row < rows_.count) {
      const RowCursor<Form> from(rows_, row);
#pragma unroll
      for (int v = 0; v < kStreamVectors; ++v) {
        const int i = (v * width_ + index_) * N;
        if (i < rows_.length) copy_ahead(cell(stage, v), from.at + i * (16 / N));
      }
    }
    end_copies();
  }

  const DeviceRows& rows_;
  int width_;
  int index_;
  int slot_;
  int slots_;
  int stage_ = 0;
  int length_ = 0;
};

/// A tensor of one row, such as a weight. A thread of a stream keeps the vectors that belong to its own, because a load
/// in the loop over rows, even from the cache, waits for all copies before it.
template <class Form>
class StreamedWeight {
 public:
  /// Loads the vectors; if the tensor is absent, all elements are `otherwise`.
  __device__ StreamedWeight(const RowGroup<false>& group, const DeviceRows& weight, std::int64_t length,
                            float otherwise) {
    const RowCursor<Form> from(weight);
    float same[Form::N];
#pragma unroll
    for (float& each : same) each = otherwise;
#pragma unroll
    for (int v = 0; v < kStreamVectors; ++v) {
      const int i = (v * group.width + group.index) * Form::N;
      raw_[v] = pack<Form>(same);
      if (from.at != nullptr && i < length) raw_[v] = from.read(i);
    }
  }
  __device__ void read(float (&to)[Form::N], std::int64_t, int v) const {
    uint4 raw = raw_[v];
    // Keeps the compiler from converting all vectors before the loop, for which registers do not suffice.
    asm volatile("" : "+r"(raw.x), "+r"(raw.y), "+r"(raw.z), "+r"(raw.w));
    unpack<Form>(to, raw);
  }

 private:
  uint4 raw_[kStreamVectors];
};
/// Such a tensor for rows that are not streamed.
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
template <class Form, bool kIsStreamed>
using WeightOf = std::conditional_t<kIsStreamed, StreamedWeight<Form>, ReadWeight<Form>>;

/// Calls body(row, is_valid, reader) for the rows of a group, where reader.each(f) calls f(values, i, v).
template <class Form, bool kIsStreamed, class F>
__device__ void for_each_row(GroupOf<Form>& group, const DeviceRows& rows, const F& body) {
  if constexpr (kIsStreamed) {
    RowStream<Form> stream(group, rows);
    stream.for_rows([&](std::int64_t row, bool is_valid) { body(row, is_valid, stream); });
  } else {
    group.for_rows(rows.count, [&](std::int64_t row, bool is_valid) {
      const RowCursor<Form> from[] = {{rows, row}};
      body(row, is_valid, RowReader<Form, 1, false>(group, is_valid ? rows.length : 0, from));
    });
  }
}

}  // namespace tessera::ops::cuda
