// Fills a tensor from the global indices of its elements.
#pragma once

#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/layout/factor_rule.h"
#include "tessera/ops/detail/elements.h"
#include "tessera/ops/detail/loops.h"
#include "tessera/ops/detail/tiles.h"
#include "tessera/ops/parallel.h"
#include "tessera/tensor/op_def.h"

namespace tessera::ops::detail {

/// The elements of a tensor in the order of their local indices, last dimension fastest, and their global indices.
/// Both are equal for a plain tensor; index maps define them for a shard.
class TESSERA_API Places {
 public:
  /// Describes a tensor of `shape`; with maps, a shard of a tensor of shape `global`.
  Places(const Shape& shape, const Shape& global, const std::vector<layout::IndexMap>& index);

  /// Calls body(place, global, n) for runs of [begin, end) with consecutive global indices. `place` is the index in the
  /// tensor, `global` the index in the global tensor.
  template <class F>
  void for_runs(std::int64_t begin, std::int64_t end, F&& body) const {
    while (begin < end) {
      const std::int64_t n = std::min(end - begin, run_of(begin));
      body(begin, global_of(begin), n);
      begin += n;
    }
  }

 private:
  // Returns the number of elements from `place` on with consecutive global indices, at least 1.
  [[nodiscard]] std::int64_t run_of(std::int64_t place) const;
  [[nodiscard]] std::int64_t global_of(std::int64_t place) const;

  Shape shape_;
  Shape global_;
  std::vector<layout::IndexMap> index_;
};

/// Returns the rule of an operator without tensor inputs: every dimension may be sharded. `inputs` have no dimensions.
TESSERA_API layout::FactorRule rule_from_nothing(const tensor::Call& call, const Shape& shape);

/// The bytes of one element.
struct Item {
  alignas(16) std::byte bytes[16] = {};  ///< only the first itemsize() are used
};
/// Converts a number to an element of `dtype`.
TESSERA_API Item item_of(const Scalar& value, DType dtype);

/// Enqueues a fill of the result of the call. `draw(T* tile, std::uint64_t global, std::int64_t n)` writes the values
/// of `n` elements with consecutive global indices as T; they are converted to the dtype of the result.
/// `draw.prepare()`, if it exists, runs before them on the stream.
template <class T, class Draw>
void launch_fill(const tensor::KernelCall& call, Places places, Draw draw) {
  const Tensor& out = call.outputs[0];
  if (out.numel() == 0) return;
  const ByteRange written = byte_range(out);
  device::Access accesses[2] = {device::writes(written.address, written.nbytes)};
  std::size_t count = 1;
  if (!call.inputs.empty() && call.inputs[0]) accesses[count++] = device::reads(call.inputs[0].data(), 8);
  // A contiguous tensor is stored run by run, others in the order of their indices.
  struct Target {
    std::byte* data;
    DType dtype;
    Shape shape;
    Strides strides;
    bool is_dense;
    [[nodiscard]] std::byte* at(std::int64_t place) const {
      std::int64_t offset = place;
      if (!is_dense) {
        offset = 0;
        for (std::size_t d = shape.size(); d-- > 0; place /= shape[d]) offset += place % shape[d] * strides[d];
      }
      return data + offset * static_cast<std::int64_t>(itemsize(dtype));
    }
  };
  auto body = [places = std::move(places), draw = std::move(draw),
               target = Target{out.data(), out.dtype(), out.shape(), out.strides(), out.is_contiguous()},
               numel = out.numel()] {
    auto prepared = draw;
    if constexpr (requires { prepared.prepare(); }) prepared.prepare();
    parallel_for(numel, kPiece, [&](std::int64_t begin, std::int64_t end) {
      alignas(64) std::byte memory[kTile * sizeof(T)];
      T* tile = reinterpret_cast<T*>(memory);
      places.for_runs(begin, end, [&](std::int64_t place, std::int64_t global, std::int64_t n) {
        for (std::int64_t i = 0; i < n; i += kTile) {
          const std::int64_t m = std::min(kTile, n - i);
          prepared(tile, static_cast<std::uint64_t>(global + i), m);
          if (target.is_dense) {
            store(tile, target.at(place + i), target.dtype, 1, m);
          } else {
            for (std::int64_t k = 0; k < m; ++k) store(tile + k, target.at(place + i + k), target.dtype, 1, 1);
          }
        }
      });
    });
  };
  call.stream().run(std::move(body), {.label = call.op.name(), .accesses = std::span(accesses, count)});
}

}  // namespace tessera::ops::detail
