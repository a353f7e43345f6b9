// Compares the planner with an exhaustive search on all pairs of layouts up to 3 axes x 3 dimensions. A run compares
// one source layout with every target; a campaign has one run per source. Seeds step through the sources with a long
// stride, so that a few runs cover all sizes.
//
//   planner_oracle_fuzz [--runs N] [--seed FIRST] [--seconds LIMIT]
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "tessera/base/testing/fuzz.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/layout/planner.h"
#include "tessera/layout/testing/exhaustive_planner.h"
#include "tessera/layout/testing/random_requests.h"

namespace tessera::layout::testing {
namespace {

// A mesh, a shape, and every layout by full axes: any order, including partial sums.
struct Family {
  Shape shape;
  std::vector<Layout> layouts;
};

void add_layouts(const Mesh& mesh, std::size_t dims, int axis, const LayoutParts& parts, std::vector<Layout>& layouts) {
  if (axis == mesh.ndim()) {
    layouts.push_back(Layout::create(mesh, parts));
    return;
  }
  const SubAxis whole{axis, 1, mesh.axis(axis).size};
  add_layouts(mesh, dims, axis + 1, parts, layouts);
  LayoutParts partial = parts;
  partial.partials.push_back({whole, Reduction::kSum});
  add_layouts(mesh, dims, axis + 1, partial, layouts);
  for (std::size_t d = 0; d < dims; ++d) {
    for (std::size_t place = 0; place <= parts.dims[d].shardings.size(); ++place) {
      LayoutParts sharding = parts;
      auto& shardings = sharding.dims[d].shardings;
      shardings.insert(shardings.begin() + static_cast<std::ptrdiff_t>(place), Sharding{whole, 1});
      add_layouts(mesh, dims, axis + 1, sharding, layouts);
    }
  }
}

std::vector<Family> make_families() {
  std::vector<Family> families;
  const char* const meshes[] = {"x=2", "x=2,y=2", "x=2,y=3@network", "x=2,y=2,z=2", "x=2,y=3,z=2@network"};
  // Latency dominates, both matter, bandwidth dominates; and a size that no axis divides.
  const std::int64_t sizes[] = {12, 144, 1728, 13};
  for (const char* text : meshes) {
    const Mesh mesh = Mesh::parse(text);
    for (std::size_t dims = 1; dims <= 3; ++dims) {
      Family family;
      LayoutParts none;
      none.dims.resize(dims);
      add_layouts(mesh, dims, 0, none, family.layouts);
      const std::int64_t size = sizes[families.size() % 4];
      family.shape = Shape(std::span<const std::int64_t>(std::vector<std::int64_t>(dims, size)));
      families.push_back(std::move(family));
    }
  }
  return families;
}

std::string check_source(const Family& family, const Layout& from, std::int64_t itemsize) {
  const CostModel model;
  Planner planner(model);
  const detail::Atoms atoms = [&] {
    std::string why;
    return *detail::atoms_of(std::span(&from, 1), why);
  }();
  const auto over_atoms = [&](const Layout& layout) {
    std::string why;
    return *detail::to_atoms(atoms, layout, family.shape, why);
  };
  // Targets with equal partial axes and equal budgets share a search.
  std::map<std::pair<std::string, std::int64_t>, std::vector<Layout>> groups;
  for (const Layout& to : family.layouts) {
    std::string partials;
    for (const PartialAxis& partial : to.partials()) partials += std::to_string(partial.by.axis) + " ";
    const std::int64_t budget =
        std::max(largest_local_numel(from, family.shape), largest_local_numel(to, family.shape)) * itemsize;
    groups[{partials, budget}].push_back(to);
  }
  for (const auto& [key, targets] : groups) {
    std::vector<detail::AtomLayout> ends;
    for (const Layout& to : targets) ends.push_back(over_atoms(to));
    const auto costs = exhaustive_costs(atoms, over_atoms(from), ends, family.shape, itemsize, key.second, model);
    for (std::size_t i = 0; i < targets.size(); ++i) {
      const PlanRequest request{.from = from, .to = targets[i], .shape = family.shape, .itemsize = itemsize};
      const auto plan = planner.plan(request);
      if (std::abs(plan->us - costs[i]) > 1e-5 + 1e-9 * costs[i])
        return fmt::format("{}\n{} us, the optimum is {}\n{}", pair_text(request), plan->us, costs[i], plan->text());
    }
  }
  return {};
}

std::string check_one(std::uint64_t seed) {
  static const std::vector<Family> families = make_families();
  std::uint64_t total = 0;
  for (const Family& family : families) total += family.layouts.size();
  constexpr std::uint64_t kStride = 7919;  // a prime: visits each source once
  std::uint64_t index = seed * kStride % total;
  for (const Family& family : families) {
    if (index < family.layouts.size()) return check_source(family, family.layouts[index], seed % 2 == 0 ? 4 : 4096);
    index -= family.layouts.size();
  }
  return {};
}

}  // namespace
}  // namespace tessera::layout::testing

int main(int argc, char** argv) {
  return tessera::fuzz::run(argc, argv, "sources, each against every target",
                            [](std::uint64_t seed) { return tessera::layout::testing::check_one(seed); });
}
