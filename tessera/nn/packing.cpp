#include "tessera/nn/packing.h"

#include <memory>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/nn/detail/module_state.h"
#include "tessera/tensor/device_context.h"

namespace tessera::nn {
namespace {

Tensor wrapped(std::vector<std::int32_t> values, const Shape& shape) {
  const auto owner = std::make_shared<std::vector<std::int32_t>>(std::move(values));
  return Tensor::wrap(owner->data(), shape, DType::kI32, tensor::host_device(), owner);
}

}  // namespace

Packing packing_of(std::span<const std::int32_t> tokens, std::int64_t rows, std::int64_t end_of_text) {
  const std::int64_t count = std::ssize(tokens);
  TESSERA_CHECK(rows > 0 && count % rows == 0, "packing_of: tokens must have ", rows, " rows of equal lengths, got ",
                count, " tokens");
  const std::int64_t sequence = count / rows;
  std::vector<std::int32_t> offsets;
  std::vector<std::int32_t> positions;
  for (std::int64_t i = 0; i < count; ++i) {
    if (i % sequence == 0 || tokens[static_cast<std::size_t>(i - 1)] == end_of_text)
      offsets.push_back(static_cast<std::int32_t>(i));
    positions.push_back(static_cast<std::int32_t>(i) - offsets.back());
  }
  offsets.push_back(static_cast<std::int32_t>(count));
  const std::int64_t documents = std::ssize(offsets);
  return {wrapped(std::move(offsets), {documents}), wrapped(std::move(positions), {rows, sequence})};
}

void set_packing(const Module& model, Packing packing) { model.state()->context->packing = std::move(packing); }

const Packing& packing(const Module& model) { return model.state()->context->packing; }

}  // namespace tessera::nn
