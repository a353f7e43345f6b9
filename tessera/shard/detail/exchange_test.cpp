// Exchanges against brute force: every element of every new shard must arrive exactly once, from a rank that holds it,
// and both sides of a message must list the same elements in the same order.
#include "tessera/shard/detail/exchange.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tessera/base/error.h"
#include "tessera/layout/testing/random_requests.h"
#include "tessera/shard/detail/compiled_plan.h"
#include "tessera/shard/groups.h"

namespace tessera::shard::detail {
namespace {

using layout::IndexMap;
using layout::Layout;
using layout::Mesh;
using Indices = std::vector<std::int64_t>;

// Returns the local indices of both sides of a run, in order.
std::vector<std::pair<std::int64_t, std::int64_t>> listed(const CommonRun& run) {
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  for (std::int64_t i = 0; i < run.count; ++i) {
    for (std::int64_t j = 0; j < run.length; ++j) {
      out.emplace_back(run.from + i * run.from_stride + j, run.to + i * run.to_stride + j);
    }
  }
  return out;
}

// Returns the global numbers of the elements of a shard, in order.
Indices elements_of(const ShardMaps& part, const Shape& shape) {
  Indices out = {0};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    Indices longer;
    for (const std::int64_t before : out) {
      for (std::int64_t i = 0; i < part[d].size(); ++i) longer.push_back(before * shape[d] + part[d].global(i));
    }
    out = std::move(longer);
  }
  return out;
}

// Returns the flat indices in both shards of a chunk, in order.
std::vector<std::pair<std::int64_t, std::int64_t>> listed(const Chunk& chunk, const Shape& from, const Shape& to) {
  std::vector<std::pair<std::int64_t, std::int64_t>> out = {{0, 0}};
  for (std::size_t d = 0; d < chunk.dims.size(); ++d) {
    std::vector<std::pair<std::int64_t, std::int64_t>> longer;
    for (const auto& [f, t] : out) {
      for (const auto& [i, j] : listed(chunk.dims[d])) longer.emplace_back(f * from[d] + i, t * to[d] + j);
    }
    out = std::move(longer);
  }
  return out;
}

// Returns the fault of the exchange among all ranks of the mesh; empty if it is correct.
std::string check_exchange(const GroupShards& parts, const Shape& shape, const std::vector<Exchange>& sides) {
  const std::size_t ranks = sides.size();
  for (std::size_t taker = 0; taker < ranks; ++taker) {
    const Indices wanted = elements_of(parts.after[taker], shape);
    const Indices before = elements_of(parts.before[taker], shape);
    const std::set<std::int64_t> own(before.begin(), before.end());
    std::map<std::int64_t, std::int64_t> got;  // index in the shard -> element
    for (std::size_t from = 0; from < ranks; ++from) {
      if (sides[from].sends[taker] != sides[taker].receives[from]) return "the sides of a message differ";
      const Indices held = elements_of(parts.before[from], shape);
      for (const Chunk& chunk : sides[taker].receives[from]) {
        for (const auto& [f, t] : listed(chunk, shape_of(parts.before[from]), shape_of(parts.after[taker]))) {
          if (f < 0 || f >= static_cast<std::int64_t>(held.size())) return "an element that the sender has not";
          const std::int64_t element = held[static_cast<std::size_t>(f)];
          if (!got.emplace(t, element).second) return "an element that comes twice";
          if (from != taker && own.contains(element)) return "an element that it has itself comes from another";
        }
      }
    }
    if (got.size() != wanted.size()) return "elements are missing";
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (got.at(static_cast<std::int64_t>(i)) != wanted[i]) return "another element than the new part has there";
    }
  }
  return {};
}

std::vector<Exchange> all_sides(const GroupShards& parts) {
  std::vector<Exchange> sides;
  for (std::size_t place = 0; place < parts.before.size(); ++place)
    sides.push_back(exchange_of(parts, static_cast<int>(place)));
  return sides;
}

GroupShards parts_on(const Layout& before, const Layout& after, const Shape& shape) {
  layout::Step step;
  step.before = before;
  step.after = after;
  std::vector<Rank> ranks;
  for (std::int64_t i = 0; i < before.mesh().size(); ++i) ranks.push_back(before.mesh().ranks().at(i));
  return group_shards(step, shape, ranks);
}

TEST(CommonRuns, AreWhatBothMapsHold) {
  // Maps of all kinds: a dimension of 12 or 24 that is cut twice, with or without blocks.
  const Mesh mesh = Mesh::parse("a=2,b=3");
  for (const std::int64_t size : {1, 5, 6, 12, 20, 24}) {
    std::vector<IndexMap> maps;
    for (const char* text : {"R,R", "S0,R", "R,S0", "{Shard(0, blocks=2), Replicate()}",
                             "{Shard(0, blocks=3), Replicate()}", "{Replicate(), Shard(0, blocks=2)}"}) {
      const Layout layout = Layout::parse(mesh, text);
      if (text[0] == '{' && size % 6 != 0) continue;
      for (int rank = 0; rank < 6; ++rank) maps.push_back(index_map(layout, Shape{size}, 0, Rank(rank)));
    }
    for (const std::int64_t blocks : {1, 2, 3}) {
      for (const std::int64_t inner : {1, 2}) {
        for (const bool swapped : {false, true}) {
          layout::LayoutParts shardings;
          shardings.dims.resize(1);
          shardings.dims[0].shardings = {{{swapped ? 1 : 0, 1, swapped ? 3 : 2}, blocks},
                                         {{swapped ? 0 : 1, 1, swapped ? 2 : 3}, inner}};
          try {
            const Layout layout = Layout::create(mesh, shardings);
            for (int rank = 0; rank < 6; ++rank) maps.push_back(index_map(layout, Shape{size}, 0, Rank(rank)));
          } catch (const Error&) {
            continue;  // blocks do not divide
          }
        }
      }
    }
    for (const IndexMap& from : maps) {
      for (const IndexMap& to : maps) {
        std::vector<std::pair<std::int64_t, std::int64_t>> got;
        for (const CommonRun& run : common_runs(from, to)) {
          for (const auto& pair : listed(run)) got.push_back(pair);
        }
        std::vector<std::pair<std::int64_t, std::int64_t>> want;
        for (std::int64_t i = 0; i < from.size(); ++i) {
          if (const auto local = to.local(from.global(i))) want.emplace_back(i, *local);
        }
        ASSERT_EQ(got, want);
      }
    }
  }
}

TEST(CommonRuns, OfEvenCutsAreOneEntry) {
  const Mesh mesh = Mesh::parse("x=4");
  const auto map = [&](const char* text, int rank) {
    return index_map(Layout::parse(mesh, text), Shape{64}, 0, Rank(rank));
  };
  EXPECT_EQ(common_runs(map("{Shard(0)}", 1), map("{Replicate()}", 1)).size(), 1U);
  const std::vector<CommonRun> blocked = common_runs(map("{Shard(0, blocks=8)}", 1), map("{Replicate()}", 1));
  ASSERT_EQ(blocked.size(), 1U);
  EXPECT_EQ(blocked[0], (CommonRun{0, 2, 2, 8, 2, 8}));
  EXPECT_TRUE(common_runs(map("{Shard(0)}", 1), map("{Shard(0)}", 2)).empty());
}

TEST(Exchange, BringsEveryElementOnceWhateverTheLayouts) {
  layout::testing::RequestKind kind{.max_axes = 3, .uneven_percent = 50, .special_percent = 50, .partial_percent = 0};
  int checked = 0;
  for (std::uint64_t seed = 0; checked < 1500; ++seed) {
    const layout::PlanRequest request = layout::testing::random_request(seed, kind);
    if (request.from.mesh().size() > 12 || request.shape.numel() > 512) continue;
    ++checked;
    const GroupShards parts = parts_on(request.from, request.to, request.shape);
    ASSERT_EQ(check_exchange(parts, request.shape, all_sides(parts)), "") << layout::testing::pair_text(request);
  }
}

TEST(Exchange, OfSmallShapesIsRightForAllPairsOfAMesh) {
  const Mesh mesh = Mesh::parse("a=2,b=2");
  const char* texts[] = {"S0,R",
                         "R,S0",
                         "S0,S0",
                         "S1,S0",
                         "S0,S1",
                         "R,S1",
                         "R,R",
                         "{Shard(0, order=1), Shard(0, order=0)}",
                         "{Shard(0, sizes=1/2), Replicate()}"};
  for (std::int64_t rows = 0; rows <= 5; ++rows) {
    for (std::int64_t columns = 1; columns <= 3; ++columns) {
      const Shape shape{rows, columns};
      for (const char* before : texts) {
        for (const char* after : texts) {
          if (rows != 3 && std::string_view(before).find("sizes") != std::string_view::npos) continue;
          if (rows != 3 && std::string_view(after).find("sizes") != std::string_view::npos) continue;
          const GroupShards parts = parts_on(Layout::parse(mesh, before), Layout::parse(mesh, after), shape);
          ASSERT_EQ(check_exchange(parts, shape, all_sides(parts)), "") << before << " " << after << " " << rows;
        }
      }
    }
  }
}

TEST(Exchange, TakesFromItselfFirstAndDealsTheRestOutEvenly) {
  const Mesh mesh = Mesh::parse("a=2,b=4");
  const GroupShards parts = parts_on(Layout::parse(mesh, "S0,R"), Layout::parse(mesh, "R,R"), Shape{8});
  const std::vector<std::vector<int>> chosen = choose_holders(parts);
  std::vector<int> asked(8);
  for (int taker = 0; taker < 8; ++taker) {
    const std::vector<int>& from = chosen[static_cast<std::size_t>(taker)];
    ASSERT_EQ(from.size(), 2U);
    EXPECT_EQ(from[static_cast<std::size_t>(taker / 4)], taker);
    ++asked[static_cast<std::size_t>(from[static_cast<std::size_t>(1 - taker / 4)])];
  }
  EXPECT_EQ(asked, std::vector<int>(8, 1));
}

TEST(Exchange, ThatIsWrongIsFound) {
  const Mesh mesh = Mesh::parse("x=3");
  const Shape shape{7, 2};
  const GroupShards parts = parts_on(Layout::parse(mesh, "S0"), Layout::parse(mesh, "S1"), shape);
  const std::vector<Exchange> good = all_sides(parts);
  ASSERT_EQ(check_exchange(parts, shape, good), "");
  std::vector<Exchange> bad = good;
  ++bad[1].sends[0][0].dims[0].from;
  EXPECT_NE(check_exchange(parts, shape, bad), "");
  bad = good;
  bad[1].sends[0].clear();
  bad[0].receives[1].clear();
  EXPECT_EQ(check_exchange(parts, shape, bad), "elements are missing");
  bad = good;
  for (Chunk* chunk : {&bad[0].sends[1][0], &bad[1].receives[0][0]}) --chunk->dims[1].from;
  EXPECT_NE(check_exchange(parts, shape, bad), "");
  bad = good;
  bad[2].sends[1] = bad[1].receives[2] = bad[0].sends[1];
  EXPECT_NE(check_exchange(parts, shape, bad), "");
}

TEST(MergeCopies, MakesOneOfCopiesAtEqualDistances) {
  const auto chunk = [](std::int64_t to) { return Chunk{{CommonRun{0, 0, 4}, CommonRun{0, to, 2}}}; };
  std::vector<RegionCopy> copies;
  for (std::int64_t p = 0; p < 3; ++p) copies.push_back(region_copy(chunk(2 * p), Shape{4, 2}, 8 * p, Shape{4, 6}, 0));
  merge_copies(copies);
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(copies[0].from.shape, (Shape{3, 4, 2}));
  EXPECT_EQ(copies[0].from.strides, (Strides{8, 2, 1}));
  EXPECT_EQ(copies[0].to.strides, (Strides{2, 6, 1}));
}

// Shards of a dimension on four ranks: in order, in blocks, with explicit sizes.
std::vector<IndexMap> some_maps(std::int64_t size) {
  const Mesh mesh = Mesh::parse("x=4");
  std::vector<IndexMap> maps;
  for (int kind = 0; kind < 3; ++kind) {
    layout::LayoutParts parts = Layout::parse(mesh, "S0").parts();
    if (kind == 1) parts.dims[0].shardings[0].blocks = 3;
    if (kind == 2) {
      parts.dims[0].sizes =
          std::make_shared<const std::vector<std::int64_t>>(std::vector<std::int64_t>{1, 0, size - 3, 2});
    }
    const Layout layout = Layout::create(mesh, std::move(parts));
    for (int rank = 0; rank < 4; ++rank) maps.push_back(index_map(layout, Shape({size}), 0, Rank(rank)));
  }
  return maps;
}

TEST(MovedRuns, LeadWhereTheySayFromAnyPartToAnyOther) {
  using tensor::MovedRun;
  struct Move {
    std::vector<MovedRun> runs;
    std::int64_t to_size;
    bool is_reversed;
  };
  constexpr std::int64_t kSize = 15;
  const std::vector<Move> moves = {
      {{{.length = kSize}}, kSize, true},
      {{{.from = 0, .to = 4, .length = 11}, {.from = 11, .to = 0, .length = 4}}, kSize, false},
      {{{.from = 0, .to = 4, .length = 11}, {.from = 11, .to = 0, .length = 4}}, kSize, true},
      {{{.from = 2, .to = 0, .length = 9}}, 9, false},
      {{{.from = 1, .to = 0, .length = 6, .from_step = 2}}, 6, false},
      {{{.from = 0, .to = 5, .length = kSize, .from_step = 1, .to_step = 3}}, 48, false},
      {{{.from = 0, .to = 7, .length = kSize}}, 24, true},
  };
  for (std::size_t m = 0; m < moves.size(); ++m) {
    const Move& move = moves[m];
    for (const IndexMap& from : some_maps(kSize)) {
      for (const IndexMap& to : some_maps(move.to_size)) {
        std::map<std::int64_t, std::int64_t> want;  // index in the new shard -> index in the old one
        for (const MovedRun& run : move.runs) {
          for (std::int64_t i = 0; i < run.length; ++i) {
            const auto at = from.local(run.from + i * run.from_step);
            const auto goes_to =
                to.local(move.is_reversed ? move.to_size - 1 - run.to - i * run.to_step : run.to + i * run.to_step);
            if (at && goes_to) want[move.is_reversed ? to.size() - 1 - *goes_to : *goes_to] = *at;
          }
        }
        std::map<std::int64_t, std::int64_t> got;
        for (const CommonRun& run : moved_runs(from, to, move.runs, move.is_reversed ? move.to_size : -1)) {
          EXPECT_TRUE(run.count == 1 || (run.from_stride > 0 && run.to_stride > 0)) << m;
          for (const auto& [f, t] : listed(run)) EXPECT_TRUE(got.emplace(t, f).second) << m;
        }
        EXPECT_EQ(got, want) << m;
      }
    }
  }
}

}  // namespace
}  // namespace tessera::shard::detail
