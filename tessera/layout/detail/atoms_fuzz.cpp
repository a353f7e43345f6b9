// Converts random layouts of one mesh to common atoms and back: each rank must hold the same elements in each form.
//   layout_atoms_fuzz [--runs N] [--seed S] [--seconds T]
#include "tessera/base/error.h"
#include "tessera/base/testing/fuzz.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/layout/detail/atoms.h"
#include "tessera/layout/testing/layout_model.h"

namespace tessera::layout::detail {
namespace {

using tessera::detail::concat;
using testing::Random;

// Converts split by split, without merging.
Layout spelled_out(const Atoms& atoms, const AtomLayout& layout) {
  LayoutParts parts;
  for (const AtomDim& dim : layout.dims) {
    DimShardings& made = parts.dims.emplace_back();
    for (const AtomSharding& sharding : dim.shardings) {
      made.shardings.push_back({atoms.list[static_cast<std::size_t>(sharding.atom)], sharding.blocks});
    }
    made.sizes = dim.sizes;
  }
  for (std::size_t i = 0; i < layout.partials.size(); ++i) {
    if (layout.partials[i]) parts.partials.push_back({atoms.list[i], *layout.partials[i]});
  }
  return Layout::create(atoms.mesh, parts);
}

std::string compare(const Layout& a, const Layout& b, const Shape& shape) {
  for (std::int64_t i = 0; i < a.mesh().size(); ++i) {
    const Rank rank = a.mesh().ranks().at(i);
    for (int dim = 0; dim < shape.ndim(); ++dim) {
      if (index_map(a, shape, dim, rank) == index_map(b, shape, dim, rank)) continue;
      return concat("rank ", rank, " holds other parts of dimension ", dim, " in ", a.text(), " and ", b.text());
    }
  }
  if (!std::ranges::equal(a.partials(), b.partials())) return concat(a.text(), " and ", b.text(), " are partial");
  return {};
}

// Returns true if some split of the layout is by several atoms, so that it may have no form over them.
bool has_coarse_sharding(const Atoms& atoms, const Layout& layout) {
  for (int dim = 0; dim < layout.ndim(); ++dim) {
    for (const Sharding& sharding : layout.shardings(dim)) {
      if (std::find(atoms.list.begin(), atoms.list.end(), sharding.by) == atoms.list.end()) return true;
    }
  }
  return false;
}

std::string check(const Atoms& atoms, const Layout& layout, const Shape& shape) {
  try {
    check_fits(layout, shape);
  } catch (const InvalidArgument&) {
    return {};
  }
  std::string why;
  const auto made = to_atoms(atoms, layout, shape, why);
  if (!made) {
    return has_coarse_sharding(atoms, layout) && !why.empty() ? "" : concat("no form over atoms of ", layout.text());
  }
  if (made->dims.size() != shape.size() || made->partials.size() != atoms.list.size()) return "other sizes";
  std::string problem = compare(layout, spelled_out(atoms, *made), shape);
  if (!problem.empty()) return problem;
  const Layout back = from_atoms(atoms, *made, shape);
  problem = compare(layout, back, shape);
  if (!problem.empty()) return problem;
  const auto again = to_atoms(atoms, back, shape, why);
  return again && *again == *made ? "" : concat("there and back again is another form of ", layout.text(), ": ", why);
}

std::string one(std::uint64_t seed) {
  Random random(seed);
  const testing::ModelledMesh mesh = testing::random_mesh(random, 40);
  const int ndim = static_cast<int>(testing::pick(random, 1, 3));
  std::vector<LayoutParts> parts;
  std::vector<Layout> layouts;
  for (std::int64_t i = testing::pick(random, 1, 3); i > 0; --i) {
    parts.push_back(testing::random_parts(random, mesh.mesh, ndim));
    layouts.push_back(Layout::create(mesh.mesh, parts.back()));
  }
  std::string why;
  const auto atoms = atoms_of(layouts, why);
  if (!atoms) return why.empty() ? "no atoms, and no reason" : "";
  std::int64_t ranks = 1;
  for (const SubAxis& atom : atoms->list) ranks *= atom.size;
  if (ranks != mesh.mesh.size()) return "the atoms are not the mesh";
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const Shape shape = testing::random_shape(random, parts[i], ndim, 2000);
    for (const Layout& layout : layouts) {
      const std::string problem = check(*atoms, layout, shape);
      if (!problem.empty()) return concat(problem, "; shape ", shape);
    }
  }
  return {};
}

}  // namespace
}  // namespace tessera::layout::detail

int main(int argc, char** argv) { return tessera::fuzz::run(argc, argv, "meshes", tessera::layout::detail::one); }
