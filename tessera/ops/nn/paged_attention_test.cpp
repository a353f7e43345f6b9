// Writing rows into pages: every dtype, strided operands, and places that do not exist.
#include "tessera/ops/nn/paged_attention.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/device/device.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/generator.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/ops/testing/recombine.h"

namespace tessera::ops {
namespace {

Tensor list(std::vector<std::int64_t> values, const Shape& shape) {
  auto owner = std::make_shared<std::vector<std::int64_t>>(std::move(values));
  return Tensor::wrap(owner->data(), shape, DType::kI64, device::Device::get("host"), owner);
}

std::vector<double> values_of(const Tensor& x) {
  const Tensor plain = contiguous(cast(x, DType::kF64));
  device::Device::get("host").synchronize();
  return {plain.data_as<double>(), plain.data_as<double>() + plain.numel()};
}

TEST(WritePages, PutsRowsAtTheirPositions) {
  manual_seed(3);
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    // Rows as attention has them, a transposed view; and pages with gaps.
    const Tensor rows = transpose(cast(randn({2, 5, 3, 4}), dtype), 1, 2);
    const Tensor pages = narrow(cast(randn({6, 3, 4, 7}), dtype), 3, 1, 4);
    const std::vector<double> before = values_of(pages);
    const std::vector<double> from = values_of(rows);
    const std::vector<std::int64_t> tables = {1, 4, 0, 5, 2, 3};
    const std::vector<std::int64_t> starts = {2, 6};
    write_pages_(pages, rows, list(tables, {2, 3}), list(starts, {2}));
    std::vector<double> want = before;
    for (std::size_t b = 0; b < 2; ++b) {
      for (std::size_t h = 0; h < 3; ++h) {
        for (std::size_t i = 0; i < 5; ++i) {
          const std::size_t position = static_cast<std::size_t>(starts[b]) + i;
          const auto page = static_cast<std::size_t>(tables[b * 3 + position / 4]);
          for (std::size_t c = 0; c < 4; ++c)
            want[((page * 3 + h) * 4 + position % 4) * 4 + c] = from[((b * 3 + h) * 5 + i) * 4 + c];
        }
      }
    }
    EXPECT_EQ(values_of(pages), want) << to_string(dtype);
  }
}

TEST(WritePages, RejectsPlacesThatDoNotExist) {
  const Tensor pages = zeros({2, 1, 4, 3});
  const Tensor rows = zeros({1, 1, 2, 3});
  const auto message = [&](const std::function<void()>& call) -> std::string {
    try {
      call();
      testing::wait_for_work();
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  };
  const auto write = [&](std::int64_t page, std::int64_t start) {
    return message([&] { write_pages_(pages, rows, list({page}, {1, 1}), list({start}, {1})); });
  };
  EXPECT_EQ(write(1, 2), "");
  EXPECT_NE(write(2, 0).find("pages must be in [0, 2), got 2 in sequence 0"), std::string::npos) << write(2, 0);
  EXPECT_NE(write(-1, 0).find("pages must be in [0, 2), got -1"), std::string::npos);
  EXPECT_NE(write(0, 3).find("tables must have 2 columns for 5 tokens of sequence 0, got 1"), std::string::npos);
  EXPECT_NE(write(0, -1).find("starts must be at least 0, got -1"), std::string::npos);
  EXPECT_NE(message([&] {
              write_pages_(pages, zeros({1, 2, 2, 3}), list({0}, {1, 1}), list({0}, {1}));
            }).find("heads of rows and pages must be equal, got 2 and 1"),
            std::string::npos);
  EXPECT_NE(message([&] {
              write_pages_(pages, rows, list({0, 1}, {2, 1}), list({0}, {1}));
            }).find("tables must have shape [1, columns]"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera::ops
