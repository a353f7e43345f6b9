#include "tessera/ops/nn/cuda/attention_launch.h"

#include <algorithm>
#include <limits>
#include <numbers>

#include "tessera/ops/nn/cuda/attention_backend.h"
#include "tessera/ops/nn/cuda/attention_form.h"

TESSERA_CUDA_IMAGE(attention_plain);
TESSERA_CUDA_IMAGE(attention_tensor);

namespace tessera::ops::cuda {
namespace {

using tensor::KernelCall;

Image plain(TESSERA_CUDA_BYTES(attention_plain));
Image tensor_cores(TESSERA_CUDA_BYTES(attention_tensor));

// One plain kernel for f32 arithmetic and one for f64, with the rows of a tile and the columns of a chunk.
struct PlainKernels {
  PlainKernels(const std::string& name, int rows_f32 = 64, int rows_f64 = 32)
      : f32(plain, name + "_f32"), f64(plain, name + "_f64"), rows{rows_f32, rows_f64} {}
  [[nodiscard]] const ImageKernel& of(bool is_double) const { return is_double ? f64 : f32; }
  ImageKernel f32, f64;
  int rows[2];
  static constexpr int kChunks[2] = {128, 64};
};

// A kernel with tensor cores for both dtypes and one width.
struct TensorKernels {
  TensorKernels(const std::string& name, int of_width, bool of_backward)
      : bf16(tensor_cores, "attention_" + name + "_bf16_" + std::to_string(of_width)),
        f16(tensor_cores, "attention_" + name + "_f16_" + std::to_string(of_width)),
        width(of_width),
        is_backward(of_backward) {}
  ImageKernel bf16, f16;
  int width;
  bool is_backward;
};

const PlainKernels plain_out("attention_plain_out");
const PlainKernels plain_dq("attention_plain_dq");
const PlainKernels plain_dk("attention_plain_dk");
const PlainKernels plain_dv("attention_plain_dv");
const PlainKernels plain_pages("attention_plain_pages", 16, 16);
const PlainKernels statistics("attention_statistics");
const PlainKernels parts("attention_parts");
const ImageKernel ranges(plain, "attention_ranges");

const TensorKernels tensor_out[] = {{"out", 64, false}, {"out", 128, false}, {"out", 256, false}};
const TensorKernels tensor_dq[] = {{"dq", 64, true}, {"dq", 128, true}, {"dq", 256, true}};
const TensorKernels tensor_dkdv[] = {{"dkdv", 64, true}, {"dkdv", 128, true}};
const TensorKernels tensor_dk("dk", 256, true);
const TensorKernels tensor_dv("dv", 256, true);

std::int64_t tiles(std::int64_t count, std::int64_t each) { return (count + each - 1) / each; }

std::uint32_t blocks_of(const KernelCall& call, std::int64_t groups, std::int64_t rows, std::int64_t tile_rows) {
  const std::int64_t blocks = groups * tiles(rows, tile_rows);
  TESSERA_CHECK_AS(NotSupported, blocks <= std::numeric_limits<std::int32_t>::max(), call.op.name(),
                   ": a call must have fewer than 2^31 tiles of ", tile_rows, " rows, got ", blocks,
                   "; split the batch");
  return static_cast<std::uint32_t>(blocks);
}

bool is_double(const AttentionArgs& of) { return of.q.dtype == DType::kF64; }
int width_index(const AttentionArgs& of) {
  const int width = tensor_width(std::max(of.d, of.e));
  return width == 64 ? 0 : width == 128 ? 1 : 2;
}

// Launches over all rows of `groups` groups, and the chunks of a result of `width` columns.
void launch_plain(const KernelCall& call, const AttentionArgs& of, const PlainKernels& kernels, std::int64_t groups,
                  std::int64_t rows, std::int64_t width) {
  const bool of_double = is_double(of);
  const std::uint32_t blocks = blocks_of(call, groups, rows, kernels.rows[of_double ? 1 : 0]);
  if (blocks == 0) return;
  const auto chunks =
      static_cast<std::uint32_t>(std::max<std::int64_t>(tiles(width, PlainKernels::kChunks[of_double ? 1 : 0]), 1));
  launch(call, kernels.of(of_double),
         {.grid = {blocks, chunks, static_cast<std::uint32_t>(of.pages.splits)}, .block = {kPlainThreads, 1, 1}},
         device::KernelArgs(of));
}

void launch_tensor(const KernelCall& call, const AttentionArgs& of, const TensorKernels& kernels, std::int64_t groups,
                   std::int64_t rows) {
  const std::uint32_t blocks = blocks_of(call, groups, rows, kTensorRows);
  if (blocks == 0) return;
  launch(call, of.q.dtype == DType::kBF16 ? kernels.bf16 : kernels.f16,
         {.grid = {blocks, 1, static_cast<std::uint32_t>(of.pages.splits)},
          .block = {kTensorThreads, 1, 1},
          .shared_nbytes = tensor_shared_nbytes(kernels.width, kernels.is_backward)},
         device::KernelArgs(of));
}

// Launches one thread per item.
void launch_items(const KernelCall& call, const AttentionArgs& of, const PlainKernels& kernels, std::int64_t items) {
  const std::uint32_t blocks = blocks_of(call, 1, items, kPlainThreads);
  if (blocks > 0) launch(call, kernels.of(is_double(of)), blocks, kPlainThreads, of);
}

// Returns attention by cuDNN if it computes the call.
const CudnnAttention* cudnn_for(const KernelCall& call, const AttentionArgs& of, const AttentionOptions& options) {
  if (options.backend == AttentionBackend::kTiled) return nullptr;
  if (options.backend == AttentionBackend::kAuto && !is_for_cudnn(of)) return nullptr;
  const std::string why_not = why_not_cudnn(of, options.is_deterministic);
  // The library is loaded only if a call needs it.
  const std::string_view unavailable = why_not.empty() ? why_no_cudnn() : std::string_view();
  return uses_cudnn(call.op.name(), options.backend, unavailable, why_not) ? cudnn_attention() : nullptr;
}

std::size_t sum_nbytes(const AttentionArgs& of) { return is_double(of) ? 8 : 4; }

}  // namespace

AttentionTensor attention_tensor(const Tensor& tensor) {
  AttentionTensor of;
  if (!tensor) return of;
  const auto stride = [&](int dim) {
    return tensor.shape()[static_cast<std::size_t>(dim)] == 1 ? 0 : tensor.strides()[static_cast<std::size_t>(dim)];
  };
  of.data = tensor.data();
  of.dtype = tensor.dtype();
  of.batch = stride(0);
  of.head = stride(1);
  of.row = stride(2);
  if (tensor.ndim() > 3) of.col = tensor.shape()[3] == 1 ? 1 : stride(3);
  return of;
}

std::int32_t attention_size(const KernelCall& call, std::int64_t size) {
  TESSERA_CHECK_AS(NotSupported, size <= std::numeric_limits<std::int32_t>::max(), call.op.name(),
                   ": sizes on cuda must be below 2^31, got ", size, "; split the call");
  return static_cast<std::int32_t>(size);
}

void launch_attention(const KernelCall& call, const AttentionArgs& of) {
  if (const CudnnAttention* cudnn = cudnn_for(call, of, attention_options())) return cudnn->forward(call, of);
  const std::int64_t groups = std::int64_t{of.batch} * of.groups;
  if (attention_form(of) == AttentionForm::kTensorCores) {
    launch_tensor(call, of, tensor_out[width_index(of)], groups, of.rows);
  } else {
    launch_plain(call, of, plain_out, groups, of.rows, of.e);
  }
}

void launch_attention_backward(const KernelCall& call, AttentionArgs of) {
  const AttentionOptions options = attention_options();
  if (const CudnnAttention* cudnn = cudnn_for(call, of, options)) {
    return cudnn->backward(call, of, options.is_deterministic);
  }
  const bool has_tensor_cores = attention_form(of) == AttentionForm::kTensorCores;
  const std::int64_t groups = std::int64_t{of.batch} * of.heads;
  const std::int64_t key_groups = std::int64_t{of.batch} * of.kv_heads;
  const std::int64_t queries = groups * of.queries;
  const memory::Buffer buffer = scratch(call, static_cast<std::size_t>(queries) * 2 * sum_nbytes(of));
  of.statistics = buffer.data();
  const std::uint32_t blocks = blocks_of(call, 1, queries, kPlainThreads / 32);
  const double unit = has_tensor_cores ? std::numbers::log2e : 1;
  if (blocks > 0) launch(call, statistics.of(is_double(of)), blocks, kPlainThreads, of, unit);
  if (!has_tensor_cores) {
    launch_plain(call, of, plain_dq, groups, of.rows, of.d);
    launch_plain(call, of, plain_dk, key_groups, of.keys, of.d);
    launch_plain(call, of, plain_dv, key_groups, of.keys, of.e);
    return;
  }
  const int at = width_index(of);
  launch_tensor(call, of, tensor_dq[at], groups, of.rows);
  if (at < 2) {
    launch_tensor(call, of, tensor_dkdv[at], key_groups, of.keys);
  } else {
    launch_tensor(call, of, tensor_dk, key_groups, of.keys);
    launch_tensor(call, of, tensor_dv, key_groups, of.keys);
  }
}

void launch_paged_attention(const KernelCall& call, AttentionArgs of) {
  const bool has_tensor_cores = attention_form(of) == AttentionForm::kTensorCores;
  const std::int64_t groups = std::int64_t{of.batch} * of.groups;
  const bool of_double = is_double(of);
  const std::int64_t chunks = has_tensor_cores ? 1 : tiles(of.e, PlainKernels::kChunks[of_double ? 1 : 0]);
  const int rows = has_tensor_cores ? kTensorRows : plain_pages.rows[of_double ? 1 : 0];
  of.pages.splits =
      attention_splits(groups * tiles(of.rows, rows) * chunks, std::int64_t{of.pages.columns} * of.pages.tokens,
                       call.where.context->device.properties().multiprocessors);
  memory::Buffer sums;
  memory::Buffer results;
  if (of.pages.splits > 1) {
    const auto count = static_cast<std::size_t>(groups * of.rows * of.pages.splits) * sum_nbytes(of);
    sums = scratch(call, 2 * count);
    results = scratch(call, count * static_cast<std::size_t>(of.e));
    of.pages.sums = sums.data();
    of.pages.parts = results.data();
  }
  if (has_tensor_cores) {
    launch_tensor(call, of, tensor_out[width_index(of)], groups, of.rows);
  } else {
    launch_plain(call, of, plain_pages, groups, of.rows, of.e);
  }
  if (of.pages.splits > 1) launch_items(call, of, parts, groups * of.rows * of.e);
}

void launch_attention_ranges(const KernelCall& call, const AttentionArgs& of) {
  if (of.queries > 0) launch(call, ranges, blocks_of(call, 1, of.queries, kPlainThreads), kPlainThreads, of);
}

}  // namespace tessera::ops::cuda
