#include "tessera/shard/distribute.h"

#include "tessera/autograd/autograd.h"
#include "tessera/autograd/function.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/layout/planner.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/shard/detail/compare_shards.h"
#include "tessera/shard/detail/counts.h"
#include "tessera/shard/detail/geometry.h"
#include "tessera/shard/detail/laid_out.h"
#include "tessera/shard/detail/run_plans.h"
#include "tessera/shard/groups.h"
#include "tessera/shard/redistribute.h"
#include "tessera/tensor/device_context.h"

namespace tessera::shard {
namespace {

using autograd::FunctionCall;
using layout::Layout;
using Tensors = std::vector<Tensor>;

bool is_on(const layout::Mesh& mesh) { return mesh.contains(current_place().rank); }

void check_plain(const char* what, const Tensor& tensor, const char* way_out) {
  TESSERA_CHECK(tensor, what, ": tensor must not be empty");
  TESSERA_CHECK(!tensor.has_layout(), what, ": requires a plain tensor, but ", tensor::describe(tensor),
                " has a layout; ", way_out);
}

// Returns the shards of all ranks, concatenated, on the rank that has the data.
Tensor all_parts(const Tensor& whole, const Layout& layout, std::span<const Rank> ranks, std::int64_t numel) {
  const Tensor dense = ops::contiguous(whole);
  Tensor packed = Tensor::allocate(Shape{numel}, whole.dtype(), tensor::current_device(whole.device()));
  const detail::ShardMaps all = detail::shard_maps(Layout::replicated(layout.mesh()), whole.shape(), ranks[0]);
  std::vector<detail::RegionCopy> copies;
  std::int64_t offset = 0;
  for (const Rank rank : ranks) {
    const detail::ShardMaps part = detail::shard_maps(layout, whole.shape(), rank);
    const Shape shape = detail::shape_of(part);
    for (const detail::Chunk& chunk : detail::common_chunks(all, part)) {
      copies.push_back(detail::region_copy(chunk, whole.shape(), 0, shape, offset));
    }
    offset += shape.numel();
  }
  detail::merge_copies(copies);
  detail::copy_regions(packed, dense, copies);
  return packed;
}

// Sends shards from the first rank to all. `layout` has no partial axes.
Tensor scattered(const Tensor& whole, const Layout& layout) {
  if (!is_on(layout.mesh())) return Tensor::sharded(whole.shape(), whole.dtype(), layout, {});
  const autograd::NoGrad no_grad;
  const comm::ProcessGroup& group = group_of_mesh(layout.mesh());
  const tensor::CurrentDevice where = tensor::current_device(whole.device());
  std::vector<std::int64_t> counts;
  std::int64_t numel = 0;
  bool is_even = true;
  for (const Rank rank : group.ranks()) {
    counts.push_back(layout::local_shape(layout, whole.shape(), rank).numel());
    numel += counts.back();
    is_even &= counts.back() == counts[0];
  }
  const Tensor part =
      Tensor::allocate(layout::local_shape(layout, whole.shape(), current_place().rank), whole.dtype(), where);
  comm::Operation operation{.kind = layout.is_replicated() ? comm::OpKind::kBroadcast : comm::OpKind::kScatter,
                            .dtype = whole.dtype(),
                            .out = part.address()};
  detail::set_geometry(operation.geometry, whole.shape(), {.layouts = detail::digest_of(layout, layout)});
  if (is_even) operation.count = counts[0];
  for (std::size_t i = 0; !is_even && i < counts.size(); ++i) operation.in_counts.push_back(counts[i]);
  Tensor sent;
  if (group.rank() == 0) {
    sent = layout.is_replicated() ? ops::contiguous(whole) : all_parts(whole, layout, group.ranks(), numel);
    sent.storage().use_on(*where.stream);
    operation.in = sent.address();
  }
  (void)group.launch(operation, *where.stream);
  detail::AtomicShardCounts& counters = detail::counters();
  counters.collectives.fetch_add(1, std::memory_order_relaxed);
  if (group.rank() != 0) counters.nbytes.fetch_add(part.nbytes(), std::memory_order_relaxed);
  return Tensor::sharded(whole.shape(), whole.dtype(), layout, part);
}

// Returns the number of ranks over which a partial shard is averaged, for its gradient.
std::int64_t averaged_over(const Layout& layout) {
  std::int64_t ranks = 1;
  for (const layout::PartialAxis& partial : layout.partials()) {
    TESSERA_CHECK_AS(NotSupported, partial.reduction == Reduction::kSum || partial.reduction == Reduction::kAvg,
                     "from_local: gradients require Partial(sum) or Partial(avg), got ", layout.placements_text(),
                     "; reduce the shards, or detach() them");
    if (partial.reduction == Reduction::kAvg) ranks *= partial.by.size;
  }
  return ranks;
}

Tensor wrapped(const Tensor& part, const Layout& layout, const Shape& shape) {
  return std::move(autograd::apply_function(
      "from_local",
      [&](FunctionCall& /*call*/, const Tensors& inputs) -> Tensors {
        return {Tensor::sharded(shape, inputs[0].dtype(), layout, inputs[0].detach())};
      },
      [layout](FunctionCall& /*call*/, const Tensors& gradients) -> Tensors {
        const std::int64_t averaged = averaged_over(layout);
        const Tensor gradient = detail::laid_out(gradients[0], layout.mesh());
        const Tensor mine = local(redistribute(gradient, layout::gradient_layout(layout)));
        return {averaged == 1 ? mine : ops::div(mine, Scalar(averaged))};
      },
      {part})[0]);
}

}  // namespace

Tensor detail::laid_out(const Tensor& gradient, const layout::Mesh& mesh) {
  if (gradient.has_layout()) return gradient;
  TESSERA_CHECK(gradient.numel() == 1, "gradient of a tensor on mesh ", mesh.text(), " must have a layout, got ",
                tensor::describe(gradient), "; use replicate() or from_local()");
  return replicate(gradient, mesh);
}

Tensor distribute(const Tensor& whole, const Layout& layout, DataOn where) {
  check_plain("distribute", whole, "use redistribute()");
  if (!layout) return whole;
  layout::check_fits(layout, whole.shape());
  if (where == DataOn::kEveryRank) {
    const Tensor replicated = replicate(layout.is_replicated() ? ops::clone(whole) : whole, layout.mesh());
    return redistribute(replicated, layout);
  }
  if (redistribute_mode() == RedistributeMode::kForbidden) {
    detail::check_may_communicate(
        tessera::detail::concat("distribute of ", tensor::describe(whole), " to ", layout.placements_text()));
  }
  const Tensor sharding = std::move(autograd::apply_function(
      "distribute",
      [to = layout::gradient_layout(layout)](FunctionCall& /*call*/, const Tensors& inputs) -> Tensors {
        return {scattered(inputs[0], to)};
      },
      [mesh = layout.mesh()](FunctionCall& /*call*/, const Tensors& gradients) -> Tensors {
        return {gather(detail::laid_out(gradients[0], mesh))};
      },
      {whole})[0]);
  return redistribute(sharding, layout);
}

Tensor from_local(const Tensor& local, const Layout& layout, const FromLocalOptions& options) {
  TESSERA_CHECK(layout, "from_local: layout must not be empty");
  if (!is_on(layout.mesh())) {
    TESSERA_CHECK(options.shape && (options.dtype || local), "from_local: rank ", current_place().rank,
                  " is not on mesh ", layout.mesh().text(), "; give the shape and the dtype");
    layout::check_fits(layout, *options.shape);
    return Tensor::sharded(*options.shape, options.dtype ? *options.dtype : local.dtype(), layout, {});
  }
  check_plain("from_local", local, "local() returns its shard");
  TESSERA_CHECK(!options.dtype || *options.dtype == local.dtype(), "from_local: dtype must be ",
                to_string(*options.dtype), ", got ", tensor::describe(local), "; cast() it");
  if (options.shape) detail::check_part(local, layout, *options.shape);
  if (options.shape && !options.check) return wrapped(local, layout, *options.shape);
  if (redistribute_mode() == RedistributeMode::kForbidden) {
    detail::check_may_communicate(tessera::detail::concat("from_local of ", tensor::describe(local), " under ",
                                                          layout.placements_text(), " without a shape, or checked"));
  }
  return wrapped(local, layout, detail::compare_shards("from_local", local, layout, options.shape, options.check));
}

Tensor local(const Tensor& x, const std::optional<Layout>& gradient) {
  TESSERA_CHECK(x, "local: tensor must not be empty");
  if (!x.has_layout()) return x;
  TESSERA_CHECK(!gradient || gradient->mesh() == x.layout().mesh(),
                "local: the gradient layout must be on the mesh of ", tensor::describe(x), ", got mesh ",
                gradient->mesh().text());
  if (!x.local()) return {};
  if (!x.is_tracked() || !tensor::is_grad_enabled()) return x.local().detach();
  return std::move(autograd::apply_function(
      "local", [](FunctionCall& /*call*/, const Tensors& inputs) -> Tensors { return {inputs[0].local().detach()}; },
      [shape = x.shape(), back = gradient.value_or(layout::gradient_layout(x.layout()))](
          FunctionCall& /*call*/, const Tensors& gradients) -> Tensors {
        return {from_local(gradients[0], back, {.shape = shape})};
      },
      {x})[0]);
}

Tensor gather(const Tensor& x) {
  TESSERA_CHECK(x, "gather: tensor must not be empty");
  if (!x.has_layout()) return x;
  return local(redistribute(x, Layout::replicated(x.layout().mesh())));
}

Tensor replicate(const Tensor& plain, const layout::Mesh& mesh) {
  check_plain("replicate", plain, "use redistribute() to replicate it");
  return from_local(plain, Layout::replicated(mesh), {.shape = plain.shape()});
}

}  // namespace tessera::shard
