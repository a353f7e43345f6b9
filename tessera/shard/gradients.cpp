// Layouts of gradients. A gradient is sharded like its tensor. Along other axes it is reduced or partial, that is, a
// sum that has not been reduced yet. The following conversions need no communication:
//
//   gradient, tensor           becomes
//   reduced,  sharded          sharded: each rank keeps its shard
//   sharded,  not sharded      partial: the shard of each rank is its summand
//   partial + reduced          partial: the reduced one counts only on the first rank
//
// Conversions that communicate throw, unless an AutoRedistribute scope is in force.
#include "tessera/shard/gradients.h"

#include <algorithm>

#include "tessera/autograd/autograd.h"
#include "tessera/autograd/function.h"
#include "tessera/autograd/hooks.h"
#include "tessera/base/error.h"
#include "tessera/layout/planner.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/shard/detail/compiled_plan.h"
#include "tessera/shard/detail/counts.h"
#include "tessera/shard/detail/dispatch_plan.h"
#include "tessera/shard/detail/laid_out.h"
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

bool is_sharded_by(const LayoutParts& parts, const SubAxis& by) {
  for (const layout::DimShardings& dim : parts.dims) {
    if (std::ranges::any_of(dim.shardings, [&](const layout::Sharding& sharding) { return overlap(sharding.by, by); }))
      return true;
  }
  return false;
}

bool is_partial_along(const LayoutParts& parts, const SubAxis& by) {
  return std::ranges::any_of(parts.partials, [&](const layout::PartialAxis& each) { return overlap(each.by, by); });
}

bool is_sharded_alike(const Layout& a, const Layout& b) {
  if (!(a.mesh() == b.mesh()) || a.ndim() != b.ndim()) return false;
  for (int d = 0; d < a.ndim(); ++d) {
    if (!std::ranges::equal(a.shardings(d), b.shardings(d)) || !std::ranges::equal(a.sizes(d), b.sizes(d)))
      return false;
  }
  return true;
}

// Returns the layout of a gradient `now` of a tensor `of`.
Layout dual_of(const Layout& now, const Layout& of) {
  LayoutParts parts = of.parts();
  parts.partials.clear();
  for (const layout::PartialAxis& pending : now.partials()) {
    if (!is_sharded_by(parts, pending.by)) parts.partials.push_back(pending);
  }
  for (int d = 0; d < now.ndim(); ++d) {
    for (const layout::Sharding& sharding : now.shardings(d)) {
      if (!is_sharded_by(parts, sharding.by)) parts.partials.push_back({sharding.by, Reduction::kSum});
    }
  }
  return Layout::create(of.mesh(), std::move(parts));
}

Tensor moved(const Tensor& gradient, const Layout& to) {
  if (gradient.layout() == to) return gradient;
  if (gradient.numel() == 0 && to.partials().empty()) {
    ops::CreateOptions options{.dtype = gradient.dtype(), .layout = to};
    if (const Tensor own = gradient.local()) options.device = own.device();  // a rank outside the mesh has none
    return ops::zeros(gradient.shape(), options);
  }
  const auto plan = detail::plan_between(gradient.layout(), to, gradient.shape(), gradient.dtype());
  const bool is_free =
      std::ranges::none_of(plan->steps, [](const layout::Step& step) { return layout::communicates(step.kind); });
  TESSERA_CHECK(is_free || redistribute_mode() == RedistributeMode::kAutomatic, "backward: a gradient ",
                tensor::describe(gradient), " must be redistributed to ", to.placements_text(), ":\n", plan->text(),
                "redistribute() in forward, or open an AutoRedistribute scope", detail::backward_note());
  if (!is_free) detail::counters().automatic.fetch_add(1, std::memory_order_relaxed);
  const detail::AutomaticRedistributes moves("a gradient");
  return redistribute(gradient, to);
}

Tensor place(const Tensor& gradient, const Layout& of) {
  if (!of) {
    const Layout whole = Layout::replicated(gradient.layout().mesh());
    TESSERA_CHECK(gradient.layout() == whole || redistribute_mode() == RedistributeMode::kAutomatic,
                  "backward: the gradient of a plain tensor must be replicated, got ", tensor::describe(gradient),
                  "; replicate() the tensor, so that its gradient can be partial, or open an AutoRedistribute scope",
                  detail::backward_note());
    return local(moved(gradient, whole));
  }
  if (!gradient.has_layout()) {
    TESSERA_CHECK(gradient.ndim() == 0 || gradient.is_constant(), "backward: the gradient of a tensor on mesh ",
                  of.text(), " is a plain tensor, ", tensor::describe(gradient),
                  "; replicate() it if all ranks hold the same value, otherwise distribute() it",
                  detail::backward_note());
    return place(replicate(gradient, of.mesh()), of);
  }
  TESSERA_CHECK(gradient.layout().mesh() == of.mesh(), "backward: the gradient must be on the mesh of its tensor, ",
                of.text(), ", got ", tensor::describe(gradient), detail::backward_note());
  return is_sharded_alike(gradient.layout(), of) ? gradient : moved(gradient, dual_of(gradient.layout(), of));
}

Tensor sum(const Tensor& a, const Tensor& b) {
  // one belongs to a scalar, or the call reports the mismatch
  if (!a.has_layout() || !b.has_layout()) return ops::add(a, b);
  LayoutParts parts = a.layout().parts();
  for (const layout::PartialAxis& pending : b.layout().partials()) {
    if (!is_partial_along(parts, pending.by) && !is_sharded_by(parts, pending.by)) parts.partials.push_back(pending);
  }
  const Layout both = Layout::create(a.layout().mesh(), std::move(parts));
  return ops::add(moved(a, both), moved(b, both));
}

[[maybe_unused]] const bool kIsInstalled = (autograd::set_gradient_layouts({place, sum}), true);

// Returns the layout without partial values along these axes of the mesh; without axes, along any.
Layout settled_along(const Layout& layout, const std::vector<int>& axes) {
  LayoutParts parts = layout.parts();
  std::erase_if(parts.partials, [&](const layout::PartialAxis& each) {
    return axes.empty() || std::ranges::find(axes, each.by.axis) != axes.end();
  });
  return Layout::create(layout.mesh(), std::move(parts));
}

// Identity in forward; reduces the gradient in backward.
class SettleFunction final : public autograd::Function {
 public:
  SettleFunction(const layout::Mesh& mesh, std::vector<int> axes) : mesh_(mesh), axes_(std::move(axes)) {}
  [[nodiscard]] std::string name() const override { return "settle"; }
  std::vector<Tensor> forward(autograd::FunctionCall& /*call*/, const std::vector<Tensor>& inputs) const override {
    return {inputs[0].detach()};
  }
  std::vector<Tensor> backward(autograd::FunctionCall& /*call*/, const std::vector<Tensor>& gradients) const override {
    if (!gradients[0]) return {Tensor()};
    const Tensor gradient = detail::laid_out(gradients[0], mesh_);
    return {redistribute(gradient, settled_along(gradient.layout(), axes_))};
  }

 private:
  layout::Mesh mesh_;
  std::vector<int> axes_;
};

}  // namespace

Tensor settle(const Tensor& x, const std::vector<std::string>& axes) {
  TESSERA_CHECK(x, "settle: tensor must not be empty");
  TESSERA_CHECK(x.has_layout(), "settle: ", tensor::describe(x), " has no layout, so its gradient is never partial");
  const layout::Mesh& mesh = x.layout().mesh();
  std::vector<int> of_mesh;
  for (const std::string& name : axes) of_mesh.push_back(mesh.index_of(name));
  if (!x.is_tracked() || !tensor::is_grad_enabled()) return x;
  return autograd::apply_function(std::make_shared<const SettleFunction>(mesh, std::move(of_mesh)), {x})[0];
}

void reduce_gradients(std::span<const Tensor> leaves) {
  const autograd::NoGrad no_grad;
  std::vector<Tensor> with;
  std::vector<Tensor> pending;
  std::vector<Layout> to;
  for (const Tensor& leaf : leaves) {
    TESSERA_CHECK(leaf, "reduce_gradients: tensor ", &leaf - leaves.data(), " of the list is empty");
    if (!leaf.has_layout()) continue;
    Tensor gradient = autograd::grad(leaf);
    if (!gradient) continue;
    Layout settled = layout::gradient_layout(leaf.layout());
    if (gradient.layout() == settled) continue;
    with.push_back(leaf);
    pending.push_back(std::move(gradient));
    to.push_back(std::move(settled));
  }
  const std::vector<Tensor> reduced = redistribute(pending, to);
  for (std::size_t i = 0; i < with.size(); ++i) autograd::set_grad(with[i], reduced[i]);
}

}  // namespace tessera::shard
