#include "tessera/train/detail/batch.h"

#include <algorithm>
#include <memory>

#include "tessera/base/error.h"
#include "tessera/nn/language_model.h"
#include "tessera/shard/distribute.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/detail/host_copies.h"

namespace tessera::train::detail {

Tensor laid_out(const Tensor& own, const ParallelPlan& plan) {
  Tensor here = uploaded(own);
  if (!plan.mesh()) return here;
  std::vector<std::int64_t> dims(own.shape().begin(), own.shape().end());
  dims.front() *= plan.batch_ranks();
  return shard::from_local(here, plan.batch_layout(own.shape().ndim()), {.shape = Shape(dims)});
}

Tensor laid_out(std::vector<std::int32_t> values, std::int64_t rows, const ParallelPlan& plan) {
  auto owner = std::make_shared<std::vector<std::int32_t>>(std::move(values));
  const std::int64_t sequence = static_cast<std::int64_t>(owner->size()) / rows;
  return laid_out(Tensor::wrap(owner->data(), Shape{rows, sequence}, DType::kI32, tensor::host_device(), owner), plan);
}

Batch batch_of(std::span<const std::int32_t> rows, const ParallelPlan& plan, std::int64_t real) {
  const auto count = static_cast<std::size_t>(plan.own_rows());
  const std::size_t width = rows.size() / count;
  TESSERA_CHECK(width > 1 && rows.size() == count * width, "batch: must have ", count,
                " rows of equal lengths, of 2 or more tokens, got ", rows.size(), " tokens");
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
  for (std::size_t i = 0; i < count; ++i) {
    const auto row = rows.subspan(i * width, width);
    tokens.insert(tokens.end(), row.begin(), row.end() - 1);
    targets.insert(targets.end(), row.begin() + 1, row.end());
    if (static_cast<std::int64_t>(i) >= real) std::ranges::fill(std::span(targets).last(width - 1), nn::kIgnoredTarget);
  }
  return {laid_out(std::move(tokens), plan.own_rows(), plan), laid_out(std::move(targets), plan.own_rows(), plan)};
}

}  // namespace tessera::train::detail
