#include "tessera/ops/nn/cuda/rows_of.h"

#include <algorithm>
#include <bit>

namespace tessera::ops::cuda {
namespace {

constexpr std::int64_t kBlock = 256;
// Groups of rows that are read in one pass: small, so that the ends of rows overlap with the middle of others.
constexpr std::int64_t kOnePassThreads = 256;
// Groups of rows that are read again. Two of them per multiprocessor overlap; with rows of more bytes than this, their
// rows would not remain in the cache for the second read, and a group takes a multiprocessor alone.
constexpr std::int64_t kMaxSharedNbytes = 128 << 10;
constexpr std::int64_t kMaxThreads = 1024;

// Groups of consecutive threads.
RowThreads threads_along(std::int64_t width) { return {static_cast<std::int32_t>(width), false}; }

}  // namespace

DeviceRows rows_of(const tensor::KernelCall& call, const Tensor& tensor, int dim) {
  DeviceRows rows;
  if (!tensor) return rows;
  rows.data = tensor.data();
  rows.dtype = tensor.dtype();
  for (int i = 0; i < tensor.ndim(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t size = tensor.shape()[at];
    const std::int64_t stride = tensor.strides()[at];
    if (i == dim) {
      rows.step = size == 1 ? 1 : stride;
      rows.length = size;
      continue;
    }
    rows.count *= size;
    if (size == 1) continue;
    if (rows.ndim > 0 && rows.strides[rows.ndim - 1] == stride * size) {
      rows.sizes[rows.ndim - 1] *= size;
      rows.strides[rows.ndim - 1] = stride;
      continue;
    }
    TESSERA_CHECK_AS(NotSupported, rows.ndim < kMaxRowDims, call.op.name(), ": a tensor must have at most ",
                     kMaxRowDims, " dimensions that cannot be merged, got ", describe(tensor), "; make it contiguous");
    rows.sizes[rows.ndim] = size;
    rows.strides[rows.ndim++] = stride;
  }
  for (int d = 0; d < rows.ndim; ++d) rows.dividers[d] = divider_of(rows.sizes[d]);
  return rows;
}

DeviceRows dense_rows(std::byte* data, DType dtype, std::int64_t count, std::int64_t length) {
  DeviceRows rows;
  rows.data = data;
  rows.dtype = dtype;
  rows.length = length;
  rows.count = count;
  rows.ndim = 1;
  rows.sizes[0] = count;
  rows.strides[0] = length;
  return rows;
}

RowFormKind row_form(std::initializer_list<const DeviceRows*> all) {
  const DeviceRows& first = **all.begin();
  const RowFormKind form = vector_form(first.dtype);
  if (form == RowFormKind::kDouble) return form;
  const std::int64_t n = elements_of(form);
  for (const DeviceRows* rows : all) {
    if (rows->data != nullptr && !rows->has_vectors(n)) return RowFormKind::kAny;
  }
  return form;
}

RowFormKind shifted_form(std::initializer_list<const DeviceRows*> all) {
  const DeviceRows& first = **all.begin();
  const RowFormKind form = vector_form(first.dtype);
  if (form == RowFormKind::kDouble) return form;
  const std::int64_t n = elements_of(form);
  const auto element = [](const DeviceRows& rows) {
    return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(rows.data) / itemsize(rows.dtype));
  };
  for (const DeviceRows* rows : all) {
    bool fits = rows->step == 1 && rows->ndim == first.ndim && (element(*rows) - element(first)) % n == 0;
    for (int d = 0; fits && d < first.ndim; ++d) {
      fits = rows->sizes[d] == first.sizes[d] && (rows->strides[d] - first.strides[d]) % n == 0;
    }
    if (!fits) return RowFormKind::kAny;
  }
  return form;
}

std::int64_t power_of_two(std::int64_t n) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1))));
}

CudaRowKernels::CudaRowKernels(Image& image, const std::string& name, Reads reads) : reads_(reads) {
  const char* const kForms[] = {"_float", "_bf16", "_f16", "_any", "_double"};
  for (std::size_t i = 0; i < kRowForms; ++i) {
    long_[i] = std::make_unique<ImageKernel>(image, name + kForms[i] + "_long");
    if (i < kVectorForms && reads == Reads::kHeld) {
      held_[i] = std::make_unique<ImageKernel>(image, name + kForms[i] + "_held");
    }
  }
}

CudaRowKernels::Choice CudaRowKernels::choose(const tensor::KernelCall& call, const DeviceRows& rows,
                                              RowFormKind form) const {
  const auto at = static_cast<std::size_t>(form);
  const std::int64_t vectors = rows.length / elements_of(form);
  const auto choice = [&](const ImageKernel& kernel, const RowThreads& threads, std::int64_t block,
                          std::int64_t rows_each) {
    return Choice{
        &kernel,
        threads,
        {.grid = {blocks_for(call, rows.count, rows_each), 1, 1}, .block = {static_cast<std::uint32_t>(block), 1, 1}}};
  };
  // Rows whose first elements are adjacent.
  if (elements_of(form) == 1 && rows.ndim > 0 && rows.length > 1 && rows.count > 1 &&
      std::abs(rows.strides[rows.ndim - 1]) < std::abs(rows.step)) {
    const std::int64_t width = std::clamp<std::int64_t>(power_of_two(rows.length / 8), 1, kMaxRowThreads / 32);
    return choice(*long_[at], {static_cast<std::int32_t>(width), true}, 32 * width, 32);
  }
  const bool is_held =
      at < kVectorForms && reads_ == Reads::kHeld && vectors <= std::int64_t{kHeldVectors} * kMaxHeldThreads;
  // Eight threads read whole lines of memory.
  const std::int64_t fewest = std::min<std::int64_t>(power_of_two(vectors), 8);
  const std::int64_t nbytes = rows.length * static_cast<std::int64_t>(itemsize(rows.dtype));
  const std::int64_t most = reads_ == Reads::kOnce                             ? kOnePassThreads
                            : is_held                                          ? kMaxHeldThreads
                            : at >= kVectorForms || nbytes <= kMaxSharedNbytes ? kMaxRowThreads
                                                                               : kMaxThreads;
  const std::int64_t each = is_held ? kHeldVectors : 8;
  const std::int64_t width = std::clamp(power_of_two((vectors + each - 1) / each), fewest, most);
  const std::int64_t block = std::max(kBlock, width);
  return choice(is_held ? *held_[at] : *long_[at], threads_along(width), block, block / width);
}

}  // namespace tessera::ops::cuda
