// Cases of rope: rotates every pair by the definition.
#include <cmath>
#include <numbers>

#include "tessera/ops/nn/rope.h"
#include "tessera/ops/testing/op_case.h"

namespace tessera::ops::testing {
namespace {

double angle(const RopeAttributes& how, double position, std::int64_t pair, std::int64_t width) {
  const double frequency = 1 / std::pow(how.base, 2.0 * static_cast<double>(pair) / static_cast<double>(width));
  if (how.original_context == 0) return position * frequency / how.factor;
  const double wavelength = 2 * std::numbers::pi / frequency;
  const auto context = static_cast<double>(how.original_context);
  if (wavelength < context / how.high_turns) return position * frequency;
  if (wavelength > context / how.low_turns) return position * frequency / how.factor;
  const double smooth = (context / wavelength - how.low_turns) / (how.high_turns - how.low_turns);
  return position * ((1 - smooth) * frequency / how.factor + smooth * frequency);
}

std::vector<Array> reference(std::span<const Array> in, const tensor::AttributesRef& attributes) {
  const auto& how = attributes.as<RopeAttributes>();
  const Array& x = in[0];
  const auto ndim = static_cast<std::int64_t>(x.shape.size());
  const auto dim = static_cast<std::size_t>(how.dim < 0 ? how.dim + ndim : how.dim);
  const std::int64_t n = x.shape.dim(-1);
  const std::int64_t width = how.width == 0 ? n : how.width;
  Array out = x;
  for (std::int64_t row = 0; n > 0 && row < x.shape.numel() / n; ++row) {
    const auto index = digits(x.shape, row * n);
    double position = static_cast<double>(how.offset + index[dim]);
    if (in[1].shape.size() == 1) position = in[1].values[static_cast<std::size_t>(index[dim])];
    if (in[1].shape.size() == 2) {
      position = in[1].values[static_cast<std::size_t>(index[0] * x.shape[dim] + index[dim])];
    }
    for (std::int64_t i = 0; i < width / 2; ++i) {
      const auto a = static_cast<std::size_t>(row * n + (how.is_interleaved ? 2 * i : i));
      const auto b = static_cast<std::size_t>(row * n + (how.is_interleaved ? 2 * i + 1 : i + width / 2));
      const double by = angle(how, position, i, width) * (how.is_inverse ? -1 : 1);
      out.values[a] = x.values[a] * std::cos(by) - x.values[b] * std::sin(by);
      out.values[b] = x.values[b] * std::cos(by) + x.values[a] * std::sin(by);
    }
  }
  return {out};
}

std::vector<OpSample> samples(Random& random) {
  std::vector<OpSample> all;
  const auto add = [&](const Shape& shape, const RopeAttributes& how, SampleInput positions) {
    all.push_back({.inputs = {normal(random, shape), std::move(positions)}, .attributes = tensor::Attributes(how)});
  };
  add({2, 3, 5, 8}, {}, absent());
  add({2, 5, 3, 6}, {.dim = 1, .is_interleaved = true, .offset = 3}, absent());
  add({5, 7}, {.width = 4, .base = 100}, absent());
  add({2, 3, 5, 4}, {.base = 500, .is_inverse = true, .factor = 4}, integers(random, {5}, 0, 100));
  add({2, 3, 5, 8}, {.base = 50, .factor = 8, .original_context = 64}, integers(random, {2, 5}, 0, 100));
  add({2, 3, 0, 8}, {}, absent());
  return all;
}

const OpCase kRope{{.op = "rope", .samples = samples, .reference = reference}};

}  // namespace
}  // namespace tessera::ops::testing
