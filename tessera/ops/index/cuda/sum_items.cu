// Adds items with equal keys in the order of their places, in the compute type, and rounds once: with the bits of the
// host.
#include "tessera/ops/cuda/raw_vectors.cuh"
#include "tessera/ops/cuda/strided.cuh"
#include "tessera/ops/index/cuda/rejections.cuh"
#include "tessera/ops/index/cuda/sum_items.h"

namespace tessera::ops::cuda {
namespace {

__device__ std::int64_t first_item() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ std::int64_t all_threads() { return std::int64_t{gridDim.x} * blockDim.x; }

__device__ void add_to(float& sum, float value) { sum = __fadd_rn(sum, value); }
__device__ void add_to(double& sum, double value) { sum = __dadd_rn(sum, value); }
// Sums wrap.
__device__ void add_to(std::int64_t& sum, std::int64_t value) {
  sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum) + static_cast<std::uint64_t>(value));
}
__device__ void add_to(Complex<float>& sum, Complex<float> value) {
  add_to(sum.re, value.re);
  add_to(sum.im, value.im);
}

__device__ std::int64_t source_at(const Walk& places, std::int64_t place) {
  std::int64_t at[3];
  offsets_at(places, place, at);
  return at[1];
}

// One element or vector per thread: x of a row, then its slices.
template <class T>
__device__ void sum_elements(const ItemSums& of) {
  for (std::int64_t i = first_item(); i < of.outs.numel; i += all_threads()) {
    std::int64_t at[4];
    offsets_at(of.outs, i, at);
    T sum{};
    if (of.x != nullptr) sum = load<T>(of.x, of.dtype, at[1]);
    const std::uint32_t end = of.starts[at[3] + 1];
    for (std::uint32_t place = of.starts[at[3]]; place < end; ++place) {
      add_to(sum, load<T>(of.source, of.dtype, at[2] + source_at(of.at_places, of.places[place])));
    }
    store(sum, of.to, of.dtype, at[0]);
  }
}

// Vectors of elements of S in memory.
template <class S>
struct Vectors {
  using Raw = RawVector<float, kSumVector>;

  static __device__ void load(Raw& to, const void* from, std::int64_t at) {
    elements::load_items<static_cast<int>(sizeof(S))>(to, from, at * kSumVector);
  }
  static __device__ void add(float (&sums)[kSumVector], const Raw& raw) {
    S read[kSumVector];
    memcpy(read, raw.words, sizeof read);
#pragma unroll
    for (int e = 0; e < kSumVector; ++e) add_to(sums[e], elements::from_memory<float>(read[e]));
  }
  static __device__ void store(const float (&sums)[kSumVector], void* to, std::int64_t at) {
    uint4 words[kSumVector * sizeof(S) / 16];
    std::uint32_t written[kSumVector * sizeof(S) / 4];
    elements::to_words<S>(written, sums);
    memcpy(words, written, sizeof words);
    auto* vectors = reinterpret_cast<uint4*>(static_cast<S*>(to) + at * kSumVector);
#pragma unroll
    for (int w = 0; w < static_cast<int>(sizeof words / 16); ++w) __stwb(vectors + w, words[w]);
  }
};

// Offsets of a vector of the result, and its places.
struct SummedVector {
  std::int64_t to, x, source;
  std::uint32_t place, end;

  __device__ void find(const ItemSums& of, std::int64_t i) {
    std::int64_t at[4];
    offsets_at(of.outs, i, at);
    to = at[0];
    x = at[1];
    source = at[2];
    place = of.starts[at[3]];
    end = of.starts[at[3] + 1];
  }
  // The offset of a slice, in vectors.
  __device__ std::int64_t slice(const ItemSums& of, std::uint32_t at) const {
    return source + source_at(of.at_places, at) / kSumVector;
  }
};

// Adds the slices of a vector. Several slices are in flight.
template <class S>
__device__ void sum_slices(const ItemSums& of, std::int64_t i) {
  SummedVector vector;
  vector.find(of, i);
  float sums[kSumVector] = {};
  typename Vectors<S>::Raw raw[kSlicesAhead];
  if (of.x != nullptr) {
    Vectors<S>::load(raw[0], of.x, vector.x);
    Vectors<S>::add(sums, raw[0]);
  }
  for (std::uint32_t place = vector.place; place < vector.end; place += kSlicesAhead) {
    std::uint32_t at[kSlicesAhead];
#pragma unroll
    for (int k = 0; k < kSlicesAhead; ++k) {
      if (place + k < vector.end) at[k] = of.places[place + k];
    }
#pragma unroll
    for (int k = 0; k < kSlicesAhead; ++k) {
      if (place + k < vector.end) Vectors<S>::load(raw[k], of.source, vector.slice(of, at[k]));
    }
#pragma unroll
    for (int k = 0; k < kSlicesAhead; ++k) {
      if (place + k < vector.end) Vectors<S>::add(sums, raw[k]);
    }
  }
  Vectors<S>::store(sums, of.to, vector.to);
}

// Many keys have at most one place. A thread loads the slices of several such vectors before it adds them.
template <class S>
__device__ void sum_vectors(const ItemSums& of) {
  for (std::int64_t first = first_item(); first < of.outs.numel; first += kSumsAhead * all_threads()) {
    SummedVector vectors[kSumsAhead];
    typename Vectors<S>::Raw raw[kSumsAhead];
    std::uint32_t at[kSumsAhead];
    unsigned others = 0;
#pragma unroll
    for (int k = 0; k < kSumsAhead; ++k) {
      vectors[k].place = vectors[k].end = 0;
      const std::int64_t i = first + k * all_threads();
      if (i < of.outs.numel) vectors[k].find(of, i);
    }
#pragma unroll
    for (int k = 0; k < kSumsAhead; ++k) {
      if (vectors[k].end - vectors[k].place > 1 || of.x != nullptr) others |= 1U << k;
      if (vectors[k].end - vectors[k].place == 1) at[k] = of.places[vectors[k].place];
    }
#pragma unroll
    for (int k = 0; k < kSumsAhead; ++k) {
      if (vectors[k].end - vectors[k].place == 1) Vectors<S>::load(raw[k], of.source, vectors[k].slice(of, at[k]));
    }
#pragma unroll
    for (int k = 0; k < kSumsAhead; ++k) {
      if (first + k * all_threads() >= of.outs.numel || (others >> k & 1) != 0) continue;
      float sums[kSumVector] = {};
      if (vectors[k].end > vectors[k].place) Vectors<S>::add(sums, raw[k]);
      Vectors<S>::store(sums, of.to, vectors[k].to);
    }
#pragma unroll 1
    for (; others != 0; others &= others - 1) {
      const std::int64_t i = first + (__ffs(static_cast<int>(others)) - 1) * all_threads();
      if (i < of.outs.numel) sum_slices<S>(of, i);
    }
  }
}

// The first place of each key adds all places of the key to the result.
template <class T>
__device__ void sum_heads(const ItemSums& of) {
  for (std::int64_t i = first_item(); i < of.count; i += all_threads()) {
    const std::uint32_t key = of.keys[i];
    if (key == of.nkeys || (i > 0 && of.keys[i - 1] == key)) continue;
    std::int64_t at[1];
    offsets_at(of.outs, key, at);
    T sum = load<T>(of.to, of.dtype, at[0]);
    for (std::int64_t p = i; p < of.count && of.keys[p] == key; ++p) {
      add_to(sum, load<T>(of.source, of.dtype, source_at(of.at_places, of.places[p])));
    }
    store(sum, of.to, of.dtype, at[0]);
  }
}

// The first place of each index in a line adds all places of the index to the result.
template <class T>
__device__ void sum_lines(const LineSums& of) {
  const std::int64_t index_step = of.places.steps[0][0];
  const std::int64_t source_step = of.places.steps[0][1];
  for (std::int64_t i = first_item(); i < of.places.numel; i += all_threads()) {
    std::int64_t at[3];
    offsets_at(of.places, i, at);
    const std::int64_t index = checked_index(of.index, at[0]);
    const std::int64_t here = i % of.length;
    bool is_first = index >= 0;
    for (std::int64_t p = 1; is_first && p <= here; ++p) is_first = index_at(of.index, at[0] - p * index_step) != index;
    if (!is_first) continue;
    const std::int64_t to = at[2] + index * of.step;
    T sum = load<T>(of.to, of.dtype, to);
    for (std::int64_t p = 0; here + p < of.length; ++p) {
      if (p > 0 && index_at(of.index, at[0] + p * index_step) != index) continue;
      add_to(sum, load<T>(of.source, of.dtype, at[1] + p * source_step));
    }
    store(sum, of.to, of.dtype, to);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256) find_starts(const __grid_constant__ ItemSums of) {
  for (std::int64_t key = first_item(); key <= of.nkeys; key += all_threads()) {
    std::uint32_t low = 0;
    std::uint32_t high = of.count;
    while (low < high) {
      const std::uint32_t middle = low + (high - low) / 2;
      if (of.keys[middle] < key) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    of.starts[key] = low;
  }
}

#define TESSERA_SUM_VECTORS(name, S)                                                                             \
  extern "C" __global__ void __launch_bounds__(256, 2) sum_vectors_##name(const __grid_constant__ ItemSums of) { \
    sum_vectors<S>(of);                                                                                          \
  }
TESSERA_SUM_VECTORS(f32, float)
TESSERA_SUM_VECTORS(bf16, bf16)
TESSERA_SUM_VECTORS(f16, f16)

#define TESSERA_SUM_KERNELS(name, T)                                                                        \
  extern "C" __global__ void __launch_bounds__(256) sum_rows_##name(const __grid_constant__ ItemSums of) {  \
    sum_elements<T>(of);                                                                                    \
  }                                                                                                         \
  extern "C" __global__ void __launch_bounds__(256) sum_heads_##name(const __grid_constant__ ItemSums of) { \
    sum_heads<T>(of);                                                                                       \
  }                                                                                                         \
  extern "C" __global__ void __launch_bounds__(256) sum_lines_##name(const __grid_constant__ LineSums of) { \
    sum_lines<T>(of);                                                                                       \
  }
TESSERA_SUM_KERNELS(f32, float)
TESSERA_SUM_KERNELS(f64, double)
TESSERA_SUM_KERNELS(i64, std::int64_t)
TESSERA_SUM_KERNELS(c64, Complex<float>)

}  // namespace tessera::ops::cuda
