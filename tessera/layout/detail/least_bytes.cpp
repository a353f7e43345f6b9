// Computes min_nbytes() of planner.h: the minimum that one rank receives
// over the few forms of a plan with minimal bytes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tessera/layout/detail/make_plan.h"
#include "tessera/layout/detail/plan_space.h"
#include "tessera/layout/detail/step_cost.h"
#include "tessera/layout/planner.h"

namespace tessera::layout::detail {
namespace {

using Lists = std::vector<std::uint16_t>;

class LeastBytes {
 public:
  explicit LeastBytes(const PlanSpace& space) : space_(space) {}

  double numel() {
    const Lists from(space_.from().lists, space_.from().lists + space_.dims());
    const Lists to(space_.to().lists, space_.to().lists + space_.dims());
    const Mask zero_fill = space_.sum_finals() & ~mask_of(to);
    each_extension(to, zero_fill, false, [&](const Lists& target) { targets_.push_back(target); });
    double least = std::numeric_limits<double>::infinity();
    const Mask free = space_.all() & ~space_.pending() & ~mask_of(from);
    if (space_.pending() == 0) {
      // Slices come first only to make room for a zero-fill.
      each_extension(from, zero_fill == 0 ? 0 : free, false, [&](const Lists& sliced) {
        each_filled(sliced, zero_fill,
                    [&](const Lists& source, Mask filled) { least = std::min(least, exchange(source, filled)); });
      });
      return least;
    }
    const double ranks = space_.group(space_.pending()).ranks;
    each_extension(from, free, false, [&](const Lists& sliced) {
      const double reduced = std::ceil(space_.numel(sliced.data()) / ranks);
      least = std::min(least, 2 * (ranks - 1) * reduced + exchange(sliced, 0));
      each_extension(sliced, space_.pending(), true, [&](const Lists& scattered) {
        least = std::min(least, (ranks - 1) * space_.numel(scattered.data()) + exchange(scattered, 0));
      });
    });
    return least;
  }

 private:
  [[nodiscard]] Mask mask_of(const Lists& lists) const {
    Mask mask = 0;
    for (const std::uint16_t list : lists) mask |= space_.list(list).mask;
    return mask;
  }

  // Returns the bytes to the target, or to a state that is split where the target is a partial sum, before a zero-fill.
  [[nodiscard]] double exchange(const Lists& from, Mask filled) const {
    const PlanState a{from.data(), space_.numel(from.data()), 0};
    double least = std::numeric_limits<double>::infinity();
    for (const Lists& to : targets_) {
      if ((mask_of(to) & filled) != 0) continue;
      least = std::min(least, lacking_numel(space_, a, {to.data(), space_.numel(to.data()), 0}));
    }
    return least;
  }

  // Calls `body` once for each way to append some (or all) of these atoms to the lists.
  template <class Body>
  void each_extension(const Lists& lists, Mask atoms, bool needs_all, const Body& body) {
    Lists current = lists;
    extend(current, 0, atoms, needs_all, body);
  }
  template <class Body>
  void extend(Lists& current, std::size_t dim, Mask atoms, bool needs_all, const Body& body) {
    if (dim == current.size()) {
      if (!needs_all || atoms == 0) body(current);
      return;
    }
    extend(current, dim + 1, atoms, needs_all, body);
    const std::uint16_t before = current[dim];
    const ShardingList& list = space_.list(before);
    for (int token = 1; token < space_.token_count(); ++token) {
      const int bit = space_.token(token).bit;
      if ((atoms >> bit & 1) == 0) continue;
      const std::uint64_t word = list.word | static_cast<std::uint64_t>(token) << (4 * list.size);
      const int longer = space_.find_list(static_cast<int>(dim), word);
      if (longer == 0) continue;  // this split is not allowed there
      current[dim] = static_cast<std::uint16_t>(longer);
      extend(current, dim, atoms & ~(Mask{1} << bit), needs_all, body);
      current[dim] = before;
    }
  }

  // Calls `body` for the lists without some last splits that a zero-fill removes.
  template <class Body>
  void each_filled(const Lists& lists, Mask zero_fill, const Body& body) {
    Lists current = lists;
    fill(current, 0, zero_fill, 0, body);
  }
  template <class Body>
  void fill(Lists& current, std::size_t dim, Mask zero_fill, Mask filled, const Body& body) {
    if (dim == current.size()) {
      if (space_.numel(current.data()) <= space_.max_numel()) body(current, filled);
      return;
    }
    const std::uint16_t before = current[dim];
    for (;;) {
      fill(current, dim + 1, zero_fill, filled, body);
      const ShardingList& list = space_.list(current[dim]);
      if (list.size == 0) break;
      const Mask last = Mask{1} << space_.token(list.last).bit;
      if ((last & zero_fill) == 0) break;
      filled |= last;
      current[dim] = static_cast<std::uint16_t>(list.parent);
    }
    current[dim] = before;
  }

  const PlanSpace& space_;
  std::vector<Lists> targets_;
};

}  // namespace
}  // namespace tessera::layout::detail

namespace tessera::layout {

std::int64_t min_nbytes(const PlanRequest& request) {
  const detail::PlanEnds ends = detail::read_ends(request);
  const CostModel model;
  detail::PlanSpace space;
  space.build({ends.atoms, ends.from, ends.to, request.shape, request.itemsize, request.budget_nbytes, model});
  return static_cast<std::int64_t>(std::min(0x1p62, std::ceil(detail::LeastBytes(space).numel() * space.itemsize())));
}

}  // namespace tessera::layout
