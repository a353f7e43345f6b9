#include "tessera/layout/testing/greedy_planner.h"

#include <algorithm>
#include <string>

#include "tessera/base/error.h"
#include "tessera/layout/detail/make_plan.h"
#include "tessera/layout/testing/step_definition.h"

namespace tessera::layout::testing {
namespace {

using detail::AtomDim;
using detail::AtomLayout;
using detail::AtomSharding;

class Greedy {
 public:
  Greedy(const PlanRequest& request, const CostModel& model)
      : request_(request),
        ends_(detail::read_ends(request)),
        setting_{ends_.atoms, request_.shape, request_.itemsize, model},
        current_(ends_.from) {}

  GreedyPlan run() {
    note_part();
    settle();
    for (std::size_t d = 0; d < current_.dims.size(); ++d) {
      while (current_.dims[d].shardings.size() > common(d)) release(d);
    }
    for (std::size_t d = 0; d < current_.dims.size(); ++d) {
      while (current_.dims[d].shardings.size() < ends_.to.dims[d].shardings.size()) {
        AtomLayout next = current_;
        append(next, d);
        take(next);
      }
    }
    for (std::size_t i = 0; i < current_.partials.size(); ++i) {
      if (current_.partials[i] == ends_.to.partials[i]) continue;
      AtomLayout next = current_;
      next.partials[i] = ends_.to.partials[i];
      take(next);
    }
    return plan_;
  }

 private:
  [[nodiscard]] std::size_t common(std::size_t d) const {
    return detail::common_shardings(current_.dims[d], ends_.to.dims[d]);
  }

  void note_part() {
    const auto nbytes = static_cast<std::int64_t>(part_numel(setting_, current_)) * request_.itemsize;
    plan_.largest_part_nbytes = std::max(plan_.largest_part_nbytes, nbytes);
  }

  void take(const AtomLayout& next) {
    const auto step = defined_step(setting_, describe(setting_, current_), describe(setting_, next));
    TESSERA_CHECK(step.has_value(), "the greedy planner took a step that is none");
    plan_.us += step->us;
    current_ = next;
    note_part();
  }

  // Reduces the partial axes: a single axis directly into the next split of the target, otherwise all to replicated.
  void settle() {
    AtomLayout next = current_;
    std::vector<std::int32_t> settled;
    for (std::size_t i = 0; i < next.partials.size(); ++i) {
      if (!next.partials[i] || next.partials[i] == ends_.to.partials[i]) continue;
      next.partials[i].reset();
      settled.push_back(static_cast<std::int32_t>(i));
    }
    if (settled.empty()) return;
    if (settled.size() == 1) {
      for (std::size_t d = 0; d < next.dims.size(); ++d) {
        if (wants_next(d, settled.front())) {
          append(next, d);
          break;
        }
      }
    }
    take(next);
  }

  [[nodiscard]] bool wants_next(std::size_t d, std::int32_t atom) const {
    const std::size_t n = current_.dims[d].shardings.size();
    return common(d) == n && n < ends_.to.dims[d].shardings.size() && ends_.to.dims[d].shardings[n].atom == atom;
  }

  void append(AtomLayout& layout, std::size_t d) const {
    const std::size_t n = layout.dims[d].shardings.size();
    layout.dims[d].shardings.push_back(ends_.to.dims[d].shardings[n]);
    layout.dims[d].sizes = ends_.to.dims[d].sizes;
  }

  // Removes the last split: moves it to its position in another dimension, or drops it.
  void release(std::size_t d) {
    AtomLayout next = current_;
    AtomDim& dim = next.dims[d];
    const std::int32_t atom = dim.shardings[dim.shardings.size() - 1].atom;
    SmallVector<AtomSharding, 6> left;
    for (std::size_t i = 0; i + 1 < dim.shardings.size(); ++i) left.push_back(dim.shardings[i]);
    dim.shardings = left;
    if (left.empty()) dim.sizes = nullptr;
    for (std::size_t other = 0; other < next.dims.size(); ++other) {
      if (other != d && wants_next(other, atom)) {
        append(next, other);
        break;
      }
    }
    take(next);
  }

  PlanRequest request_;
  detail::PlanEnds ends_;
  Setting setting_;
  AtomLayout current_;
  GreedyPlan plan_;
};

}  // namespace

GreedyPlan greedy_plan(const PlanRequest& request, const CostModel& model) { return Greedy(request, model).run(); }

}  // namespace tessera::layout::testing
