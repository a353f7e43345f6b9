// Norms of lists of tensors. Each block adds the elements of a chunk of one tensor to one number; a second launch joins
// the numbers in order. The norm and the clip factor stay on the device.
//
// A thread takes the same elements of a dense chunk whether they are aligned or not, so that a norm does not depend on
// the address of a tensor.
#include "tessera/ops/reduce/cuda/reduce_steps.cuh"
#include "tessera/ops/update/cuda/lists.cuh"

namespace tessera::ops::cuda {
namespace {

constexpr int kBlock = 256;
constexpr int kFinal = 1024;  // threads of the block that joins all chunks
constexpr int kVectors = 4;   // vectors that a thread has in flight
constexpr unsigned kAllLanes = 0xffffffff;

__device__ FoldRule rule_of(double p) {
  FoldRule rule{};
  rule.parameter = p;
  rule.fold = isinf(p) ? detail::Fold::kMax : detail::Fold::kSum;
  rule.map = p == 2 ? detail::Map::kSquare : p == 1 || isinf(p) ? detail::Map::kAbs : detail::Map::kPower;
  rule.finish = p == 1 || isinf(p) ? detail::Finish::kNone : detail::Finish::kRoot;
  return rule;
}

/// Joins the values of all threads in thread 0.
template <int kThreads>
__device__ double joined_block(const FoldRule& rule, double value) {
  __shared__ double parts[kThreads / 32];
  for (int by = 16; by > 0; by /= 2) {
    value = detail::combined(rule.fold, value, __shfl_down_sync(kAllLanes, value, by));
  }
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < kThreads / 32; ++w) value = detail::combined(rule.fold, value, parts[w]);
  }
  return value;
}

/// Takes the elements [begin, end) of a tensor. load_group(i, x) loads the elements of this thread of a round from i
/// on.
template <class T, int kLength, class Load>
__device__ double fold_chunk(const FoldRule& rule, std::int64_t begin, std::int64_t end, const Load& load_group) {
  using Step = FoldStep<T, double>;
  constexpr int kGroup = kVectors * kLength;
  double value = Step::identity(rule);
  for (std::int64_t i = begin; i < end; i += std::int64_t{kBlock} * kGroup) {
    T x[kGroup];
    load_group(i, x);
    Step::template take<kLength>(rule, value, x, kGroup, 0, 0);
  }
  return value;
}

/// Returns the index of element k of a group of this thread.
template <int kLength>
__device__ std::int64_t index_of(std::int64_t begin, int k) {
  return begin + (std::int64_t{k / kLength} * kBlock + threadIdx.x) * kLength + k % kLength;
}

/// The elements of a dense tensor of type S. Elements beyond the end are zeros, which change no norm.
template <class T, class S>
__device__ double fold_dense(const FoldRule& rule, const ListTensor& of, std::int64_t begin, std::int64_t end) {
  constexpr int kLength = 16 / sizeof(S);
  const S* from = reinterpret_cast<const S*>(of.parts[0]);
  return fold_chunk<T, kLength>(rule, begin, end, [&](std::int64_t i, T(&x)[kVectors * kLength]) {
    if (of.has_vectors && i + std::int64_t{kBlock} * kVectors * kLength <= end) {
      uint4 raw[kVectors];
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        raw[v] = *reinterpret_cast<const uint4*>(from + index_of<kLength>(i, v * kLength));
      }
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        S part[kLength];
        memcpy(part, &raw[v], sizeof(part));
#pragma unroll
        for (int k = 0; k < kLength; ++k) x[v * kLength + k] = elements::from_memory<T>(part[k]);
      }
      return;
    }
#pragma unroll
    for (int k = 0; k < kVectors * kLength; ++k) {
      const std::int64_t at = index_of<kLength>(i, k);
      x[k] = at < end ? elements::from_memory<T>(from[at]) : T(0);
    }
  });
}

template <class T>
__device__ double fold_strided(const FoldRule& rule, const StridedTensor& of, std::int64_t begin, std::int64_t end) {
  constexpr int kLength = 1;
  return fold_chunk<T, kLength>(rule, begin, end, [&](std::int64_t i, T(&x)[kVectors * kLength]) {
#pragma unroll
    for (int k = 0; k < kVectors * kLength; ++k) {
      const std::int64_t element = index_of<kLength>(i, k);
      x[k] = T(0);
      if (element >= end) continue;
      std::int64_t at[1];
      offsets_of(of, element, at);
      x[k] = load<T>(of.tensor.parts[0], of.tensor.dtypes[0], at[0]);
    }
  });
}

/// Calls body.operator()<T, S>() for the dtype of a tensor, one of f32, f64, bf16 and f16.
template <class F>
__device__ double with_types(DType dtype, const F& body) {
  double value = 0;
  const auto call = [&]<class S>(const S*) {
    value = body.template operator()<std::conditional_t<sizeof(S) == 8, double, float>, S>();
  };
  if (!elements::with_own_type<float>(dtype, call)) call(static_cast<const double*>(nullptr));
  return value;
}

/// Puts the value of the chunk of this block.
__device__ void put_chunk(const NormCall& call, const FoldRule& rule, double value) {
  value = joined_block<kBlock>(rule, value);
  if (threadIdx.x == 0) call.partial[call.first + blockIdx.x] = value;
}

}  // namespace

/// One chunk per block. A unit of `lists` is a chunk.
extern "C" __global__ void __launch_bounds__(kBlock, 3)
    norm_chunks(const __grid_constant__ TensorLists lists, const __grid_constant__ NormCall call) {
  const FoldRule rule = rule_of(call.p);
  const int which = tensor_of(lists, blockIdx.x);
  const ListTensor& of = lists.tensors[which];
  const std::int64_t begin = (std::int64_t{blockIdx.x} - lists.first_unit[which]) * kNormChunk;
  const std::int64_t end = begin + kNormChunk < of.numel ? begin + kNormChunk : of.numel;
  put_chunk(call, rule,
            with_types(of.dtypes[0], [&]<class T, class S>() { return fold_dense<T, S>(rule, of, begin, end); }));
}

/// One chunk per block of a tensor that is not dense.
extern "C" __global__ void __launch_bounds__(kBlock)
    norm_strided_chunks(const __grid_constant__ StridedTensor of, const __grid_constant__ NormCall call) {
  const FoldRule rule = rule_of(call.p);
  const std::int64_t begin = std::int64_t{blockIdx.x} * kNormChunk;
  const std::int64_t end = begin + kNormChunk < of.tensor.numel ? begin + kNormChunk : of.tensor.numel;
  const bool is_double = of.tensor.dtypes[0] == DType::kF64;
  put_chunk(call, rule,
            is_double ? fold_strided<double>(rule, of, begin, end) : fold_strided<float>(rule, of, begin, end));
}

/// Joins the chunks of each tensor, one block per tensor, and writes its norm to part 1.
extern "C" __global__ void __launch_bounds__(kBlock)
    norm_of_each(const __grid_constant__ TensorLists lists, const __grid_constant__ NormCall call) {
  const FoldRule rule = rule_of(call.p);
  const auto which = static_cast<int>(blockIdx.x);
  const int stop = which + 1 < lists.count ? lists.first_unit[which + 1] : lists.units;
  double value = 0;
  for (int i = lists.first_unit[which] + static_cast<int>(threadIdx.x); i < stop; i += kBlock) {
    value = detail::combined(rule.fold, value, call.partial[call.first + i]);
  }
  value = joined_block<kBlock>(rule, value);
  const ListTensor& of = lists.tensors[which];
  if (threadIdx.x == 0) store(detail::finished(rule.finish, value, rule.parameter), of.parts[1], of.dtypes[1], 0);
}

/// Joins the first `count` chunks and writes the norm and the factor that scales it down to `most`. One block.
extern "C" __global__ void __launch_bounds__(kFinal)
    norm_of_all(NormCall call, std::int64_t count, double most, void* norm, void* factor, DType dtype) {
  const FoldRule rule = rule_of(call.p);
  double value = 0;
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < count; i += kFinal) {
    value = detail::combined(rule.fold, value, call.partial[i]);
  }
  value = joined_block<kFinal>(rule, value);
  if (threadIdx.x != 0) return;
  const double found = detail::finished(rule.finish, value, rule.parameter);
  store(found, norm, dtype, 0);
  store(found > most ? most / found : is_nan(found) ? found : 1.0, factor, dtype, 0);
}

}  // namespace tessera::ops::cuda
