#include "tessera/train/detail/batch.h"

#include <algorithm>
#include <memory>

#include "tessera/base/error.h"
#include "tessera/nn/language_model.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/shard/distribute.h"
#include "tessera/tensor/device_context.h"

namespace tessera::train::detail {

Tensor laid_out(const Tensor& own, const ParallelPlan& plan, bool is_batch_sharded) {
  if (!plan.mesh()) return own;
  const std::int64_t rows = own.size(0);
  const std::int64_t all = is_batch_sharded ? rows * plan.dp() * plan.fsdp() : rows;
  return shard::from_local(own, plan.tokens(is_batch_sharded), {.shape = Shape{all, own.size(1)}});
}

Tensor laid_out(std::vector<std::int32_t> values, std::int64_t rows, const ParallelPlan& plan, bool is_batch_sharded) {
  auto owner = std::make_shared<std::vector<std::int32_t>>(std::move(values));
  const std::int64_t sequence = static_cast<std::int64_t>(owner->size()) / rows;
  const Tensor read = Tensor::wrap(owner->data(), Shape{rows, sequence}, DType::kI32, tensor::host_device(), owner);
  return laid_out(ops::to(read, tensor::default_device()), plan, is_batch_sharded);
}

void split_rows(std::span<const std::int32_t> rows, const ParallelPlan& plan, std::int64_t real,
                std::span<std::int32_t> tokens, std::span<std::int32_t> targets) {
  const auto count = static_cast<std::size_t>(plan.own_rows());
  const std::size_t width = rows.size() / count;
  TESSERA_CHECK(width > 1 && rows.size() == count * width && tokens.size() == count * (width - 1) &&
                    targets.size() == tokens.size(),
                "batch: must have ", count, " rows of ", tokens.size() / count + 1, " tokens, got ", rows.size(),
                " tokens");
  for (std::size_t i = 0; i < count; ++i) {
    const auto row = rows.subspan(i * width, width);
    const std::size_t at = i * (width - 1);
    std::ranges::copy(row.first(width - 1), tokens.begin() + static_cast<std::ptrdiff_t>(at));
    if (static_cast<std::int64_t>(i) < real) {
      std::ranges::copy(row.last(width - 1), targets.begin() + static_cast<std::ptrdiff_t>(at));
    } else {
      std::ranges::fill(targets.subspan(at, width - 1), nn::kIgnoredTarget);
    }
  }
}

Batch batch_of(std::span<const std::int32_t> rows, const ParallelPlan& plan, std::int64_t real) {
  const std::int64_t count = plan.own_rows();
  std::vector<std::int32_t> tokens(rows.size() - static_cast<std::size_t>(count));
  std::vector<std::int32_t> targets(tokens.size());
  split_rows(rows, plan, real, tokens, targets);
  return {laid_out(std::move(tokens), count, plan), laid_out(std::move(targets), count, plan)};
}

}  // namespace tessera::train::detail
