#include "tessera/layout/detail/make_plan.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/layout/detail/atoms.h"
#include "tessera/layout/detail/plan_search.h"
#include "tessera/layout/detail/plan_space.h"
#include "tessera/layout/detail/step_cost.h"
#include "tessera/layout/planner.h"

namespace tessera::layout::detail {
namespace {

void check_request(const PlanRequest& request) {
  TESSERA_CHECK(request.from && request.to, "plan: ", request.from ? "target" : "source", " layout must not be empty");
  TESSERA_CHECK(request.from.mesh() == request.to.mesh(), "plan: layouts must be on one mesh, got ",
                request.from.mesh().text(), " and ", request.to.mesh().text());
  TESSERA_CHECK(request.itemsize > 0, "plan: itemsize must be at least 1");
  TESSERA_CHECK(request.budget_nbytes >= 0, "plan: budget must be at least 0 bytes (0: no budget)");
  const std::int64_t numel = request.shape.numel();
  TESSERA_CHECK(numel <= (std::int64_t{1} << 62) / request.itemsize,
                "plan: tensor must have at most 2^62 bytes, got shape ", request.shape, " with ", request.itemsize,
                " bytes per element");
}

AtomLayout end_over_atoms(const PlanRequest& request, const Atoms& atoms, const Layout& layout) {
  std::string why;
  auto made = to_atoms(atoms, layout, request.shape, why);
  TESSERA_CHECK(made.has_value(), "plan: ", request.from.placements_text(), " -> ", request.to.placements_text(),
                " of shape ", request.shape, ": layouts are incompatible: ", why,
                "; redistribute through a layout without that sharding");
  return std::move(*made);
}

std::int64_t whole(double nbytes) {
  return nbytes >= 0x1p62 ? std::int64_t{1} << 62 : static_cast<std::int64_t>(std::ceil(nbytes));
}

void append_part(const Atoms& atoms, std::int32_t atom, std::vector<SubAxis>& axes) {
  const SubAxis& part = atoms.list[static_cast<std::size_t>(atom)];
  if (!axes.empty() && axes.back().axis == part.axis && axes.back().before * axes.back().size == part.before) {
    axes.back().size *= part.size;
  } else {
    axes.push_back(part);
  }
}

// Returns the atoms of the step in the order of the lists that have them: before the step (gathered, moved) or after it
// (split); otherwise in the order of the mesh.
std::vector<SubAxis> step_axes(const PlanSpace& space, const Atoms& atoms, const StepCost& cost,
                               const PlanState& before, const PlanState& after) {
  const bool is_before =
      cost.kind == StepKind::kAllGather || cost.kind == StepKind::kAllToAll || cost.kind == StepKind::kZeroFill;
  const bool is_after = cost.kind == StepKind::kSlice || cost.kind == StepKind::kReduceScatter;
  std::vector<SubAxis> axes;
  if (!is_before && !is_after) {
    for (int bit = 0; bit < space.atoms(); ++bit) {
      if ((cost.axes >> bit & 1) != 0) append_part(atoms, space.atom(bit), axes);
    }
    return axes;
  }
  for (int d = 0; d < space.dims(); ++d) {
    const ShardingList& list = space.list(is_before ? before.lists[d] : after.lists[d]);
    for (int i = 0; i < list.size; ++i) {
      const int bit = space.token(token_at(list.word, i)).bit;
      if ((cost.axes >> bit & 1) != 0) append_part(atoms, space.atom(bit), axes);
    }
  }
  return axes;
}

Step make_step(const PlanSpace& space, const Atoms& atoms, const StepCost& cost, const PlanState& before,
               const PlanState& after) {
  Step step;
  step.kind = cost.kind;
  step.axes = step_axes(space, atoms, cost, before, after);
  step.nbytes = whole(cost.nbytes);
  step.copy_nbytes = whole(cost.copy_nbytes);
  step.us = cost.us;
  // Messages are packed and unpacked one at a time; an in-place reduction counts its shard once.
  const double message =
      cost.hops > 0 && (cost.copy_nbytes > 0 || cost.kind == StepKind::kAllReduce) ? cost.nbytes / cost.hops : 0;
  const double parts = cost.kind == StepKind::kAllReduce ? before.numel : before.numel + after.numel;
  step.peak_nbytes = whole(parts * space.itemsize() + message);
  return step;
}

// Storage of a search, one per thread.
struct Workspace {
  PlanSpace space;
  PlanSearch search;
};

Workspace& workspace() {
  static thread_local const auto kKept = std::make_unique<Workspace>();  // on the heap: thread-local storage is scarce
  return *kKept;
}

PlanProblem problem_of(const PlanRequest& request, const PlanEnds& ends, const CostModel& model) {
  return {ends.atoms, ends.from, ends.to, request.shape, request.itemsize, request.budget_nbytes, model};
}

}  // namespace

PlanEnds read_ends(const PlanRequest& request) {
  check_request(request);
  std::string why;
  const Layout both[] = {request.from, request.to};
  auto atoms = atoms_of(both, why);
  TESSERA_CHECK(atoms.has_value(), "plan: ", request.from.placements_text(), " -> ", request.to.placements_text(),
                ": layouts are incompatible: ", why, "; redistribute through a layout without that sharding");
  AtomLayout from = end_over_atoms(request, *atoms, request.from);
  AtomLayout to = end_over_atoms(request, *atoms, request.to);
  return {std::move(*atoms), std::move(from), std::move(to)};
}

Plan make_plan(const PlanRequest& request, const CostModel& model) {
  const PlanEnds ends = read_ends(request);
  const PlanProblem problem = problem_of(request, ends, model);
  auto& [space, search] = workspace();
  space.build(problem);
  Plan plan;
  plan.request = request;
  PlanState before = space.from();
  Layout layout = request.from;
  const std::vector<PathStep>& path = search.run(space);
  plan.is_exact = search.is_exact() && space.has_all_atoms();
  plan.steps.reserve(path.size());
  for (const PathStep& next : path) {
    Step step = make_step(space, ends.atoms, next.cost, before, next.after);
    step.before = layout;
    step.after = &next == &path.back() ? request.to
                                       : from_atoms(ends.atoms, space.to_layout(problem, next.after), request.shape);
    layout = step.after;
    before = next.after;
    plan.nbytes += step.nbytes;
    plan.us += step.us;
    plan.peak_nbytes = std::max(plan.peak_nbytes, step.peak_nbytes);
    plan.steps.push_back(std::move(step));
  }
  if (path.empty()) plan.peak_nbytes = whole(before.numel * space.itemsize());
  return plan;
}

std::optional<Step> make_step(const PlanRequest& request, const CostModel& model) {
  const PlanEnds ends = read_ends(request);
  PlanSpace& space = workspace().space;
  space.build(problem_of(request, ends, model));
  StepCost cost;
  if (!step_cost(space, space.from(), space.to(), cost)) return std::nullopt;
  Step step = make_step(space, ends.atoms, cost, space.from(), space.to());
  step.before = request.from;
  step.after = request.to;
  return step;
}

}  // namespace tessera::layout::detail
