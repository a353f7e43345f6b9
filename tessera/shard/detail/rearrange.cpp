#include "tessera/shard/detail/rearrange.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/layout/propagate.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/shape/arrange.h"
#include "tessera/shard/detail/counts.h"
#include "tessera/shard/detail/geometry.h"
#include "tessera/shard/detail/run_plans.h"
#include "tessera/shard/detail/tracing.h"
#include "tessera/shard/groups.h"
#include "tessera/shard/redistribute.h"

namespace tessera::shard::detail {
namespace {

using layout::Layout;
using layout::SubAxis;
using tensor::Call;
using tensor::MovedRun;
using tensor::Rearrangement;

bool is_reversed(const Rearrangement& how, std::size_t dim) { return !how.is_reversed.empty() && how.is_reversed[dim]; }

// Returns, by dimension, whether any element gets another index along it.
std::vector<bool> rearranged_dims(const Call& call, const Rearrangement& how, const Shape& result) {
  std::vector<bool> dims;
  for (std::size_t d = 0; d < result.size(); ++d) {
    bool is_moved = is_reversed(how, d) && result[d] > 1;
    for (std::size_t i = 0; i < how.inputs.size(); ++i) {
      const std::int64_t size = call.inputs[i].shape()[d];
      is_moved |= size != result[d] || how.inputs[i][d] != std::vector<MovedRun>{{.length = size}};
    }
    dims.push_back(is_moved);
  }
  return dims;
}

Layout without_shardings(const Layout& layout, const std::vector<bool>& dims) {
  layout::LayoutParts parts = layout.parts();
  for (std::size_t d = 0; d < parts.dims.size(); ++d) {
    if (dims[d]) parts.dims[d] = {};
  }
  return Layout::create(layout.mesh(), std::move(parts));
}

bool uses(const Layout& layout, const SubAxis& by) {
  const auto is_it = [&](const auto& each) { return each.by.axis == by.axis; };
  bool found = std::ranges::any_of(layout.partials(), is_it);
  for (int d = 0; d < layout.ndim(); ++d) found |= std::ranges::any_of(layout.shardings(d), is_it);
  return found;
}

// Returns the layout of the result. Rearranged dimensions are sharded as in the first input that shards them, the
// others as `rest` states.
Layout output_layout(const Layout& rest, std::span<const Layout> inputs, const std::vector<bool>& dims) {
  layout::LayoutParts parts = rest.parts();
  parts.dims.resize(dims.size());
  for (std::size_t d = 0; d < dims.size(); ++d) {
    for (const Layout& input : inputs) {
      if (!dims[d] || !parts.dims[d].shardings.empty()) break;
      for (const layout::Sharding& sharding : input.shardings(static_cast<int>(d)))
        parts.dims[d].shardings.push_back({sharding.by, 1});
    }
  }
  return Layout::create(rest.mesh(), std::move(parts));
}

// Returns the axes that shard these dimensions; nothing if the rest uses one of them, one shards several dimensions, or
// two are sub-axes of one axis.
std::vector<SubAxis> axes_of(std::span<const Layout> layouts, const std::vector<bool>& dims, const Layout& rest) {
  std::vector<std::pair<SubAxis, int>> axes;
  for (const Layout& layout : layouts) {
    for (int d = 0; d < layout.ndim(); ++d) {
      if (!dims[static_cast<std::size_t>(d)]) continue;
      for (const layout::Sharding& sharding : layout.shardings(d)) {
        const std::pair<SubAxis, int> here = {sharding.by, d};
        if (std::ranges::find(axes, here) != axes.end()) continue;
        const bool is_taken =
            std::ranges::any_of(axes, [&](const auto& each) { return each.first.axis == sharding.by.axis; });
        if (is_taken || uses(rest, sharding.by)) return {};
        axes.push_back(here);
      }
    }
  }
  std::ranges::sort(axes);
  std::vector<SubAxis> out;
  for (const auto& each : axes) out.push_back(each.first);
  return out;
}

ShardMaps whole_maps(const Shape& shape) {
  ShardMaps maps;
  for (const std::int64_t size : shape) maps.push_back({.offset = 0, .block = size, .levels = {}});
  return maps;
}

// Returns the chunks of one input that go from one shard to another.
std::vector<Chunk> chunks_of(const Rearrangement& how, std::size_t input, const Shape& result, const ShardMaps& from,
                             const ShardMaps& to) {
  std::vector<std::vector<CommonRun>> dims;
  for (std::size_t d = 0; d < result.size(); ++d) {
    dims.push_back(moved_runs(from[d], to[d], how.inputs[input][d], is_reversed(how, d) ? result[d] : -1));
  }
  return chunks_of_runs(dims);
}

Layout layout_of(const Tensor& input, const layout::Mesh& mesh) {
  return input.has_layout() ? input.layout() : Layout::replicated(mesh);
}

// Returns a plan of one exchange, with the cost of the busiest receiver.
std::shared_ptr<const layout::Plan> plan_of(const Call& call, Rearranged& what, const Shape& result,
                                            std::span<const Layout> inputs) {
  const layout::Mesh& mesh = what.output.mesh();
  const auto itemsize_of = static_cast<std::int64_t>(itemsize(call.inputs[0].dtype()));
  std::int64_t most = 0;
  what.moves.assign(inputs.size(), false);
  const layout::RankSet ranks = mesh.ranks();
  for (std::int64_t r = 0; r < ranks.size(); ++r) {
    const ShardMaps to = shard_maps(what.output, result, ranks.at(r));
    std::int64_t received = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Shape& shape = call.inputs[i].shape();
      const std::int64_t lacks =
          numel_of(chunks_of(what.how, i, result, whole_maps(shape), to)) -
          numel_of(chunks_of(what.how, i, result, shard_maps(inputs[i], shape, ranks.at(r)), to));
      received += lacks;
      if (lacks > 0) what.moves[i] = true;
    }
    most = std::max(most, received);
  }
  const auto first = std::ranges::find_if(inputs, [&](const Layout& each) { return !(each == what.output); });
  layout::Plan plan;
  plan.request = {first == inputs.end() ? inputs[0] : *first, what.output, result, itemsize_of, 0};
  layout::Step step{layout::StepKind::kBoxExchange, what.axes, plan.request.from, what.output};
  step.nbytes = most * itemsize_of;
  step.copy_nbytes = step.nbytes + layout::largest_local_numel(what.output, result) * itemsize_of;
  step.peak_nbytes = step.copy_nbytes;
  const layout::CostModel& model = planner().model();
  double slowest = 0;
  std::int64_t hops = 1;
  for (const SubAxis& axis : what.axes) {
    const layout::LinkCost& link = model.of(mesh.axis(axis.axis));
    slowest = std::max(slowest, static_cast<double>(step.nbytes) / (link.gigabytes_per_s * 1e3));
    hops *= axis.size;
    step.us = std::max(step.us, link.latency_us);
  }
  step.us = model.launch_us + step.us * static_cast<double>(hops - 1) + slowest +
            model.copy_us(static_cast<double>(step.copy_nbytes));
  plan.nbytes = step.nbytes;
  plan.peak_nbytes = step.peak_nbytes;
  plan.us = step.us;
  plan.steps.push_back(std::move(step));
  return std::make_shared<const layout::Plan>(std::move(plan));
}

// Adds copies of chunks between a shard and contiguous messages.
std::int64_t add_messages(std::span<const std::vector<Chunk>> messages, const Shape& part, const Shape& result,
                          bool is_sent, std::vector<RegionCopy>& copies) {
  std::int64_t offset = 0;
  for (const std::vector<Chunk>& chunks : messages) {
    for (const Chunk& chunk : chunks) {
      const RegionCopy ends = region_copy(chunk, part, 0, result, 0);
      const Shape& shape = ends.from.shape;
      const Region message = {shape, contiguous_strides(shape), offset};
      copies.push_back(is_sent ? RegionCopy{ends.from, message} : RegionCopy{message, ends.to});
      offset += chunk.numel();
    }
  }
  merge_copies(copies);
  return offset;
}

CompiledRearrangement::Input compile_input(Exchange messages, std::size_t self, const Shape& part, const Shape& result,
                                           DType dtype) {
  CompiledRearrangement::Input out;
  for (const Chunk& chunk : messages.sends[self]) out.keep.push_back(region_copy(chunk, part, 0, result, 0));
  merge_copies(out.keep);
  messages.sends[self].clear();
  messages.receives[self].clear();
  out.packed_numel = add_messages(messages.sends, part, result, true, out.pack);
  out.received_numel = add_messages(messages.receives, part, result, false, out.unpack);
  out.operation.kind = comm::OpKind::kAllToAll;
  out.operation.dtype = dtype;
  for (const auto& chunks : messages.sends) out.operation.in_counts.push_back(numel_of(chunks));
  for (const auto& chunks : messages.receives) out.operation.out_counts.push_back(numel_of(chunks));
  return out;
}

}  // namespace

std::shared_ptr<const Rearranged> find_rearranged(const Call& call, const layout::FactorRule& rule, const Shape& result,
                                                  const layout::Mesh& mesh, const Layout& target) {
  auto out = std::make_shared<Rearranged>();
  out->how = call.op->def.rearrangement(call);
  const std::vector<bool> dims = rearranged_dims(call, out->how, result);
  std::vector<Layout> layouts;
  std::vector<layout::Operand> operands;
  for (const Tensor& input : call.inputs) {
    layouts.push_back(layout_of(input, mesh));
    operands.push_back(
        {input.shape(), without_shardings(layouts.back(), dims), static_cast<std::int64_t>(itemsize(input.dtype()))});
  }
  const layout::Propagation rest = layout::propagate(rule, operands, std::span(&result, 1));
  if (!rest.is_match()) return nullptr;
  if (target && !(without_shardings(target, dims) == rest.outputs[0])) return nullptr;
  std::vector<Layout> all = layouts;
  if (target) all.push_back(target);
  out->axes = axes_of(all, dims, rest.outputs[0]);
  if (out->axes.empty()) return nullptr;
  out->output = target ? target : output_layout(rest.outputs[0], layouts, dims);
  out->plan = plan_of(call, *out, result, layouts);
  return out;
}

std::shared_ptr<const CompiledRearrangement> compile_rearranged(const Call& call, const Rearranged& what,
                                                                const Shape& result) {
  auto out = std::make_shared<CompiledRearrangement>();
  const layout::Mesh& mesh = what.output.mesh();
  const Rank rank = current_place().rank;
  const std::vector<Rank> ranks = ranks_along(mesh, what.axes, rank);
  const auto self = static_cast<std::size_t>(std::ranges::find(ranks, rank) - ranks.begin());
  if (what.plan->nbytes > 0) out->group = &group_along(mesh, what.axes);
  GroupShards parts;
  for (const Rank each : ranks) parts.after.push_back(shard_maps(what.output, result, each));
  out->shape = shape_of(parts.after[self]);
  std::int64_t covered = 0;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Tensor& input = call.inputs[i];
    parts.before.clear();
    for (const Rank each : ranks) parts.before.push_back(shard_maps(layout_of(input, mesh), input.shape(), each));
    Exchange messages = exchange_of(parts, static_cast<int>(self), [&](const ShardMaps& from, const ShardMaps& to) {
      return chunks_of(what.how, i, result, from, to);
    });
    for (const auto& chunks : messages.receives) covered += numel_of(chunks);
    out->inputs.push_back(
        compile_input(std::move(messages), self, shape_of(parts.before[self]), out->shape, input.dtype()));
    set_geometry_between(out->inputs.back().operation.geometry, input.shape(), layout_of(input, mesh), what.output);
    out->inputs.back().is_sent = what.moves[i];
  }
  out->is_filled = covered != out->shape.numel();
  return out;
}

Tensor run_rearranged(const Rearranged& what, const CompiledRearrangement& how, std::span<const Tensor> parts) {
  const tensor::GradModeScope no_grad(false);
  const DType dtype = parts[0].dtype();
  const tensor::CurrentDevice where = tensor::current_device(parts[0].device());
  Tensor out = how.is_filled ? ops::full(how.shape, what.how.fill, {dtype, parts[0].device()})
                             : Tensor::allocate(how.shape, dtype, where);
  std::vector<Tensor> sent(parts.size());  // until they are sent
  std::vector<Tensor> received(parts.size());
  std::vector<comm::Operation> operations;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const CompiledRearrangement::Input& input = how.inputs[i];
    const Tensor dense = ops::contiguous(parts[i]);
    copy_regions(out, dense, input.keep);
    if (!input.is_sent) continue;
    sent[i] = Tensor::allocate(Shape{input.packed_numel}, dtype, where);
    copy_regions(sent[i], dense, input.pack);
    received[i] = Tensor::allocate(Shape{input.received_numel}, dtype, where);
    operations.push_back(input.operation);
    operations.back().in = sent[i].address();
    operations.back().out = received[i].address();
  }
  if (!operations.empty()) {
    (void)how.group->launch(operations, *where.stream);
    AtomicShardCounts& all = counters();
    all.collectives.fetch_add(1, std::memory_order_relaxed);
    all.nbytes.fetch_add(static_cast<std::uint64_t>(what.plan->nbytes), std::memory_order_relaxed);
    if (is_tracing()) trace_move(dtype, what.plan);
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (received[i]) copy_regions(out, received[i], how.inputs[i].unpack);
  }
  tensor::IntList reversed;
  for (std::size_t d = 0; d < what.how.is_reversed.size(); ++d) {
    if (what.how.is_reversed[d]) reversed.push_back(static_cast<std::int64_t>(d));
  }
  return reversed.empty() ? out : ops::flip(out, reversed);
}

}  // namespace tessera::shard::detail
