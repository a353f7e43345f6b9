#include "tessera/shard/testing/all_ranks.h"

#include <gtest/gtest.h>

#include "tessera/autograd/autograd.h"
#include "tessera/base/rank.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"

namespace tessera::shard::testing {

Whole counted(const Shape& shape, DType dtype) {
  Whole whole{shape, dtype, {}};
  const std::int64_t numel = shape.numel() * (is_complex(dtype) ? 2 : 1);
  const std::int64_t range = dtype == DType::kBool ? 2 : 97;
  for (std::int64_t i = 0; i < numel; ++i) {
    whole.values.push_back(static_cast<double>((i * 61 + i / 97) % range + (range == 2 ? 0 : 1)));
  }
  return whole;
}

Tensor plain(const Whole& whole) { return ops::testing::to_tensor(whole); }

Tensor placed(const Whole& whole, const layout::Layout& layout) {
  const std::int64_t place = layout.mesh().ranks().place_of(current_place().rank);
  if (place == -1) return Tensor::sharded(whole.shape, whole.dtype, layout, {});
  return Tensor::sharded(whole.shape, whole.dtype, layout,
                         ops::testing::sharding(whole, layout).by_rank[static_cast<std::size_t>(place)]);
}

const layout::Mesh& grid() {
  static const layout::Mesh mesh = layout::Mesh::parse("dp=2,tp=2");
  return mesh;
}
layout::Layout on_grid(std::string_view text) { return layout::Layout::parse(grid(), text); }

Tensor leaf(Tensor tensor) {
  autograd::set_requires_grad(tensor, true);
  return tensor;
}

Whole read(const Tensor& tensor) {
  ops::testing::wait_for_work();
  return ops::testing::read(tensor);
}

void Results::hand_in(std::size_t number, const Tensor& tensor) {
  device::Device::get("host").synchronize();
  const Tensor part = tensor.local();
  std::optional<Whole> mine;
  if (part) mine = ops::testing::read(part);
  const std::lock_guard lock(mutex_);
  if (entries_.size() <= number) entries_.resize(number + 1);
  GatheredResult& entry = entries_[number];
  entry.shape = tensor.shape();
  entry.dtype = tensor.dtype();
  entry.layout = tensor.layout();
  entry.by_rank.resize(static_cast<std::size_t>(world_size_));
  entry.by_rank[static_cast<std::size_t>(current_place().rank.value())] = std::move(mine);
}

std::optional<Whole> Results::recombined(std::size_t number, std::string& wrong) const {
  const std::lock_guard lock(mutex_);
  wrong = "no rank handed it in";
  if (number >= entries_.size() || !entries_[number].layout) return std::nullopt;
  const GatheredResult& entry = entries_[number];
  ops::testing::Parts parts{entry.shape, entry.dtype, entry.layout, {}};
  const layout::RankSet ranks = entry.layout.mesh().ranks();
  for (std::int64_t place = 0; place < ranks.size(); ++place) {
    const auto& part = entry.by_rank.at(static_cast<std::size_t>(ranks.at(place).value()));
    wrong = "rank " + to_string(ranks.at(place)) + " handed in nothing";
    if (!part) return std::nullopt;
    parts.by_rank.push_back(plain(*part));
  }
  ops::testing::wait_for_work();
  wrong.clear();
  return ops::testing::recombine(parts, wrong);
}

Whole Results::whole(std::size_t number) const {
  std::string wrong;
  const auto whole = recombined(number, wrong);
  EXPECT_TRUE(whole.has_value()) << "number " << number << ": " << wrong;
  return whole.value_or(Whole{Shape({0}), DType::kF64, {}});  // differs from any expected value
}

std::string Results::wrong_with(std::size_t number, const Whole& want, double tolerance) const {
  std::string wrong;
  const auto whole = recombined(number, wrong);
  return whole ? ops::testing::difference(*whole, want, tolerance, layout(number)) : wrong;
}

void on_worlds(int ranks, const std::vector<std::uint64_t>& seeds, const std::function<void()>& body) {
  const auto to_the_end = [&] {
    body();
    device::Device::get("host").synchronize();
  };
  simulate(ranks, to_the_end);
  for (const std::uint64_t seed : seeds) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    simulate(ranks, to_the_end, {.seed = seed});
  }
}

}  // namespace tessera::shard::testing
