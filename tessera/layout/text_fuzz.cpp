// Randomly corrupted texts of random meshes and layouts: each is read, or rejected with InvalidArgument. An accepted
// text prints a text that gives the same object.
//   layout_text_fuzz [--runs N] [--seed S] [--seconds T]
#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/base/testing/fuzz.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/layout/testing/layout_model.h"

namespace tessera::layout {
namespace {

using tessera::detail::concat;
using testing::pick;
using testing::Random;

// Pieces of the grammar, extreme numbers, and invalid bytes.
constexpr std::string_view kPieces[] = {"S0",
                                        "S(1)",
                                        "R",
                                        "P",
                                        "P(max)",
                                        "Shard(0)",
                                        "Replicate()",
                                        "Partial(avg)",
                                        "2:",
                                        "*",
                                        ",",
                                        ", ",
                                        "{",
                                        "}",
                                        "(",
                                        ")",
                                        "order=0",
                                        "order=1",
                                        "blocks=2",
                                        "sizes=",
                                        "1/2",
                                        "/",
                                        "0",
                                        "1",
                                        "2147483648",
                                        "2147483647",
                                        "4294967296",
                                        "=",
                                        ":",
                                        "@network",
                                        "@pcie",
                                        "+",
                                        "8+",
                                        " ",
                                        "\t",
                                        "\n",
                                        "{backend=x}",
                                        "{a=1,b=2}",
                                        "x=2",
                                        "dp=4:1",
                                        "-1",
                                        "1e9",
                                        "99999999999",
                                        "\xff",
                                        "\xc3\xa9",
                                        "Shard(63)",
                                        "S64",
                                        "0x10",
                                        "4611686018427387904",
                                        "9223372036854775807",
                                        "18446744073709551616",
                                        "1:S0*1:R*",
                                        "abs",
                                        std::string_view("\0", 1)};

std::string spoilt(std::string text, Random& random) {
  for (std::int64_t i = pick(random, 1, 4); i > 0; --i) {
    const auto at = static_cast<std::size_t>(pick(random, 0, static_cast<std::int64_t>(text.size())));
    const auto length = static_cast<std::size_t>(pick(random, 0, 4));
    switch (random() % 5) {
      case 0: text.erase(at, length); break;
      case 1: text.insert(at, kPieces[random() % std::size(kPieces)]); break;
      case 2: text.replace(at, std::min(length, text.size() - at), kPieces[random() % std::size(kPieces)]); break;
      case 3: text.insert(at, text.substr(at / 2, 8)); break;
      default:
        if (at < text.size()) text[at] = static_cast<char>(random() % 256);
    }
  }
  if (random() % 200 == 0) {  // very long
    const std::string more = text;
    while (text.size() < 20'000) text += more + ",";
  }
  return text;
}

std::string check_mesh(const std::string& text) {
  try {
    const Mesh mesh = Mesh::parse(text);
    if (!(Mesh::parse(mesh.text()) == mesh)) return concat("'", text, "' prints as '", mesh.text(), "', another mesh");
    const Rank last = mesh.ranks().at(mesh.size() - 1);
    if (mesh.rank_at(mesh.coordinates(last)) != last) return concat("'", text, "': the last rank is elsewhere");
  } catch (const InvalidArgument& error) {
    if (error.message().empty() || error.message().size() > 2000) return concat("'", text, "': refused at length");
  }
  return {};
}

// Queries an arbitrary layout with shapes that it may not fit.
void use(const Layout& layout, Random& random) {
  constexpr std::int64_t kSizes[] = {0, 1, 6, 24, 1000, std::int64_t{1} << 62};
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < layout.ndim() || i < 2; ++i) sizes.push_back(kSizes[random() % std::size(kSizes)]);
  const Shape shape{std::span<const std::int64_t>(sizes)};
  try {
    const Rank last = layout.mesh().ranks().at(layout.mesh().size() - 1);
    for (int dim = 0; dim < shape.ndim(); ++dim) {
      const IndexMap map = index_map(layout, shape, dim, last);
      if (map.size() > 0) (void)map.local(map.global(map.size() - 1));
    }
    if (!shape.is_empty()) (void)owners(layout, shape, std::vector<std::int64_t>(shape.size(), 0));
    (void)largest_local_numel(layout, shape);
  } catch (const InvalidArgument&) {  // it does not fit
  }
}

std::string check_layout(const Mesh* mesh, const std::string& text, Random& random) {
  try {
    const Layout layout = mesh != nullptr ? Layout::parse(*mesh, text) : Layout::parse(text);
    if (!(Layout::parse(layout.text()) == layout && Layout::parse(layout.mesh(), layout.placements_text()) == layout)) {
      return concat("'", text, "' prints as '", layout.text(), "', another layout");
    }
    use(layout, random);
  } catch (const InvalidArgument& error) {
    if (error.message().empty() || error.message().size() > 4000) return concat("'", text, "': refused at length");
  }
  return {};
}

std::string one(std::uint64_t seed) {
  Random random(seed);
  const testing::ModelledMesh made = testing::random_mesh(random, 1000);
  Mesh mesh = made.mesh;
  if (random() % 2 == 0) {
    std::vector<Axis> axes(mesh.axes().begin(), mesh.axes().end());
    std::vector<AxisSpec> specs;
    for (const Axis& axis : axes) {
      specs.push_back({axis.name, axis.size, static_cast<Link>(random() % 4), {}});
      if (random() % 3 == 0) specs.back().options = {{"backend", "nccl"}, {"a.b-c", "1=2/3"}};
    }
    mesh = Mesh::create(specs);
  }
  const Layout layout = Layout::create(mesh, testing::random_parts(random, mesh, 3));
  for (int i = 0; i < 8; ++i) {
    std::string problem = check_mesh(spoilt(mesh.text(), random));
    if (problem.empty()) problem = check_layout(nullptr, spoilt(layout.text(), random), random);
    if (problem.empty()) problem = check_layout(&mesh, spoilt(layout.placements_text(), random), random);
    if (!problem.empty()) return problem;
  }
  return check_layout(nullptr, layout.text(), random);
}

}  // namespace
}  // namespace tessera::layout

int main(int argc, char** argv) { return tessera::fuzz::run(argc, argv, "texts", tessera::layout::one); }
