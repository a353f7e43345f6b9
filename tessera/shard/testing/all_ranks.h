// One program on all ranks of a simulated world, seen from outside: each rank is given its parts of whole tensors, and
// what the ranks end with is put together again. What sharded results are held against.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/layout/layout.h"
#include "tessera/ops/testing/recombine.h"
#include "tessera/shard/scopes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::shard::testing {

using ops::testing::Whole;

/// Elements 1, 2, ... in an order that no cut keeps, below 100.
Whole counted(const Shape& shape, DType dtype = DType::kF32);

/// This rank's tensor of a whole, cut by definition (partial parts made up); no part off the mesh.
Tensor placed(const Whole& whole, const layout::Layout& layout);
/// Likewise a plain tensor.
Tensor plain(const Whole& whole);

/// Two by two ranks, dp and tp, and a layout on them.
const layout::Mesh& grid();
layout::Layout on_grid(std::string_view text);

/// The tensor, which gradients are asked for from here on.
Tensor leaf(Tensor tensor);
/// The values of a plain tensor, once all work has ended.
Whole read(const Tensor& tensor);
/// Collectives of this rank while `body` runs.
template <class F>
std::uint64_t collectives(const F& body) {
  const std::uint64_t before = shard_counts().collectives;
  body();
  return shard_counts().collectives - before;
}

/// What the ranks of a world hand in under numbers, put together when all are done. Thread-safe.
class Results {
 public:
  explicit Results(int world_size) : world_size_(world_size) {}
  /// This rank's part of a tensor with a layout, once computed; nothing off the mesh.
  void hand_in(std::size_t number, const Tensor& tensor);
  /// The whole behind a number, when all ranks are done; a failed expectation where parts make none.
  [[nodiscard]] Whole whole(std::size_t number) const;
  /// What is wrong with it, given what it is to be; empty: nothing.
  [[nodiscard]] std::string wrong_with(std::size_t number, const Whole& want, double tolerance) const;
  /// The layout it was handed in with.
  [[nodiscard]] const layout::Layout& layout(std::size_t number) const { return entries_[number].layout; }

 private:
  [[nodiscard]] std::optional<Whole> recombined(std::size_t number, std::string& wrong) const;
  struct Entry {
    Shape shape;
    DType dtype = DType::kF32;
    layout::Layout layout;
    std::vector<std::optional<Whole>> by_rank;
  };
  int world_size_;
  std::vector<Entry> entries_;
  mutable std::mutex mutex_;
};

/// Runs `body` on all ranks of a world, freely and under each of these seeds.
void on_worlds(int ranks, const std::vector<std::uint64_t>& seeds, const std::function<void()>& body);

}  // namespace tessera::shard::testing
