// Inside the function, the tensors of every rank are separate variables (a region). Tensors enter a region as shards
// and leave it as global tensors, and the two operations are transposes: gradients of results enter a backward region,
// and gradients of inputs leave it. The gradient of a replicated tensor is the sum over ranks, so a replicated result
// receives its gradient as a partial sum. Along axes in `alike` (see local_map.h), all ranks compute the same, and
// partial gradients pass through: the region records along which axes the latest ones were partial.
#include "tessera/shard/local_map.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "tessera/autograd/function.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/layout/planner.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/shard/detail/collective_axes.h"
#include "tessera/shard/detail/compare_shards.h"
#include "tessera/shard/detail/counts.h"
#include "tessera/shard/detail/laid_out.h"
#include "tessera/shard/detail/tracing.h"
#include "tessera/shard/redistribute.h"
#include "tessera/tensor/call.h"

namespace tessera::shard {
namespace {

using autograd::FunctionCall;
using layout::Layout;
using layout::SubAxis;
using Tensors = std::vector<Tensor>;

struct Region {
  layout::Mesh mesh;
  std::uint32_t alike = 0;    // axes, one bit each
  std::uint32_t pending = 0;  // subset of `alike` along which entering tensors are partial sums; of a backward region
  std::shared_ptr<Region> back = {};  // the latest backward region
};
using RegionRef = std::shared_ptr<Region>;

std::uint32_t bit(int axis) { return std::uint32_t{1} << axis; }

std::vector<SubAxis> used_parts(const Layout& layout) {
  std::vector<SubAxis> used;
  for (int d = 0; d < layout.ndim(); ++d) {
    for (const layout::Sharding& sharding : layout.shardings(d)) used.push_back(sharding.by);
  }
  for (const layout::PartialAxis& partial : layout.partials()) used.push_back(partial.by);
  std::ranges::sort(used);
  return used;
}

// Returns the sub-axes of these axes along which a layout is replicated.
std::vector<SubAxis> free_parts(const Layout& layout, std::uint32_t axes) {
  const std::vector<SubAxis> used = used_parts(layout);
  std::vector<SubAxis> out;
  for (std::int32_t a = 0; a < layout.mesh().ndim(); ++a) {
    if ((axes & bit(a)) == 0) continue;
    std::int64_t from = 1;
    const auto add_up_to = [&](std::int64_t to) {
      if (to > from) out.push_back({a, from, to / from});
    };
    for (const SubAxis& part : used) {
      if (part.axis != a) continue;
      add_up_to(part.before);
      from = part.before * part.size;
    }
    add_up_to(layout.mesh().axis(a).size);
  }
  return out;
}

// Returns the layout of a gradient inside a region: sharded as the tensor, partial along these replicated axes.
Layout summed_gradient(const Layout& of, std::uint32_t axes) {
  layout::LayoutParts parts = of.parts();
  parts.partials.clear();
  for (const SubAxis& part : free_parts(of, axes)) parts.partials.push_back({part, Reduction::kSum});
  return Layout::create(of.mesh(), std::move(parts));
}

// Returns the number of ranks over which a tensor with partial axes is averaged.
std::int64_t averaged_over(const Layout& layout) {
  std::int64_t ranks = 1;
  for (const layout::PartialAxis& partial : layout.partials()) {
    TESSERA_CHECK_AS(NotSupported, partial.reduction == Reduction::kSum || partial.reduction == Reduction::kAvg,
                     "local_map: gradients require Partial(sum) or Partial(avg), got ", layout.placements_text(),
                     "; redistribute() the input first, or detach() it");
    if (partial.reduction == Reduction::kAvg) ranks *= partial.by.size;
  }
  return ranks;
}

std::uint32_t pending_axes(const Tensors& gradients, std::uint32_t alike) {
  std::uint32_t pending = 0;
  for (const Tensor& gradient : gradients) {
    if (!gradient || !gradient.has_layout()) continue;
    for (const layout::PartialAxis& partial : gradient.layout().partials()) pending |= bit(partial.by.axis);
  }
  return pending & alike;
}

Tensor enter(const Tensor& x, const RegionRef& region, const Layout& gradient);

// Converts shards to global tensors of these layouts and shapes.
Tensors leave(const Tensors& parts, std::vector<Layout> layouts, std::vector<Shape> shapes, const RegionRef& region) {
  const auto forward = [&](FunctionCall& /*call*/, const Tensors& inputs) {
    Tensors wholes;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      wholes.push_back(Tensor::sharded(shapes[i], inputs[i].dtype(), layouts[i], inputs[i].detach()));
    }
    return wholes;
  };
  return autograd::apply_function(
      "local_map", forward,
      [layouts, region](FunctionCall& call, const Tensors& gradients) {
        const auto back = std::make_shared<Region>(Region{region->mesh, region->alike});
        back->pending = pending_axes(gradients, region->alike);
        Tensors out(gradients.size());
        for (std::size_t i = 0; i < gradients.size(); ++i) {
          if (!gradients[i] || !call.needs(i)) continue;
          const std::int64_t averaged = averaged_over(layouts[i]);
          const Tensor gradient = redistribute(detail::laid_out(gradients[i], region->mesh),
                                               summed_gradient(layouts[i], ~region->alike | back->pending));
          out[i] = enter(gradient, back, {});
          if (averaged != 1) out[i] = ops::div(out[i], Scalar(averaged));
        }
        region->back = back;
        return out;
      },
      parts);
}

// Converts a global tensor to the shard of this rank. `gradient` is the layout in which its gradient leaves; empty: the
// default of regions.
Tensor enter(const Tensor& x, const RegionRef& region, const Layout& gradient) {
  if (!x.is_tracked() || !tensor::is_grad_enabled()) return x.local().detach();
  return std::move(autograd::apply_function(
      "local_map",
      [](FunctionCall& /*call*/, const Tensors& inputs) -> Tensors { return {inputs[0].local().detach()}; },
      [layout = x.layout(), shape = x.shape(), gradient, region](FunctionCall& /*call*/, const Tensors& gradients) {
        const RegionRef back = region->back ? region->back : std::make_shared<Region>(Region{region->mesh});
        const std::int64_t averaged = averaged_over(layout);
        const Tensor part = averaged == 1 ? gradients[0] : ops::mul(gradients[0], Scalar(averaged));
        const Layout to = gradient ? gradient : summed_gradient(layout, ~region->alike | back->pending);
        return leave({part}, {to}, {shape}, back);
      },
      {x})[0]);
}

Tensor brought(const Tensor& x, const Layout& to, std::size_t place) {
  TESSERA_CHECK(x, "local_map: input ", place, " is empty, but has layout ", to.placements_text(),
                "; give an empty layout for it");
  TESSERA_CHECK(x.has_layout(), "local_map: input ", place, ", ", tensor::describe(x),
                ", has no layout, but must have ", to.text(), "; use distribute(), replicate() or from_local()");
  if (x.layout() == to) return x;
  TESSERA_CHECK(x.layout().mesh() == to.mesh(), "local_map: input ", place, ", ", tensor::describe(x),
                ", must be on mesh ", to.mesh().text());
  if (redistribute_mode() != RedistributeMode::kAutomatic) {
    const auto plan = planner().plan({x.layout(), to, x.shape(), static_cast<std::int64_t>(itemsize(x.dtype()))});
    TESSERA_THROW(InvalidArgument, "local_map: input ", place, ", ", tensor::describe(x), ", must have layout ",
                  to.placements_text(), "; redistribute() it:\n", plan->text(), "or open an AutoRedistribute scope");
  }
  detail::counters().automatic.fetch_add(1, std::memory_order_relaxed);
  const detail::AutomaticRedistributes moves("local_map");
  return redistribute(x, to);
}

// Returns the global shape of results of this layout.
Shape whole_shape(const Tensor& part, const Layout& layout, const tensor::OutputInfo* given, std::size_t place) {
  if (given != nullptr) {
    layout::check_fits(layout, given->shape);
    const Rank rank = current_place().rank;
    const Shape should = layout::local_shape(layout, given->shape, rank);
    TESSERA_CHECK(part.shape() == should && part.dtype() == given->dtype, "local_map: result ", place, " of rank ",
                  rank, " is ", tensor::describe(part), ", but must be ", given->dtype, should,
                  " for the global tensor ", given->dtype, given->shape, " under ", layout.placements_text());
    return given->shape;
  }
  TESSERA_CHECK(layout.ndim() <= part.ndim(), "local_map: result ", place, ", ", tensor::describe(part),
                ", has fewer dimensions than its layout shards, ", layout.placements_text());
  if (layout.ndim() == 0) return part.shape();
  if (redistribute_mode() == RedistributeMode::kForbidden) {
    detail::check_may_communicate(tessera::detail::concat("local_map: the shape of result ", place, " under ",
                                                          layout.placements_text(), " (shape and dtype not given)"));
  }
  return detail::compare_shards("local_map", part, layout, {}, false);
}

// Returns the results of a rank outside the mesh: empty shards, and gradients without any.
Tensors nothing(const Tensors& inputs, const std::vector<Layout>& in, const std::vector<Layout>& out,
                const std::vector<tensor::OutputInfo>& outputs, const layout::Mesh& mesh) {
  TESSERA_CHECK(outputs.size() == out.size(), "local_map: rank ", current_place().rank, " is not on mesh ", mesh.text(),
                " and has no results; give shape and dtype of each of the ", out.size(), " results");
  std::vector<tensor::OutputInfo> infos;
  for (const Tensor& input : inputs) {
    infos.push_back(input ? tensor::OutputInfo{input.shape(), input.dtype()} : tensor::OutputInfo{});
  }
  return autograd::apply_function(
      "local_map",
      [&](FunctionCall& /*call*/, const Tensors& /*inputs*/) {
        Tensors results(out.size());
        for (std::size_t o = 0; o < out.size(); ++o) {
          if (out[o]) results[o] = Tensor::sharded(outputs[o].shape, outputs[o].dtype, out[o], {});
        }
        return results;
      },
      [in, infos](FunctionCall& call, const Tensors& /*gradients*/) {
        Tensors gradients(in.size());
        for (std::size_t i = 0; i < in.size(); ++i) {
          if (!in[i] || !call.needs(i)) continue;
          gradients[i] = Tensor::sharded(infos[i].shape, infos[i].dtype, layout::gradient_layout(in[i]), {});
        }
        return gradients;
      },
      inputs);
}

// Returns the axes that no layout uses, over which nothing was sent, and all of whose results are accounted for.
std::uint32_t alike_axes(const std::vector<Layout>& in, const std::vector<Layout>& out, std::uint32_t spoken_over) {
  std::uint32_t used = spoken_over;
  for (const std::vector<Layout>* layouts : {&in, &out}) {
    for (const Layout& layout : *layouts) {
      if (!layout) continue;
      for (const SubAxis& part : used_parts(layout)) used |= bit(part.axis);
    }
  }
  const bool has_plain = std::ranges::any_of(out, [](const Layout& layout) { return !layout; });
  return has_plain ? 0 : ~used;
}

}  // namespace

LocalMap::LocalMap(LocalFn fn, std::vector<Layout> in_layouts, std::vector<Layout> out_layouts, LocalMapOptions options)
    : fn_(std::move(fn)), in_(std::move(in_layouts)), out_(std::move(out_layouts)), options_(std::move(options)) {
  TESSERA_CHECK(fn_, "local_map: function must not be empty");
  TESSERA_CHECK(options_.gradients.empty() || options_.gradients.size() == in_.size(),
                "local_map: requires one gradient layout per input, got ", options_.gradients.size(), " layouts for ",
                in_.size(), " inputs");
  for (const std::vector<Layout>* layouts : {&in_, &out_, &options_.gradients}) {
    for (const Layout& layout : *layouts) {
      if (!layout) continue;
      if (!mesh_) mesh_ = layout.mesh();
      TESSERA_CHECK(layout.mesh() == mesh_, "local_map: layouts are on different meshes, ", mesh_.text(), " and ",
                    layout.mesh().text());
    }
  }
  TESSERA_CHECK(mesh_,
                "local_map: no input and no result has a layout, so no mesh is known; call the function directly");
}

Tensors LocalMap::operator()(const Tensors& inputs, const std::vector<tensor::OutputInfo>& outputs) const {
  TESSERA_CHECK(inputs.size() == in_.size(), "local_map: requires one input per layout, got ", inputs.size(),
                " inputs for ", in_.size(), " layouts");
  TESSERA_CHECK(outputs.empty() || outputs.size() == out_.size(),
                "local_map: requires one result shape per layout, or none, got ", outputs.size(), " shapes for ",
                out_.size(), " layouts");
  Tensors wholes = inputs;
  for (std::size_t i = 0; i < in_.size(); ++i) {
    if (in_[i]) wholes[i] = brought(inputs[i], in_[i], i);
    TESSERA_CHECK(in_[i] || !inputs[i] || !inputs[i].has_layout(), "local_map: input ", i, ", ",
                  tensor::describe(inputs[i]), ", has a layout, but its given layout is empty");
  }
  if (!mesh_.contains(current_place().rank)) return nothing(wholes, in_, out_, outputs, mesh_);
  const auto region = std::make_shared<Region>(Region{mesh_});
  Tensors parts = wholes;
  for (std::size_t i = 0; i < in_.size(); ++i) {
    if (in_[i]) parts[i] = enter(wholes[i], region, options_.gradients.empty() ? Layout() : options_.gradients[i]);
  }
  Tensors results;
  {
    const detail::CollectiveAxes spoken(mesh_);
    results = fn_(parts);
    region->alike = alike_axes(in_, out_, spoken.axes());
  }
  TESSERA_CHECK(results.size() == out_.size(), "local_map: the function must return one result per layout, got ",
                results.size(), " results for ", out_.size(), " layouts");
  Tensors leaving;
  std::vector<Layout> layouts;
  std::vector<Shape> shapes;
  for (std::size_t o = 0; o < out_.size(); ++o) {
    TESSERA_CHECK(!results[o] || !results[o].has_layout(), "local_map: result ", o, ", ", tensor::describe(results[o]),
                  ", has a layout; the function must return plain tensors");
    if (!out_[o]) continue;
    TESSERA_CHECK(results[o], "local_map: result ", o, " is empty, but has layout ", out_[o].placements_text(),
                  "; give an empty layout for it");
    shapes.push_back(whole_shape(results[o], out_[o], outputs.empty() ? nullptr : &outputs[o], o));
    layouts.push_back(out_[o]);
    leaving.push_back(results[o]);
  }
  Tensors left = leave(leaving, std::move(layouts), std::move(shapes), region);
  for (std::size_t o = 0, next = 0; o < out_.size(); ++o) {
    if (out_[o]) results[o] = std::move(left[next++]);
  }
  if (detail::is_tracing()) detail::trace_local_map(wholes, results);
  return results;
}

LocalMap local_map(LocalFn fn, std::vector<Layout> in_layouts, std::vector<Layout> out_layouts,
                   LocalMapOptions options) {
  return LocalMap(std::move(fn), std::move(in_layouts), std::move(out_layouts), std::move(options));
}

}  // namespace tessera::shard
