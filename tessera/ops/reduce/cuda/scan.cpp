// cumsum and histc on CUDA: prepares the arguments of the kernels in scan_lines.cu.
#include <algorithm>
#include <bit>
#include <cstdlib>

#include "tessera/ops/cuda/kernels.h"
#include "tessera/ops/reduce/cuda/lines.h"
#include "tessera/ops/reduce/cuda/scan_call.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/tensor/call.h"

TESSERA_CUDA_IMAGE(scan_lines);

namespace tessera::ops::cuda {
namespace {

using tensor::KernelCall;

Image image(TESSERA_CUDA_BYTES(scan_lines));
// In the order of Compute.
const ImageKernel row_kernels[] = {{image, "scan_f32_rows"}, {image, "scan_f64_rows"}, {image, "scan_i64_rows"}};
const ImageKernel column_kernels[] = {
    {image, "scan_f32_columns"}, {image, "scan_f64_columns"}, {image, "scan_i64_columns"}};
const ImageKernel histogram_kernels[] = {{image, "histogram_f32"}, {image, "histogram_f64"}, {image, "histogram_i64"}};
const ImageKernel clear_kernel(image, "histogram_clear");

constexpr std::int64_t kManyBlocks = 1024;  // enough for every device, so that sums depend only on sizes
constexpr std::int64_t kMinChunk = 8192;    // minimum elements of a line per block of the kernel by rows
constexpr std::int64_t kMinColumn = 256;    // minimum elements of a line per block of the kernel by columns
constexpr std::int64_t kMaxColumns = 256;   // maximum chunks of the kernel by columns, which adds totals one by one
constexpr std::int64_t kLanesUpTo = 1024;   // maximum length of a line that lanes of one warp scan

struct Lines {
  ScanCall scan{};
  detail::StridedLoop<2> kept;  // result, input
};

// The lines along a dimension. A reverse scan starts at the last element.
Lines lines_of(const KernelCall& call, const CumsumAttributes& attributes) {
  const Tensor& x = call.inputs[0];
  const Tensor& out = call.outputs[0];
  const auto dim = static_cast<std::size_t>(tensor::normalized_dim(call, attributes.dim, x.ndim()));
  Lines lines;
  ScanCall& scan = lines.scan;
  scan.length = 1;
  for (std::size_t d = 0; d < x.shape().size(); ++d) {
    if (d == dim) {
      scan.length = x.shape()[d];
      scan.from_step = x.strides()[d];
      scan.to_step = out.strides()[d];
    } else {
      lines.kept.add(x.shape()[d], {out.strides()[d], x.strides()[d]});
    }
  }
  lines.kept.collapse();
  scan.lines = lines.kept.numel();
  scan.in = x.dtype();
  scan.out = out.dtype();
  const std::byte* from = x.data();
  std::byte* to = out.data();
  if (attributes.is_reverse && scan.length > 0) {
    from += (scan.length - 1) * scan.from_step * static_cast<std::int64_t>(itemsize(scan.in));
    to += (scan.length - 1) * scan.to_step * static_cast<std::int64_t>(itemsize(scan.out));
    scan.from_step = -scan.from_step;
    scan.to_step = -scan.to_step;
  }
  scan.from = from;
  scan.to = to;
  return lines;
}

// Returns true if each four elements of a line, from its first on, are a vector of both operands.
bool has_vectors(const Lines& lines, bool is_reverse, DType computed) {
  const ScanCall& scan = lines.scan;
  if (!is_read_in_place(scan.in, computed) || !is_read_in_place(scan.out, computed)) return false;
  if (std::abs(scan.from_step) != 1 || std::abs(scan.to_step) != 1 || scan.length % 4 != 0) return false;
  if (is_reverse != (scan.from_step < 0) || is_reverse != (scan.to_step < 0)) return false;
  for (std::size_t d = 0; d < lines.kept.ndim(); ++d) {
    if (lines.kept.stride(0, d) % 4 != 0 || lines.kept.stride(1, d) % 4 != 0) return false;
  }
  // Reverse lines begin at the last element of a vector.
  const std::int64_t back = is_reverse ? 3 : 0;
  const auto* from = static_cast<const std::byte*>(scan.from) - back * static_cast<std::int64_t>(itemsize(scan.in));
  const auto* to = static_cast<const std::byte*>(scan.to) - back * static_cast<std::int64_t>(itemsize(scan.out));
  return is_aligned(from, scan.in, 4) && is_aligned(to, scan.out, 4);
}

// Splits lines into chunks, multiples of `multiple` elements, if there are too few blocks to keep a device busy.
std::int64_t chunks_of(ScanCall& scan, std::int64_t blocks, std::int64_t least, std::int64_t most,
                       std::int64_t multiple) {
  scan.chunk = scan.length;
  if (blocks >= kManyBlocks / 2 || scan.length < 2 * least) return 1;
  const std::int64_t wanted = std::min({ceil_div(kManyBlocks, blocks), ceil_div(scan.length, least), most});
  scan.chunk = ceil_div(ceil_div(scan.length, wanted), multiple) * multiple;
  return ceil_div(scan.length, scan.chunk);
}

void launch_chunks(const KernelCall& call, const ImageKernel& kernel, ScanCall scan, std::int64_t blocks,
                   std::int64_t chunks) {
  const device::LaunchConfig config = {
      .grid = {static_cast<std::uint32_t>(blocks), static_cast<std::uint32_t>(chunks), 1}, .block = {kThreads, 1, 1}};
  if (chunks == 1) {
    launch(call, kernel, config, device::KernelArgs(scan));
    return;
  }
  constexpr std::int64_t kTotal = 8;  // bytes
  const auto nbytes = static_cast<std::size_t>(scan.lines * chunks * kTotal);
  const memory::Buffer totals = scratch(call, nbytes);
  scan.totals = totals.data();
  scan.finds_totals = true;
  const device::Access written[] = {device::writes(totals.data(), nbytes)};
  launch(call, kernel, config, device::KernelArgs(scan), written);
  scan.finds_totals = false;
  const device::Access read[] = {device::reads(totals.data(), nbytes)};
  launch(call, kernel, config, device::KernelArgs(scan), read);
}

void run_cumsum(const KernelCall& call) {
  const auto& attributes = call.as<CumsumAttributes>();
  Lines lines = lines_of(call, attributes);
  ScanCall& scan = lines.scan;
  if (scan.lines == 0 || scan.length == 0) return;
  const detail::Compute compute = detail::compute_of(scan.in);
  scan.kept = walk_over(lines.kept);
  if (lines.kept.inner() >= 32 && std::abs(lines.kept.step(1)) < std::abs(scan.from_step)) {
    const std::int64_t blocks = ceil_div(scan.lines, kThreads);
    const std::int64_t chunks = chunks_of(scan, blocks, kMinColumn, kMaxColumns, 1);
    return launch_chunks(call, column_kernels[static_cast<std::size_t>(compute)], scan, blocks, chunks);
  }
  scan.has_vectors = has_vectors(lines, attributes.is_reverse, detail::dtype_of(compute));
  const auto items = static_cast<std::uint64_t>(ceil_div(scan.length, kScanItems));
  scan.group = scan.length > kLanesUpTo ? static_cast<std::int32_t>(kThreads)
                                        : static_cast<std::int32_t>(std::min<std::uint64_t>(std::bit_ceil(items), 32));
  const std::int64_t blocks = ceil_div(scan.lines, kThreads / scan.group);
  const std::int64_t chunks = chunks_of(scan, blocks, kMinChunk, kManyBlocks, std::int64_t{scan.group} * kScanItems);
  launch_chunks(call, row_kernels[static_cast<std::size_t>(compute)], scan, blocks, chunks);
}

void run_histc(const KernelCall& call) {
  const auto& of = call.as<HistcAttributes>();
  const Tensor& x = call.inputs[0];
  detail::StridedLoop<1> loop;
  for (std::size_t d = 0; d < x.shape().size(); ++d) loop.add(x.shape()[d], {x.strides()[d]});
  loop.collapse();
  const HistogramCall histogram = {x.data(),
                                   call.outputs[0].data_as<std::int64_t>(),
                                   call.outputs[0].strides()[0],
                                   of.bins,
                                   of.low,
                                   of.high,
                                   static_cast<double>(of.bins) / (of.high - of.low),
                                   x.dtype(),
                                   walk_over(loop)};
  launch(call, clear_kernel, blocks_for(call, of.bins, kThreads), kThreads, histogram);
  if (x.numel() == 0) return;
  const auto compute = static_cast<std::size_t>(detail::compute_of(x.dtype()));
  constexpr std::int64_t kElementsEach = 16;  // per thread, so that few blocks add up counts
  launch(call, histogram_kernels[compute], blocks_for(call, x.numel(), kThreads * kElementsEach), kThreads, histogram);
}

const tensor::KernelRegistration kCumsum("cumsum", "cuda", run_cumsum);
const tensor::KernelRegistration kHistc("histc", "cuda", run_histc);

}  // namespace
}  // namespace tessera::ops::cuda
