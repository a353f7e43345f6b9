// write_pages on CUDA.
#include "tessera/ops/nn/cuda/page_rows.h"

#include <bit>

#include "tessera/ops/index/cuda/rejecting_op.h"
#include "tessera/ops/shape/detail/strided_loop.h"

TESSERA_CUDA_IMAGE(page_rows);

namespace tessera::ops::cuda {
namespace {

Image image(TESSERA_CUDA_BYTES(page_rows));
const ImageKernel kernels[] = {{image, "write_page_rows_1"},
                               {image, "write_page_rows_2"},
                               {image, "write_page_rows_4"},
                               {image, "write_page_rows_8"},
                               {image, "write_page_rows_16"}};
const RejectingOp write_op("write_pages");

void run(const tensor::KernelCall& call) {
  const Tensor& rows = call.inputs[0];
  const Tensor& tables = call.inputs[1];
  const Tensor& starts = call.inputs[2];
  const Tensor& pages = call.outputs[0];
  if (rows.numel() == 0) return;
  PageRowsWrite of;
  of.pages = pages.data();
  of.rows = rows.data();
  of.tables = tables.data_as<std::int64_t>();
  of.starts = starts.data_as<std::int64_t>();
  of.table_steps[0] = tables.strides()[0];
  of.table_steps[1] = tables.strides()[1];
  of.start_step = starts.strides()[0];
  of.columns = tables.size(1);
  of.page_count = pages.size(0);
  of.page_tokens = pages.size(2);
  of.tokens = rows.size(2);
  of.page_step = pages.strides()[0];
  of.token_step = pages.strides()[2];
  of.rejection = write_op.of(call);
  detail::StridedLoop<4> loop;
  loop.add(rows.size(0), {rows.strides()[0], 0, 1, 0});
  loop.add(rows.size(1), {rows.strides()[1], pages.strides()[1], 0, 0});
  loop.add(rows.size(2), {rows.strides()[2], 0, 0, 1});
  loop.add(rows.size(3), {rows.strides()[3], pages.strides()[3], 0, 0});
  loop.collapse();
  of.walk = walk_of(loop);
  const auto item = static_cast<std::int64_t>(itemsize(rows.dtype()));
  std::int64_t together = items_together(of.walk, item, {of.rows, of.pages});
  while (of.page_step % together != 0 || of.token_step % together != 0) together /= 2;
  of.walk = in_groups(of.walk, together, 2);
  of.page_step /= together;
  of.token_step /= together;
  launch(call, kernels[std::countr_zero(static_cast<std::uint64_t>(item * together))],
         blocks_for(call, of.walk.numel, kThreads), kThreads, of);
}

const tensor::KernelRegistration kWritePages("write_pages", "cuda", run);

}  // namespace
}  // namespace tessera::ops::cuda
