#include "tessera/layout/testing/random_requests.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <numeric>
#include <span>
#include <sstream>

#include "tessera/base/error.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/layout/detail/atoms.h"

namespace tessera::layout::testing {
namespace {

std::int64_t below(std::mt19937_64& random, std::int64_t n) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
}
bool chance(std::mt19937_64& random, int percent) { return below(random, 100) < percent; }

Mesh random_mesh(std::mt19937_64& random, const RequestKind& kind) {
  static const char* const kNames[] = {"x", "y", "z", "w", "v", "u"};
  std::vector<AxisSpec> axes;
  const std::int64_t count = kind.min_axes + below(random, kind.max_axes - kind.min_axes + 1);
  for (std::int64_t i = 0; i < count; ++i) {
    AxisSpec axis{.name = kNames[i]};
    const std::int64_t sizes[] = {2, 2, 3, 2, 4, 8};
    axis.size = sizes[below(random, kind.is_small ? (count > 2 ? 3 : 5) : 6)];
    const Link links[] = {Link::kNvlink, Link::kNvlink, Link::kNetwork, Link::kPcie, Link::kMemory};
    axis.link = links[below(random, 5)];
    axes.push_back(axis);
  }
  return Mesh::create(axes);
}

Shape random_shape(std::mt19937_64& random, const Mesh& mesh, const RequestKind& kind) {
  const std::int64_t count = 1 + below(random, kind.max_dims);
  const bool is_uneven = chance(random, kind.uneven_percent);
  std::vector<std::int64_t> dims;
  for (std::int64_t d = 0; d < count; ++d) {
    if (is_uneven) {
      dims.push_back(kind.is_small ? below(random, 12 / count + 2) : 1 + below(random, 5000));
    } else {
      std::int64_t size = kind.is_small ? 1 : std::int64_t{1} << below(random, 7);
      for (const Axis& axis : mesh.axes()) size *= chance(random, kind.is_small ? 70 : 85) ? axis.size : 1;
      dims.push_back(size);
    }
  }
  const std::int64_t most = kind.is_small ? 1500 : std::int64_t{1} << 32;
  while (std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>()) > most)
    *std::max_element(dims.begin(), dims.end()) /= 2;
  return Shape(std::span<const std::int64_t>(dims));
}

// Returns the axes, some of them as two sub-axes.
std::vector<SubAxis> random_parts(std::mt19937_64& random, const Mesh& mesh, bool is_special) {
  std::vector<SubAxis> parts;
  for (int i = 0; i < mesh.ndim(); ++i) {
    const std::int64_t size = mesh.axis(i).size;
    if (is_special && size % 4 == 0 && chance(random, 50)) {
      parts.push_back({i, 1, 2});
      parts.push_back({i, 2, size / 2});
    } else {
      parts.push_back({i, 1, size});
    }
  }
  for (std::size_t i = parts.size(); i > 1; --i)  // std::shuffle differs between libraries
    std::swap(parts[i - 1], parts[static_cast<std::size_t>(below(random, static_cast<std::int64_t>(i)))]);
  return parts;
}

std::shared_ptr<const std::vector<std::int64_t>> random_sizes(std::mt19937_64& random, std::int64_t whole,
                                                              std::int64_t pieces) {
  auto sizes = std::make_shared<std::vector<std::int64_t>>(static_cast<std::size_t>(pieces), 0);
  for (std::int64_t i = 0; i < whole && i < 64; ++i) ++(*sizes)[static_cast<std::size_t>(below(random, pieces))];
  if (whole > 64) sizes->front() += whole - 64;
  return sizes;
}

}  // namespace

Layout random_layout(std::mt19937_64& random, const Mesh& mesh, const Shape& shape, const RequestKind& kind) {
  for (;;) {
    const bool is_special = chance(random, kind.special_percent);
    LayoutParts parts;
    parts.dims.resize(shape.size());
    const Reduction classes[] = {Reduction::kSum, Reduction::kSum, Reduction::kMax, Reduction::kProd, Reduction::kMin};
    const Reduction reduction = classes[below(random, 5)];
    for (const SubAxis& part : random_parts(random, mesh, is_special)) {
      if (chance(random, 60)) {
        const auto d = static_cast<std::size_t>(below(random, static_cast<std::int64_t>(shape.size())));
        DimShardings& dim = parts.dims[d];
        const std::int64_t blocks = is_special && chance(random, 30) ? 2 + below(random, 2) : 1;
        if (is_special && dim.shardings.empty() && blocks == 1 && chance(random, 20))
          dim.sizes = random_sizes(random, shape[d], part.size);
        dim.shardings.push_back({part, blocks});
      } else if (chance(random, kind.partial_percent)) {
        const bool is_avg = reduction == Reduction::kSum && chance(random, 30);
        parts.partials.push_back({part, is_avg ? Reduction::kAvg : reduction});
      }
    }
    try {
      Layout layout = Layout::create(mesh, parts);
      check_fits(layout, shape);
      return layout;
    } catch (const Error&) {
      continue;  // for example, blocks that do not divide
    }
  }
}

PlanRequest random_request(std::uint64_t seed, const RequestKind& kind) {
  std::mt19937_64 random(seed * 0x9e3779b97f4a7c15U + 1);
  for (;;) {
    const Mesh mesh = random_mesh(random, kind);
    PlanRequest request;
    request.shape = random_shape(random, mesh, kind);
    request.from = random_layout(random, mesh, request.shape, kind);
    request.to = random_layout(random, mesh, request.shape, kind);
    if (request.from == request.to) continue;
    std::string why;
    const Layout both[] = {request.from, request.to};
    const auto atoms = detail::atoms_of(both, why);
    if (!atoms || static_cast<int>(atoms->list.size()) > kind.max_axes) continue;
    if (!detail::to_atoms(*atoms, request.from, request.shape, why)) continue;
    if (!detail::to_atoms(*atoms, request.to, request.shape, why)) continue;
    return request;
  }
}

std::vector<PlanRequest> draw_published_pairs() {
  std::vector<PlanRequest> pairs;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    RequestKind kind;
    kind.min_axes = kind.max_axes = seed < 100 ? 1 : seed < 600 ? 2 : seed < 1200 ? 3 : 4;
    kind.max_dims = 4;
    kind.is_small = false;
    kind.uneven_percent = 10;
    kind.special_percent = 10;
    pairs.push_back(random_request(seed, kind));
  }
  return pairs;
}

std::string pair_text(const PlanRequest& request) {
  std::string shape;
  for (const std::int64_t size : request.shape) shape += (shape.empty() ? "" : "x") + std::to_string(size);
  return request.from.mesh().text() + " " + shape + " " + request.from.placements_text() + " -> " +
         request.to.placements_text();
}

PlanRequest parse_pair(const std::string& line) {
  const std::size_t mesh_end = line.find(' ');
  const std::size_t shape_end = line.find(' ', mesh_end + 1);
  const std::size_t arrow = line.find(" -> ");
  TESSERA_CHECK(arrow != std::string::npos && shape_end < arrow, "no pair of layouts: ", line);
  const Mesh mesh = Mesh::parse(line.substr(0, mesh_end));
  std::vector<std::int64_t> dims;
  std::istringstream sizes(line.substr(mesh_end + 1, shape_end - mesh_end - 1));
  for (std::string size; std::getline(sizes, size, 'x');) dims.push_back(std::stoll(size));
  PlanRequest request;
  request.shape = Shape(std::span<const std::int64_t>(dims));
  request.from = Layout::parse(mesh, line.substr(shape_end + 1, arrow - shape_end - 1));
  request.to = Layout::parse(mesh, line.substr(arrow + 4));
  return request;
}

std::string published_pairs_path() { return TESSERA_TREE "/tessera/layout/testdata/redistribution_pairs.txt"; }

std::vector<PlanRequest> load_published_pairs() {
  const std::string path = published_pairs_path();
  std::ifstream file(path);
  TESSERA_CHECK_AS(IoError, file.good(), "cannot read ", path);
  std::vector<PlanRequest> pairs;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') pairs.push_back(parse_pair(line));
  }
  return pairs;
}

}  // namespace tessera::layout::testing
