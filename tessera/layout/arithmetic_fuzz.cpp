// Random (shape, mesh, layout) triples: compares all results of the arithmetic on each rank, and the owners of every
// element, with a table that was split index by index (testing/layout_model.h).
//   layout_arithmetic_fuzz [--runs N] [--seed S] [--seconds T]
#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/base/testing/fuzz.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/layout/testing/layout_model.h"

namespace tessera::layout {
namespace {

using tessera::detail::concat;
using testing::Indices;
using testing::OwnershipTable;
using testing::Random;

struct Triple {
  testing::ModelledMesh mesh;
  Layout layout;
  Shape shape;
  OwnershipTable table;
};

// Returns true if the map is canonical: no level can be merged with another or with the run.
bool is_canonical(const IndexMap& map) {
  std::int64_t below = map.block;  // stride of a level that would continue from here
  for (std::size_t i = map.levels.size(); i-- > 0;) {
    const IndexMap::StrideLevel& level = map.levels[i];
    if (level.count < 2 || level.stride == below || map.block < 1) return false;
    below = level.stride * level.count;
  }
  return true;
}

std::string check_map(const IndexMap& map, const Indices& held, std::int64_t size) {
  if (!is_canonical(map)) return "the map is not canonical";
  if (map.size() != static_cast<std::int64_t>(held.size())) return "the map has another size";
  if (held.empty() && map.offset != size) return "an empty map does not lie at the end";
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (map.global(static_cast<std::int64_t>(i)) != held[i]) return concat("local index ", i, " is another index");
  }
  std::size_t found = 0;
  for (std::int64_t i = -1; i <= size; ++i) {
    const auto local = map.local(i);
    if (!local) continue;
    ++found;
    if (*local < 0 || *local >= map.size() || held[static_cast<std::size_t>(*local)] != i) {
      return concat("index ", i, " has another local index");
    }
  }
  return found == held.size() ? "" : "not every index has its local one";
}

std::string check_rank(const Triple& triple, std::size_t place) {
  const Rank rank(static_cast<std::int32_t>(triple.mesh.model.places[place].rank));
  const auto& held = triple.table.held[place];
  const Shape local = local_shape(triple.layout, triple.shape, rank);
  bool is_box = true;
  Box expected;
  for (std::size_t d = 0; d < triple.shape.size(); ++d) {
    const auto length = static_cast<std::int64_t>(held[d].size());
    if (local[d] != length) return concat("rank ", rank, ": local shape ", local, ", dimension ", d, " is ", length);
    const IndexMap map = index_map(triple.layout, triple.shape, static_cast<int>(d), rank);
    const std::string problem = check_map(map, held[d], triple.shape[d]);
    if (!problem.empty()) return concat("rank ", rank, ", dimension ", d, ": ", problem);
    is_box = is_box && (length == 0 || held[d].back() - held[d].front() + 1 == length);
    expected.offset.push_back(length == 0 ? triple.shape[d] : held[d].front());
    expected.size.push_back(length);
  }
  try {
    const Box box = local_box(triple.layout, triple.shape, rank);
    if (!is_box) return concat("rank ", rank, " holds runs, but has box ", box.text());
    if (!(box == expected)) return concat("rank ", rank, ": box ", box.text(), ", not ", expected.text());
  } catch (const InvalidArgument&) {
    if (is_box) return concat("rank ", rank, " holds box ", expected.text(), " and has none");
  }
  return {};
}

bool holds(const Triple& triple, std::size_t place, const std::vector<std::int64_t>& index) {
  for (std::size_t d = 0; d < index.size(); ++d) {
    const Indices& held = triple.table.held[place][d];
    if (std::find(held.begin(), held.end(), index[d]) == held.end()) return false;
  }
  return true;
}

// Checks that the owners of an element are the ranks that hold it, ordered by coordinates.
std::string check_element(const Triple& triple, const std::vector<std::int64_t>& index) {
  const RankSet ranks = owners(triple.layout, triple.shape, index);
  std::int64_t next = 0;
  for (std::size_t place = 0; place < triple.mesh.model.places.size(); ++place) {
    const Rank rank(static_cast<std::int32_t>(triple.mesh.model.places[place].rank));
    const bool is_owner = holds(triple, place, index);
    if (ranks.place_of(rank) != (is_owner ? next : -1)) {
      return concat("element ", index, ": rank ", rank, is_owner ? " holds it" : " does not hold it", " and has place ",
                    ranks.place_of(rank), " among its owners");
    }
    if (is_owner && ranks.at(next++) != rank) return concat("element ", index, ": owners in another order");
  }
  return next == ranks.size() && next > 0 ? "" : concat("element ", index, ": ", next, " owners, not ", ranks.size());
}

std::string check_elements(const Triple& triple) {
  if (triple.shape.is_empty()) return {};
  std::vector<std::int64_t> index(triple.shape.size(), 0);
  for (std::int64_t left = triple.shape.numel(); left > 0; --left) {
    std::string problem = check_element(triple, index);
    if (!problem.empty()) return problem;
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < triple.shape[d]) break;
      index[d] = 0;
    }
  }
  return {};
}

std::string check_largest(const Triple& triple) {
  std::int64_t largest = 0;
  for (const auto& held : triple.table.held) {
    std::int64_t numel = 1;
    for (const Indices& list : held) numel *= static_cast<std::int64_t>(list.size());
    largest = std::max(largest, numel);
  }
  const std::int64_t answer = largest_local_numel(triple.layout, triple.shape);
  return answer == largest ? "" : concat("the largest part has ", largest, " elements, not ", answer);
}

std::string check_off_mesh(const Triple& triple, Random& random) {
  for (int i = 0; i < 4; ++i) {
    const Rank rank(static_cast<std::int32_t>(testing::pick(random, -5, 400)));
    bool is_here = false;
    for (const auto& place : triple.mesh.model.places) is_here = is_here || place.rank == rank.value();
    if (triple.mesh.mesh.contains(rank) != is_here) return concat("rank ", rank, " is on the mesh, or is not");
    if (is_here || triple.shape.size() == 0) continue;
    if (local_box(triple.layout, triple.shape, rank).numel() != 0 ||
        !local_shape(triple.layout, triple.shape, rank).is_empty()) {
      return concat("rank ", rank, " is off the mesh and holds something");
    }
  }
  return {};
}

std::string check_mesh(const testing::ModelledMesh& made) {
  if (made.mesh.size() != static_cast<std::int64_t>(made.model.places.size())) return "the mesh has another size";
  for (std::size_t i = 0; i < made.model.places.size(); ++i) {
    const auto& place = made.model.places[i];
    const Rank rank(static_cast<std::int32_t>(place.rank));
    if (!(made.mesh.coordinates(rank) == std::span<const std::int64_t>(place.coordinates))) {
      return concat("rank ", rank, ": other coordinates");
    }
    if (made.mesh.rank_at(place.coordinates) != rank) return concat("coordinates of rank ", rank, ": another rank");
    if (made.mesh.ranks().at(static_cast<std::int64_t>(i)) != rank) return "ranks in another order";
  }
  return Mesh::parse(made.mesh.text()) == made.mesh ? "" : "its text makes another mesh";
}

// Layouts are never freed, so a long campaign draws them from fewer seeds than shapes.
constexpr std::uint64_t kLayouts = 200'000;

std::string one(std::uint64_t seed) {
  Random layout_random(Random(seed)() % kLayouts);
  Random random(seed);
  const int ndim = static_cast<int>(std::min(testing::pick(layout_random, 0, 3), testing::pick(layout_random, 1, 3)));
  Triple triple;
  triple.mesh = testing::random_mesh(layout_random, 60);
  std::string problem = check_mesh(triple.mesh);
  const auto fail = [&](const std::string& what) {
    return concat(what, "; layout ", triple.layout ? triple.layout.text() : triple.mesh.mesh.text(), ", shape ",
                  triple.shape);
  };
  if (!problem.empty()) return fail(problem);
  const LayoutParts parts = testing::random_parts(layout_random, triple.mesh.mesh, ndim);
  triple.layout = Layout::create(triple.mesh.mesh, parts);
  if (!(Layout::parse(triple.layout.text()) == triple.layout)) return fail("its text makes another layout");
  if (!(Layout::create(triple.mesh.mesh, triple.layout.parts()) == triple.layout))
    return fail("parts do not come back");

  const int extra = static_cast<int>(testing::pick(random, 0, 1));
  triple.shape = testing::random_shape(random, parts, ndim + extra, 120);
  for (std::size_t d = 0; d < parts.dims.size(); ++d) {
    if (!parts.dims[d].sizes) continue;
    std::int64_t total = 0;
    for (const std::int64_t size : *parts.dims[d].sizes) total += size;
    if (total == triple.shape[d] || triple.layout.sizes(static_cast<int>(d)).empty()) continue;
    try {
      check_fits(triple.layout, triple.shape);
    } catch (const InvalidArgument&) {
      return {};
    }
    return fail("given sizes that do not add up fit");
  }
  triple.table = testing::ownership(triple.mesh.model, parts, triple.shape);
  try {
    check_fits(triple.layout, triple.shape);
  } catch (const InvalidArgument& error) {
    const bool is_due = !triple.table.divides || !triple.table.keeps_runs;
    return is_due ? "" : fail(concat("refused without need: ", error.message()));
  }
  if (!triple.table.divides || !triple.table.keeps_runs) return fail("blocks do not divide or break runs, but fit");
  for (std::size_t i = 0; i < triple.mesh.model.places.size() && problem.empty(); ++i) problem = check_rank(triple, i);
  if (problem.empty()) problem = check_elements(triple);
  if (problem.empty()) problem = check_largest(triple);
  if (problem.empty()) problem = check_off_mesh(triple, random);
  return problem.empty() ? "" : fail(problem);
}

}  // namespace
}  // namespace tessera::layout

int main(int argc, char** argv) { return tessera::fuzz::run(argc, argv, "triples", tessera::layout::one); }
