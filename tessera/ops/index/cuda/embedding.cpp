// embedding on CUDA.
//
// An index out of range fails the next wait for the stream, as on the host: the kernel writes the index to a pinned
// word of the stream, and a host function after the kernel checks the word. The row is zeros. If several indices are
// out of range, the error names any one of them. A graph has no such function, which would cost each replay more than
// the kernel: there the row of a floating table is nan.
#include <atomic>
#include <map>
#include <mutex>

#include "tessera/ops/cuda/kernels.h"
#include "tessera/ops/index/cuda/embedding_rows.h"
#include "tessera/ops/index/detail/index_reader.h"
#include "tessera/ops/index/index.h"

TESSERA_CUDA_IMAGE(embedding_rows);

namespace tessera::ops::cuda {
namespace {

using tensor::KernelCall;

Image image(TESSERA_CUDA_BYTES(embedding_rows));
const ImageKernel embedding_kernel(image, "embedding_rows");

constexpr std::int64_t kWordNbytes = 16;
// Streams whose slots differ by a multiple of this share a word.
constexpr std::size_t kWords = 512;

// Returns the word of a stream, 0 between calls. It exists until the process ends, because graphs may write to it.
std::int64_t* refused_of(const device::Stream& stream, const device::Device& device) {
  static std::mutex mutex;
  static auto& words = *new std::map<const device::DeviceState*, device::PinnedMemory>;
  const std::lock_guard lock(mutex);
  device::PinnedMemory& of = words[device.state().get()];
  if (!of) {
    of = device.allocate_pinned(kWords * sizeof(std::int64_t));
    std::fill_n(reinterpret_cast<std::int64_t*>(of.data()), kWords, 0);
  }
  return reinterpret_cast<std::int64_t*>(of.data()) + stream.id().value() % kWords;
}

// Adds the dimensions of the index and the result; merges those that are contiguous in both.
void add_dims(const KernelCall& call, EmbeddingRows& of) {
  const Tensor& index = call.inputs[1];
  const Tensor& out = call.outputs[0];
  of.count = index.numel();
  for (std::size_t d = 0; d < index.shape().size(); ++d) {
    const std::int64_t size = index.shape()[d];
    if (size == 1) continue;
    const std::int64_t to = out.strides()[d];
    const std::int64_t from = index.strides()[d];
    const int last = of.ndim - 1;
    if (last >= 0 && of.to_strides[last] == to * size && of.index_strides[last] == from * size) {
      of.sizes[last] *= size;
      of.to_strides[last] = to;
      of.index_strides[last] = from;
      continue;
    }
    TESSERA_CHECK_AS(NotSupported, of.ndim < kMaxIndexDims, "embedding: index must have at most ", kMaxIndexDims,
                     " dimensions that cannot be merged; make it contiguous");
    of.sizes[of.ndim] = size;
    of.to_strides[of.ndim] = to;
    of.index_strides[of.ndim++] = from;
  }
}

void add_map(const layout::IndexMap& map, EmbeddingRows& of) {
  of.has_map = map != layout::IndexMap();
  if (!of.has_map) return;
  TESSERA_CHECK_AS(NotSupported, map.levels.size() <= kMaxRowLevels,
                   "embedding: table must be sharded into blocks at most ", kMaxRowLevels, " times, got ",
                   map.levels.size());
  of.offset = map.offset;
  of.block = map.block;
  for (std::size_t l = 0; l < map.levels.size(); ++l) {
    of.counts[l] = map.levels[l].count;
    of.strides[l] = map.levels[l].stride;
  }
  of.nlevels = static_cast<std::int32_t>(map.levels.size());
}

// Uses words of 16 bytes if all rows of both tensors are aligned to them.
void use_words(EmbeddingRows& of) {
  const auto fits = [&](std::int64_t elements) { return elements * of.itemsize % kWordNbytes == 0; };
  bool all = of.from_step == 1 && of.to_step == 1 && of.itemsize < kWordNbytes && fits(of.width) && fits(of.row_step);
  for (int d = 0; d < of.ndim; ++d) all &= fits(of.to_strides[d]);
  const std::uintptr_t places = reinterpret_cast<std::uintptr_t>(of.to) | reinterpret_cast<std::uintptr_t>(of.from);
  all &= places % kWordNbytes == 0;
  TESSERA_CHECK_AS(NotSupported, of.itemsize < kWordNbytes || places % kWordNbytes == 0,
                   "embedding: elements of 16 bytes must be aligned to 16 bytes; copy the table");
  if (!all) return;
  of.has_words = true;
  const std::int64_t each = kWordNbytes / of.itemsize;
  of.width /= each;
  of.row_step /= each;
  for (int d = 0; d < of.ndim; ++d) of.to_strides[d] /= each;
}

// Fills an item with the nan of a floating dtype.
void set_nan(DType dtype, std::uint64_t (&item)[2]) {
  const std::uint64_t bits = dtype == DType::kF64    ? 0x7FF8000000000000U
                             : dtype == DType::kF32  ? 0x7FC000007FC00000U
                             : dtype == DType::kBF16 ? 0x7FC07FC07FC07FC0U
                                                     : 0x7E007E007E007E00U;
  item[0] = item[1] = bits;
}

void run(const KernelCall& call) {
  const auto& attributes = call.as<EmbeddingAttributes>();
  const Tensor& weight = call.inputs[0];
  const Tensor& index = call.inputs[1];
  const Tensor& out = call.outputs[0];
  TESSERA_CHECK_CALL(call, index.dtype() == DType::kI64 || index.dtype() == DType::kI32,
                     "index must be i64 or i32 on cuda, got ", index.dtype(), "; cast it");
  if (index.numel() == 0) return;
  EmbeddingRows of;
  of.to = out.data();
  of.from = weight.data();
  of.index = index.data();
  of.is_wide = index.dtype() == DType::kI64;
  of.itemsize = static_cast<std::int32_t>(itemsize(weight.dtype()));
  of.rows = attributes.rows < 0 ? weight.size(0) : attributes.rows;
  of.width = weight.size(1);
  of.row_step = weight.strides()[0];
  of.from_step = weight.size(1) == 1 ? 1 : weight.strides()[1];
  of.to_step = weight.size(1) == 1 ? 1 : out.strides()[index.shape().size()];
  add_dims(call, of);
  add_map(attributes.row_map, of);
  use_words(of);
  const bool is_captured = call.stream().slot().hazards() != 0 && call.stream().is_capturing();
  const bool is_nan = is_captured && is_floating(weight.dtype()) && of.itemsize > 1;
  if (is_nan) {
    set_nan(weight.dtype(), of.refused_item);
  } else {
    of.refused = refused_of(call.stream(), call.where.context->device);
  }
  launch(call, embedding_kernel, blocks_for(call, of.count, kThreads / 32), kThreads, of);
  if (is_nan) return;
  call.stream().run(
      [refused = of.refused, reader = detail::IndexReader(index, of.rows, "embedding", 0)] {
        const std::int64_t word = std::atomic_ref<std::int64_t>(*refused).exchange(0);
        if (word != 0) reader.refuse(word == refused_word(0) ? 0 : word);
      },
      {.label = "embedding", .accesses = std::span<const device::Access>()});
}

const tensor::KernelRegistration kEmbedding("embedding", "cuda", run);

}  // namespace
}  // namespace tessera::ops::cuda
