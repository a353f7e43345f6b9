// cat, flip, roll, pad and unslice on CUDA: the copies of the host, and fills around them, in few launches.
#include "tessera/ops/shape/arrange.h"

#include <vector>

#include "tessera/ops/cuda/move_items.h"
#include "tessera/ops/shape/detail/arrangements.h"

namespace tessera::ops::cuda {
namespace {

using detail::ElementsCopy;
using tensor::KernelCall;

ItemMove move_of(const ElementsCopy& copy) { return {walk_of(copy.loop), copy.to, copy.from}; }

std::int64_t item_of(const KernelCall& call) { return static_cast<std::int64_t>(itemsize(call.outputs[0].dtype())); }

template <std::vector<ElementsCopy> (*kCopies)(const KernelCall&)>
void run_copies(const KernelCall& call) {
  std::vector<ItemMove> moves;
  for (const ElementsCopy& copy : kCopies(call)) moves.push_back(move_of(copy));
  move_items(call, moves, item_of(call));
}

// Adds fills of everything outside the rectangle of `inner` sizes that begins at `before`. Each dimension adds the
// slabs on both sides of the rectangle, restricted to the rectangle along earlier dimensions.
void add_borders(const Tensor& out, std::span<const std::int64_t> before, const Shape& inner,
                 std::vector<ItemMove>& moves) {
  const auto item = static_cast<std::int64_t>(itemsize(out.dtype()));
  for (std::size_t border = 0; border < inner.size(); ++border) {
    for (const bool is_after : {false, true}) {
      detail::StridedLoop<1> loop;
      std::int64_t offset = 0;
      for (std::size_t d = 0; d < inner.size(); ++d) {
        const std::int64_t end = before[d] + inner[d];
        std::int64_t first = 0;
        std::int64_t size = out.shape()[d];
        if (d < border) {
          first = before[d];
          size = inner[d];
        } else if (d == border) {
          first = is_after ? end : 0;
          size = is_after ? out.shape()[d] - end : before[d];
        }
        loop.add(size, {out.strides()[d]});
        offset += first * out.strides()[d];
      }
      if (loop.numel() == 0) continue;
      loop.collapse();
      moves.push_back({walk_of(loop), out.data() + offset * item, nullptr});
    }
  }
}

void run_padded(const KernelCall& call, std::span<const std::int64_t> before, const ElementsCopy& copy,
                const Scalar& value) {
  const Tensor& x = call.inputs[0];
  std::vector<ItemMove> moves;
  add_borders(call.outputs[0], before, x.shape(), moves);
  if (x.numel() > 0) moves.push_back(move_of(copy));
  const auto element = detail::element_of(value, x.dtype());
  move_items(call, moves, item_of(call), std::span(element).first(itemsize(x.dtype())));
}

void run_pad(const KernelCall& call) {
  const auto& a = call.as<PadAttributes>();
  run_padded(call, {a.before.data(), a.before.size()}, detail::pad_copy(call), a.value);
}

void run_unslice(const KernelCall& call) {
  const auto& a = call.as<UnsliceAttributes>();
  const Tensor& x = call.inputs[0];
  const Tensor& out = call.outputs[0];
  const auto dim = static_cast<std::size_t>(tensor::normalized_dim(call, a.dim, x.ndim()));
  if (a.step == 1 || x.shape()[dim] <= 1) {
    std::vector<std::int64_t> before(x.shape().size());
    // An empty slice may start past the end.
    before[dim] = x.shape()[dim] == 0 ? 0 : a.start;
    return run_padded(call, before, detail::unslice_copy(call), 0);
  }
  constexpr std::byte kZero[16] = {};
  fill_items(call, out, std::span(kZero).first(itemsize(out.dtype())));
  if (x.numel() == 0) return;
  const ItemMove move = move_of(detail::unslice_copy(call));
  move_items(call, std::span(&move, 1), item_of(call));
}

const tensor::KernelRegistration kCat("cat", "cuda", run_copies<detail::cat_copies>);
const tensor::KernelRegistration kFlip("flip", "cuda", run_copies<detail::flip_copies>);
const tensor::KernelRegistration kRoll("roll", "cuda", run_copies<detail::roll_copies>);
const tensor::KernelRegistration kPad("pad", "cuda", run_pad);
const tensor::KernelRegistration kUnslice("unslice", "cuda", run_unslice);

}  // namespace
}  // namespace tessera::ops::cuda
