// Benchmarks of the layout arithmetic. Ranks and indices change between
// calls, so that branch prediction cannot learn them.
#include <chrono>

#include "tessera/base/testing/bench.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/layout/detail/atoms.h"

namespace tessera::layout {
namespace {

// A tensor on a mesh of three axes, and a walk over ranks and elements.
struct Query {
  Layout layout;
  Shape shape;
  std::int64_t ranks = 0;
  std::uint32_t step = 0;

  Query(const char* mesh, const char* placements, Shape of)
      : layout(Layout::parse(Mesh::parse(mesh), placements)), shape(std::move(of)), ranks(layout.mesh().size()) {}

  Rank next_rank() {
    step = step * 1664525 + 1013904223;
    return Rank(static_cast<std::int32_t>((std::uint64_t{step} * static_cast<std::uint64_t>(ranks)) >> 32));
  }
  std::int64_t next_index(std::size_t dim) {
    step = step * 1664525 + 1013904223;
    return static_cast<std::int64_t>((std::uint64_t{step} * static_cast<std::uint64_t>(shape[dim])) >> 32);
  }
  void box() { bench::do_not_optimize(local_box(layout, shape, next_rank())); }
  void owner() {
    const std::int64_t index[] = {next_index(0), next_index(1), next_index(2)};
    bench::do_not_optimize(owners(layout, shape, index));
  }
};

double nanoseconds(Query& query) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 2000; ++i) {
    query.box();
    query.owner();
  }
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

TESSERA_BENCH(arithmetic) {
  Query even("pp=4,dp=16,tp=8", "S0,S1,S2", {4096, 8192, 512});
  context.measure({.name = "arithmetic", .unit = "us", .ours = [&] { even.box(); }, .must = 0.1});
  Query nested("pp=4,dp=16,tp=8", "S0,S0,S0", {100003, 33, 7});
  context.measure({.name = "arithmetic_nested_uneven", .unit = "us", .ours = [&] { nested.box(); }, .must = 0.1});
  Query blocks("pp=4,dp=16,tp=8", "S0,S(0,blocks=8),S2", {4096, 33, 512});
  context.measure({.name = "index_map_blocks", .unit = "us", .ours = [&] {
                     bench::do_not_optimize(index_map(blocks.layout, blocks.shape, 0, blocks.next_rank()));
                   }});
  context.measure({.name = "owners", .unit = "us", .ours = [&] { even.owner(); }});
}

TESSERA_BENCH(many_ranks) {
  Query few("pp=2,dp=2,tp=2", "S0,R,S2", {4096, 8192, 512});
  Query many("pp=10,dp=1250,tp=8", "S0,R,S2", {4096, 8192, 512});
  context.measure({.name = "ranks_100k_owner",
                   .unit = "x",
                   .ours = [&]() -> double { return nanoseconds(many) / nanoseconds(few); },
                   .must = 2});
}

TESSERA_BENCH(layouts) {
  const Mesh mesh = Mesh::parse("pp=4,dp=16,tp=8");
  context.measure({.name = "layout_create_known", .unit = "us", .ours = [&] {
                     bench::do_not_optimize(Layout::create(mesh, {Shard(0), Shard(1), Replicate()}));
                   }});
  const Layout layout = Layout::create(mesh, {Shard(0), Shard(1), Replicate()});
  context.measure({.name = "layout_parse_known", .unit = "us", .ours = [&] {
                     bench::do_not_optimize(Layout::parse(mesh, "S0,S1,R"));
                   }});
  context.measure({.name = "layout_copy", .unit = "ns", .ours = [&] { bench::do_not_optimize(Layout(layout)); }});
  const Layout both[] = {layout, Layout::parse(mesh, "P,R,2:S0*4:R")};
  const Shape shape{4096, 8192, 512};
  std::string why;
  const detail::Atoms atoms = *detail::atoms_of(both, why);
  const detail::AtomLayout over = *detail::to_atoms(atoms, layout, shape, why);
  context.measure({.name = "to_atoms", .unit = "us", .ours = [&] {
                     bench::do_not_optimize(detail::to_atoms(atoms, layout, shape, why));
                   }});
  context.measure({.name = "from_atoms_known", .unit = "us", .ours = [&] {
                     bench::do_not_optimize(detail::from_atoms(atoms, over, shape));
                   }});
}

}  // namespace
}  // namespace tessera::layout
