// Runs one program on all ranks of a simulated world. Each rank receives its shards of global tensors, and the results
// are reassembled for comparison.
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

/// Returns elements 1, 2, ..., less than 100, in an order that no cut preserves.
Whole counted(const Shape& shape, DType dtype = DType::kF32);

/// Returns the shard of this rank by definition, with invented partial values; empty outside the mesh.
Tensor placed(const Whole& whole, const layout::Layout& layout);
/// Returns a plain tensor with these values.
Tensor plain(const Whole& whole);

/// Returns a mesh of dp=2 and tp=2; on_grid() returns a layout on it.
const layout::Mesh& grid();
layout::Layout on_grid(std::string_view text);

/// Enables gradients for the tensor and returns it.
Tensor leaf(Tensor tensor);
/// Returns the values of a plain tensor after all work has finished.
Whole read(const Tensor& tensor);
/// Returns the collectives of this rank while `body` runs.
template <class F>
std::uint64_t collectives(const F& body) {
  const std::uint64_t before = shard_counts().collectives;
  body();
  return shard_counts().collectives - before;
}

/// Collects numbered results of all ranks and reassembles them. Thread-safe.
class Results {
 public:
  explicit Results(int world_size) : world_size_(world_size) {}
  /// Adds the shard of this rank after it is computed; nothing outside the mesh.
  void hand_in(std::size_t number, const Tensor& tensor);
  /// Returns the global value of a number, after all ranks are done. Fails an expectation if the shards do not match.
  [[nodiscard]] Whole whole(std::size_t number) const;
  /// Returns the difference from the expected value; empty if it matches.
  [[nodiscard]] std::string wrong_with(std::size_t number, const Whole& want, double tolerance) const;
  /// Returns the layout that it was added with.
  [[nodiscard]] const layout::Layout& layout(std::size_t number) const { return entries_[number].layout; }

 private:
  [[nodiscard]] std::optional<Whole> recombined(std::size_t number, std::string& wrong) const;
  struct GatheredResult {
    Shape shape;
    DType dtype = DType::kF32;
    layout::Layout layout;
    std::vector<std::optional<Whole>> by_rank;
  };
  int world_size_;
  std::vector<GatheredResult> entries_;
  mutable std::mutex mutex_;
};

/// Runs `body` on all ranks of a world, concurrently and in turns under each of these seeds.
void on_worlds(int ranks, const std::vector<std::uint64_t>& seeds, const std::function<void()>& body);

}  // namespace tessera::shard::testing
