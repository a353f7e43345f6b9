// Norms over lists: the ranks that count each shard, and the ranks over which the counts are added.
//
//   mesh dp=2,tp=2, a: {Shard(0), Replicate()}, b: {Replicate(), Replicate()}
//   only dp shards anything, so groups are along dp:     (0,*)  (1,*)
//   a is counted by                                         x      x
//   b is counted by                                         x
#include <algorithm>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/layout/planner.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/shard/detail/conflict_text.h"
#include "tessera/shard/detail/cooperate.h"
#include "tessera/shard/detail/counts.h"
#include "tessera/shard/detail/list_calls.h"
#include "tessera/shard/detail/tracing.h"
#include "tessera/shard/scopes.h"
#include "tessera/tensor/cooperation.h"

namespace tessera::shard::detail {
namespace {

using layout::Layout;
using layout::Mesh;
using layout::SubAxis;
using tensor::Call;

// Distinct layouts of a list, and the layout of each tensor.
struct Distinct {
  std::vector<Layout> layouts;
  std::vector<std::size_t> of;  // index of the layout, by input
};

Distinct distinct_layouts(const Call& call) {
  Distinct out;
  std::size_t last = 0;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Tensor& x = call.inputs[i];
    TESSERA_CHECK(x, call.op.name(), ": ", argument_text(call, i), " must be a tensor");
    if (!x.has_layout()) refuse_plain(call, i);
    if (last >= out.layouts.size() || !(out.layouts[last] == x.layout())) {
      last = static_cast<std::size_t>(std::ranges::find(out.layouts, x.layout()) - out.layouts.begin());
      if (last == out.layouts.size()) out.layouts.push_back(x.layout());
    }
    out.of.push_back(last);
  }
  return out;
}

// Reduces partial inputs if redistribution is automatic. Returns false if none is partial.
bool settles_first(const Call& call, const Distinct& list) {
  if (std::ranges::all_of(list.layouts, [](const Layout& each) { return each.partials().empty(); })) return false;
  std::vector<std::size_t> inputs;
  std::vector<Layout> to;
  for (std::size_t i = 0; i < list.of.size(); ++i) {
    const Layout& layout = list.layouts[list.of[i]];
    if (layout.partials().empty()) continue;
    TESSERA_CHECK(
        redistribute_mode() == RedistributeMode::kAutomatic, call.op.name(), ": ", argument_text(call, i), " is ",
        tensor::describe(call.inputs[i]),
        ", a partial value without a norm; use reduce_gradients() for gradients, redistribute() for other tensors, ",
        "or an AutoRedistribute scope");
    inputs.push_back(i);
    to.push_back(layout::gradient_layout(layout));
  }
  move_and_call(call, inputs, to);
  return true;
}

// Returns the mesh that contains the ranks of all others.
Mesh mesh_of_all(const Call& call, const Distinct& list) {
  for (const Layout& candidate : list.layouts) {
    const bool holds_all = std::ranges::all_of(
        list.layouts, [&](const Layout& other) { return holds_ranks_of(candidate.mesh(), other.mesh()); });
    if (holds_all) return candidate.mesh();
  }
  TESSERA_THROW(
      InvalidArgument, call.op.name(), ": one mesh must contain the ranks of all others, but none does, such as ",
      list.layouts[0].mesh().text(), "; compute the norm per mesh, or add a tensor on a mesh of all ranks to the list");
}

// Returns the axes along which shards differ; for several meshes, all axes of the one with all ranks.
std::vector<SubAxis> axes_of(const Mesh& mesh, const Distinct& list) {
  std::vector<bool> shardings(static_cast<std::size_t>(mesh.ndim()), false);
  for (const Layout& layout : list.layouts) {
    if (!(layout.mesh() == mesh)) shardings.assign(shardings.size(), true);
    for (int d = 0; layout.mesh() == mesh && d < layout.ndim(); ++d) {
      for (const layout::Sharding& sharding : layout.shardings(d))
        shardings[static_cast<std::size_t>(sharding.by.axis)] = true;
    }
  }
  std::vector<SubAxis> axes;
  for (int a = 0; a < mesh.ndim(); ++a) {
    if (shardings[static_cast<std::size_t>(a)] && mesh.axis(a).size > 1) axes.push_back({a, 1, mesh.axis(a).size});
  }
  return axes;
}

// Returns true if this rank is the first of those along the axes of the group that hold the same shard.
bool counts_here(const Layout& layout, const Mesh& group_mesh, std::span<const SubAxis> axes) {
  const Mesh& mesh = layout.mesh();
  const Rank rank = current_place().rank;
  if (!mesh.contains(rank)) return false;
  const layout::Coordinates at = mesh.coordinates(rank);
  for (int a = 0; a < mesh.ndim(); ++a) {
    const bool is_of_group =
        !(mesh == group_mesh) || std::ranges::any_of(axes, [a](const SubAxis& each) { return each.axis == a; });
    if (!is_of_group) continue;  // other groups count separately
    std::int64_t left = at[static_cast<std::size_t>(a)];
    const std::int64_t coordinate = left;
    for (int d = 0; d < layout.ndim(); ++d) {
      for (const layout::Sharding& sharding : layout.shardings(d)) {
        if (sharding.by.axis != a) continue;
        const std::int64_t after = mesh.axis(a).size / (sharding.by.before * sharding.by.size);
        left -= coordinate / after % sharding.by.size * after;
      }
    }
    if (left != 0) return false;
  }
  return true;
}

void wrap(const Call& call, const Mesh& mesh, std::span<Tensor> parts) {
  const Layout whole = Layout::replicated(mesh);
  std::vector<tensor::OutputInfo> infos;
  if (parts.empty()) infos = tensor::infer(call);
  for (std::size_t o = 0; o < call.outputs.size(); ++o) {
    Tensor& out = call.outputs[o];
    if (out) {
      TESSERA_CHECK(out.layout() == whole, call.op.name(), ": the output keeps its layout, which must be ",
                    whole.text(), ", got ", tensor::describe(out), "; give a tensor of that layout, or none");
      if (!parts.empty()) ops::copy_(out.local(), parts[o]);
    } else if (parts.empty()) {
      out = Tensor::sharded(infos[o].shape, infos[o].dtype, whole, {});
    } else {
      out = Tensor::sharded(parts[o].shape(), parts[o].dtype(), whole, parts[o]);
    }
  }
}

}  // namespace

void call_together(const Call& call) {
  const Distinct list = distinct_layouts(call);
  if (settles_first(call, list)) return;
  const Mesh mesh = mesh_of_all(call, list);
  const std::vector<SubAxis> axes = axes_of(mesh, list);
  AtomicShardCounts& counts = counters();
  counts.calls.fetch_add(1, std::memory_order_relaxed);
  counts.hits.fetch_add(1, std::memory_order_relaxed);
  if (!axes.empty()) check_may_communicate(tessera::detail::concat(call.op.name(), " of sharded tensors"));
  std::vector<Tensor> results(call.outputs.size());
  if (mesh.contains(current_place().rank)) {
    std::vector<bool> is_counted;
    for (const Layout& layout : list.layouts) is_counted.push_back(counts_here(layout, mesh, axes));
    std::vector<Tensor> parts(call.inputs.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (is_counted[list.of[i]]) parts[i] = call.inputs[i].local();
    }
    const Call local{call.op, parts, call.attributes, results};
    if (axes.empty()) {
      tensor::call_below(tensor::HookKind::kShard, local);
    } else {
      DispatchPlan entry;
      entry.mesh = mesh;
      entry.phases.assign(call.op->def.cooperation->phases.size(), axes);
      results = cooperate(call, local, entry, {});
    }
    wrap(call, mesh, results);
  } else {
    wrap(call, mesh, {});
  }
  if (is_tracing()) [[unlikely]]
    trace_list_call(call);
}

}  // namespace tessera::shard::detail
