// How gradients of tensors with layouts are laid out. A gradient is cut as its tensor is; along axes that do not cut
// the tensor it is whole or pending, a partial sum that nobody has settled. All that is done here needs no
// communication:
//
//   gradient, tensor         becomes
//   whole,    cut            cut: each rank keeps its part
//   cut,      not cut        pending: each rank's part is its summand of the whole
//   pending + whole          pending: the whole one counts on the first rank alone
//
// What would need some is refused, or done where an AutoRedistribute scope is in force.
#include <algorithm>

#include "tessera/autograd/hooks.h"
#include "tessera/base/error.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/shard/detail/compiled_move.h"
#include "tessera/shard/detail/counts.h"
#include "tessera/shard/detail/entry.h"
#include "tessera/shard/detail/tracing.h"
#include "tessera/shard/distribute.h"
#include "tessera/shard/redistribute.h"
#include "tessera/shard/scopes.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using layout::LayoutParts;
using layout::SubAxis;

bool overlap(const SubAxis& a, const SubAxis& b) {
  return a.axis == b.axis && a.before < b.before * b.size && b.before < a.before * a.size;
}

bool is_cut_by(const LayoutParts& parts, const SubAxis& by) {
  for (const layout::DimCuts& dim : parts.dims) {
    if (std::ranges::any_of(dim.cuts, [&](const layout::Cut& cut) { return overlap(cut.by, by); })) return true;
  }
  return false;
}

bool is_partial_along(const LayoutParts& parts, const SubAxis& by) {
  return std::ranges::any_of(parts.partials, [&](const layout::PartialAxis& each) { return overlap(each.by, by); });
}

bool is_cut_alike(const Layout& a, const Layout& b) {
  if (!(a.mesh() == b.mesh()) || a.ndim() != b.ndim()) return false;
  for (int d = 0; d < a.ndim(); ++d) {
    if (!std::ranges::equal(a.cuts(d), b.cuts(d)) || !std::ranges::equal(a.sizes(d), b.sizes(d))) return false;
  }
  return true;
}

// The layout of a gradient `now` of a tensor `of`.
Layout dual_of(const Layout& now, const Layout& of) {
  LayoutParts parts = of.parts();
  parts.partials.clear();
  for (const layout::PartialAxis& pending : now.partials()) {
    if (!is_cut_by(parts, pending.by)) parts.partials.push_back(pending);
  }
  for (int d = 0; d < now.ndim(); ++d) {
    for (const layout::Cut& cut : now.cuts(d)) {
      if (!is_cut_by(parts, cut.by)) parts.partials.push_back({cut.by, layout::Reduction::kSum});
    }
  }
  return Layout::create(of.mesh(), std::move(parts));
}

Tensor moved(const Tensor& gradient, const Layout& to) {
  if (gradient.layout() == to) return gradient;
  const auto plan = detail::plan_between(gradient.layout(), to, gradient.shape(), gradient.dtype());
  const bool is_free =
      std::ranges::none_of(plan->steps, [](const layout::Step& step) { return layout::communicates(step.kind); });
  TESSERA_CHECK(is_free || moving() == Moving::kAutomatic, "backward: a gradient ", tensor::describe(gradient),
                " would have to move to ", to.placements_text(), ":\n", plan->text(),
                "redistribute() in forward where that belongs, or open an AutoRedistribute scope",
                detail::backward_note());
  if (!is_free) detail::counters().automatic.fetch_add(1, std::memory_order_relaxed);
  const detail::AutomaticMoves moves("a gradient");
  return redistribute(gradient, to);
}

Tensor place(const Tensor& gradient, const Layout& of) {
  if (!of) {
    const Layout whole = Layout::replicated(gradient.layout().mesh());
    TESSERA_CHECK(gradient.layout() == whole || moving() == Moving::kAutomatic, "backward: the gradient ",
                  tensor::describe(gradient), " is of a plain tensor, which has room for a whole one alone: ",
                  "replicate() the tensor, and its gradient can be pending; or open an AutoRedistribute scope",
                  detail::backward_note());
    return local(moved(gradient, whole));
  }
  if (!gradient.has_layout()) {
    TESSERA_CHECK(gradient.ndim() == 0, "backward: a plain gradient, ", tensor::describe(gradient),
                  ", of a tensor on the mesh ", of.text(), "; if every rank has the same, replicate() it, else ",
                  "distribute() it", detail::backward_note());
    return replicate(gradient, of.mesh());
  }
  TESSERA_CHECK(gradient.layout().mesh() == of.mesh(), "backward: a gradient ", tensor::describe(gradient),
                " of a tensor on another mesh, ", of.text(), detail::backward_note());
  return is_cut_alike(gradient.layout(), of) ? gradient : moved(gradient, dual_of(gradient.layout(), of));
}

Tensor sum(const Tensor& a, const Tensor& b) {
  if (!a.has_layout() || !b.has_layout()) return ops::add(a, b);  // one is of a scalar, or the call says what is wrong
  LayoutParts parts = a.layout().parts();
  for (const layout::PartialAxis& pending : b.layout().partials()) {
    if (!is_partial_along(parts, pending.by) && !is_cut_by(parts, pending.by)) parts.partials.push_back(pending);
  }
  const Layout both = Layout::create(a.layout().mesh(), std::move(parts));
  return ops::add(moved(a, both), moved(b, both));
}

[[maybe_unused]] const bool kIsInstalled = (autograd::set_gradient_layouts({place, sum}), true);

}  // namespace
}  // namespace tessera::shard
