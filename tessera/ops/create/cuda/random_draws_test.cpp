// Tests the steps of the random kernels on the host: they must produce the bits of the vectorized host code. The device
// compiles the same functions with individually rounded operations.
#include "tessera/ops/create/cuda/random_draws.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tessera/ops/create/random.h"
#include "tessera/ops/detail/draws.h"
#include "tessera/ops/testing/op_case.h"

namespace tessera::ops::cuda {
namespace {

template <DrawKind kKind>
std::vector<float> drawn(const RandomDraw& of, std::uint64_t first, std::int64_t n) {
  std::vector<float> values;
  for (std::uint64_t i = first; i < first + static_cast<std::uint64_t>(n); ++i) {
    float block[4];
    draw_block<kKind>(of, i / 4, block);
    values.push_back(block[i % 4]);
  }
  return values;
}

void expect_same_bits(const std::vector<float>& got, const std::vector<float>& want, std::uint64_t first) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(want[i]))
        << "element " << first + i << ": " << got[i] << ", not " << want[i];
  }
}

TEST(RandomDraws, BlocksHoldWhatTheHostDraws) {
  constexpr std::int64_t kCount = 100'000;
  for (const std::uint64_t seed : {0ULL, 1ULL, 0xdeadbeefcafef00dULL}) {
    for (const std::uint64_t call : {0ULL, 7ULL, 1ULL << 40}) {
      for (const std::uint64_t first : {0ULL, 3ULL, (1ULL << 34) - 5}) {
        RandomDraw draw;
        draw.seed = seed;
        draw.call = call;
        std::vector<float> want(kCount);
        detail::draw_normal(want.data(), {seed, call}, first, kCount);
        expect_same_bits(drawn<DrawKind::kNormal>(draw, first, kCount), want, first);
        detail::draw_uniform(want.data(), {seed, call}, first, kCount);
        expect_same_bits(drawn<DrawKind::kUniform>(draw, first, kCount), want, first);
      }
    }
  }
}

std::vector<float> host_draws(const char* op, const RandomAttributes& attributes) {
  const Tensor x = tensor::call_on(device::Device::get("host"), tensor::find_op(op), attributes);
  x.device().synchronize();
  return {x.data_as<float>(), x.data_as<float>() + x.numel()};
}

TEST(RandomDraws, RangesAndProbabilitiesAreTheHosts) {
  RandomAttributes attributes;
  attributes.shape = Shape({20'001});
  attributes.seed = 11;
  attributes.call = 3;
  RandomDraw draw;
  draw.seed = 11;
  draw.call = 3;
  attributes.a = -0.3;
  attributes.b = 1.7;
  draw.a = -0.3F;
  draw.b = static_cast<float>(1.7);
  expect_same_bits(drawn<DrawKind::kNormal>(draw, 0, 20'001), host_draws("randn", attributes), 0);
  attributes.low = -0.5;
  attributes.high = 0.5;  // most are drawn again
  draw.low = -0.5F;
  draw.high = 0.5F;
  expect_same_bits(drawn<DrawKind::kTruncated>(draw, 0, 20'001), host_draws("trunc_normal", attributes), 0);
  draw.b = static_cast<float>(1.7 - -0.3);
  draw.high = std::nextafter(1.7F, -0.3F);
  expect_same_bits(drawn<DrawKind::kUniform>(draw, 0, 20'001), host_draws("rand", attributes), 0);
  attributes.a = 0.3;
  draw.a = 0.3F;
  expect_same_bits(drawn<DrawKind::kBernoulli>(draw, 0, 20'001), host_draws("bernoulli", attributes), 0);
}

TEST(RandomDraws, PlacesOfAPartAreThoseOfItsMaps) {
  const layout::IndexMap rows{.offset = 2, .block = 3, .levels = {}};
  const layout::IndexMap columns{
      .offset = 2, .block = 2, .levels = {{.count = 2, .stride = 8}, {.count = 2, .stride = 4}}};
  DrawPlaces places;
  places.ndim = 2;
  places.is_part = true;
  const layout::IndexMap* maps[] = {&rows, &columns};
  for (int d = 0; d < 2; ++d) {
    places.sizes[d] = maps[d]->size();
    places.global_sizes[d] = 20;
    places.maps[d] = device_map(*maps[d], "rand");
  }
  EXPECT_EQ(places.maps[1].local(4), -1) << "between two blocks";
  EXPECT_EQ(places.maps[1].local(1), -1) << "before the first block";
  places.steps[0] = 1;
  places.steps[1] = 5;
  for (std::int64_t r = 0; r < rows.size(); ++r) {
    for (std::int64_t c = 0; c < columns.size(); ++c) {
      std::int64_t offset = 0;
      std::int64_t global = 0;
      places.find(r * columns.size() + c, offset, global);
      EXPECT_EQ(offset, r + 5 * c);
      EXPECT_EQ(global, rows.global(r) * 20 + columns.global(c));
      EXPECT_EQ(places.maps[1].local(columns.global(c)), c);
    }
  }
}

}  // namespace
}  // namespace tessera::ops::cuda
