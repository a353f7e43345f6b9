// arange, eye, randint and randperm on CUDA, with the bits of the host.
#include "tessera/ops/create/cuda/counted.h"

#include "tessera/ops/create/create.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/cuda/kernels.h"

TESSERA_CUDA_IMAGE(counted);

namespace tessera::ops::cuda {
namespace {

using tensor::KernelCall;

Image image(TESSERA_CUDA_BYTES(counted));
const ImageKernel fill_kernel(image, "counted_fill");

void run(const KernelCall& call, CountedFill& of, const Shape& global, const std::vector<layout::IndexMap>& index) {
  const Tensor& out = call.outputs[0];
  if (out.numel() == 0) return;
  of.to = out.data();
  of.dtype = out.dtype();
  of.numel = out.numel();
  of.is_dense = out.is_contiguous() && index.empty();
  of.has_vectors = of.is_dense && is_aligned(of.to, of.dtype, 4);
  if (!of.is_dense) of.places = places_of(out, global, index, call.op.name().c_str());
  launch(call, fill_kernel, blocks_for(call, of.numel, 4 * std::int64_t{kThreads}), kThreads, of);
}

void run_arange(const KernelCall& call) {
  const auto& a = call.as<ArangeAttributes>();
  CountedFill of;
  const bool is_floating = a.start.kind() == Scalar::Kind::kFloating || a.step.kind() == Scalar::Kind::kFloating;
  of.kind = is_floating ? CountKind::kFloating : CountKind::kIntegers;
  if (is_floating) {
    of.floating_start = a.start.as_double();
    of.floating_step = a.step.as_double();
  } else {
    of.start = a.start.as_int64();
    of.step = a.step.as_int64();
  }
  run(call, of, Shape({0}), a.index);
}

// The index of an element of a complete matrix is row * columns + column, that of a shard row * 2^31 + column.
void run_eye(const KernelCall& call) {
  const auto& a = call.as<EyeAttributes>();
  constexpr std::int64_t kRow = std::int64_t{1} << 31;
  CountedFill of;
  of.kind = CountKind::kDiagonal;
  of.row = a.index.empty() ? a.shape[1] : kRow;
  run(call, of, Shape({kRow, kRow}), a.index);
}

CountedFill drawn(const KernelCall& call, CountKind kind) {
  const auto& a = call.as<RandomAttributes>();
  CountedFill of;
  of.kind = kind;
  of.seed = static_cast<std::uint64_t>(a.seed);
  of.call = static_cast<std::uint64_t>(a.call);
  if (!call.inputs.empty() && call.inputs[0]) of.counter = call.inputs[0].data_as<std::int64_t>();
  return of;
}

void run_integers(const KernelCall& call) {
  const auto& a = call.as<RandomAttributes>();
  CountedFill of = drawn(call, CountKind::kDraws);
  of.range.low = a.a.as_int64();
  of.range.range = static_cast<std::uint64_t>(a.b.as_int64()) - static_cast<std::uint64_t>(of.range.low);
  run(call, of, a.global, a.index);
}

void run_permutation(const KernelCall& call) {
  const auto& a = call.as<RandomAttributes>();
  CountedFill of = drawn(call, CountKind::kPermutation);
  of.permutation.n = static_cast<std::uint64_t>(a.a.as_int64());
  of.permutation.half = detail::permutation_half(of.permutation.n);
  run(call, of, a.global, a.index);
}

const tensor::KernelRegistration kArange("arange", "cuda", run_arange);
const tensor::KernelRegistration kEye("eye", "cuda", run_eye);
const tensor::KernelRegistration kRandint("randint", "cuda", run_integers);
const tensor::KernelRegistration kRandperm("randperm", "cuda", run_permutation);

}  // namespace
}  // namespace tessera::ops::cuda
