// Functions mapped over shards against the same computation on the global tensor: results, gradients for any layout of
// the incoming gradients, and second gradients.
#include "tessera/shard/local_map.h"

#include <gtest/gtest.h>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/pointwise/functions.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/shape/arrange.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/shard/collectives.h"
#include "tessera/shard/scopes.h"
#include "tessera/shard/testing/all_ranks.h"
#include "tessera/shard/trace.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using layout::Mesh;
using testing::counted;
using testing::grid;
using testing::leaf;
using testing::on_grid;
using testing::on_worlds;
using testing::placed;
using testing::Results;
using testing::Whole;
using Tensors = std::vector<Tensor>;

Along tp() { return {grid(), "tp"}; }

struct Case {
  std::string name;
  std::vector<Shape> shapes;
  std::vector<std::string> in;
  std::vector<std::string> out;
  LocalFn fn;
  LocalFn whole;                       // on global tensors
  std::vector<std::string> gradients;  // of the inputs, if the gradients of results are replicated where not sharded
};

Tensor squared(const Tensor& x) { return ops::mul(x, x); }
Tensor half_of(const Tensor& x) { return ops::narrow(x, 0, x.size(0) / 2 * tp().place(), x.size(0) / 2); }

std::vector<Case> pointwise_and_products() {
  return {
      {"a weight that is whole everywhere",
       {{5, 3}, {3}},
       {"S0,R", "R,R"},
       {"S0,R"},
       [](const Tensors& x) -> Tensors { return {ops::mul(squared(x[0]), squared(x[1]))}; },
       [](const Tensors& x) -> Tensors { return {ops::mul(squared(x[0]), squared(x[1]))}; },
       {"S0,R", "P,R"}},
      {"the same on all ranks",
       {{3, 2}},
       {"R,R"},
       {"R,R"},
       [](const Tensors& x) -> Tensors { return {squared(squared(x[0]))}; },
       [](const Tensors& x) -> Tensors { return {squared(squared(x[0]))}; },
       {"R,R"}},
      {"statistics of rows",
       {{3, 5}},
       {"R,S1"},
       {"R,S1"},
       [](const Tensors& x) -> Tensors {
         return {ops::div(x[0], all_reduce(ops::sum(squared(x[0]), {1}, true), tp()))};
       },
       [](const Tensors& x) -> Tensors { return {ops::div(x[0], ops::sum(squared(x[0]), {1}, true))}; },
       {"R,S1"}},
      {"a row-parallel product, summed inside",
       {{3, 4}, {4, 2}},
       {"S0,S1", "R,S0"},
       {"S0,R"},
       [](const Tensors& x) -> Tensors { return {squared(all_reduce(ops::mm(x[0], x[1]), tp()))}; },
       [](const Tensors& x) -> Tensors { return {squared(ops::mm(x[0], x[1]))}; },
       {"S0,S1", "P,S0"}},
      {"a product that is left partial",
       {{3, 4}, {4, 2}},
       {"R,S1", "R,S0"},
       {"R,P"},
       [](const Tensors& x) -> Tensors { return {ops::mm(squared(x[0]), x[1])}; },
       [](const Tensors& x) -> Tensors { return {ops::mm(squared(x[0]), x[1])}; },
       {"R,S1", "R,S0"}},
  };
}

std::vector<Case> talking() {
  return {
      {"work dealt out among replicas",
       {{4, 3}},
       {"R,R"},
       {"R,R"},
       [](const Tensors& x) -> Tensors { return {all_gather(squared(half_of(x[0])), 0, tp())}; },
       [](const Tensors& x) -> Tensors { return {squared(x[0])}; },
       {"R,P"}},
      {"a replica and a part of it",
       {{4, 3}},
       {"R,R"},
       {"R,R", "R,S0"},
       [](const Tensors& x) -> Tensors {
         return {squared(x[0]), squared(half_of(squared(x[0])))};
       },
       [](const Tensors& x) -> Tensors {
         return {squared(x[0]), squared(squared(x[0]))};
       },
       {"R,P"}},
      {"a partial sum, summed inside",
       {{3, 2}},
       {"P,P"},
       {"R,R"},
       [](const Tensors& x) -> Tensors {
         return {squared(all_reduce(x[0], {grid(), {"dp", "tp"}}))};
       },
       [](const Tensors& x) -> Tensors { return {squared(x[0])}; },
       {"R,R"}},
      {"a mean that stays one",
       {{3, 2}, {3, 2}},
       {"R,P(avg)", "R,R"},
       {"R,P(avg)"},
       [](const Tensors& x) -> Tensors { return {ops::mul(x[0], squared(x[1]))}; },
       [](const Tensors& x) -> Tensors { return {ops::mul(x[0], squared(x[1]))}; },
       {"R,R", "R,P"}},
      {"a sum scattered inside",
       {{4, 3}},
       {"R,P"},
       {"R,S0"},
       [](const Tensors& x) -> Tensors { return {squared(reduce_scatter(x[0], 0, tp()))}; },
       [](const Tensors& x) -> Tensors { return {squared(x[0])}; },
       {"R,R"}},
      {"from rows to columns",
       {{4, 8}},
       {"S1,S0"},
       {"S1,S1"},
       [](const Tensors& x) -> Tensors { return {squared(all_to_all(squared(x[0]), 1, 0, tp()))}; },
       [](const Tensors& x) -> Tensors { return {squared(squared(x[0]))}; },
       {"S1,S0"}},
      {"the neighbour's part",
       {{4, 3}},
       {"R,S0"},
       {"R,S0"},
       [](const Tensors& x) -> Tensors {
         return {ops::mul(x[0], permute(squared(x[0]), std::vector<int>{1, 0}, tp()))};
       },
       [](const Tensors& x) -> Tensors { return {ops::mul(x[0], ops::roll(squared(x[0]), {2}, {0}))}; },
       {"R,S0"}},
      {"the first one's part for all",
       {{4, 3}},
       {"R,S0"},
       {"R,S0"},
       [](const Tensors& x) -> Tensors { return {ops::mul(x[0], broadcast(squared(x[0]), 0, tp()))}; },
       [](const Tensors& x) -> Tensors {
         const Tensor first = ops::narrow(squared(x[0]), 0, 0, 2);
         return {ops::mul(x[0], ops::cat(Tensors{first, first}, 0))};
       },
       {"R,S0"}},
  };
}

// Small values, so that fourth powers stay exact.
Whole values(const Shape& shape, std::size_t number) {
  Whole whole = counted(shape, DType::kF64);
  for (double& value : whole.values) value = std::fmod(value + static_cast<double>(number), 5) + 1;
  return whole;
}

// Returns a layout of the gradient of a result: axes that do not shard it are replicated or partial.
Layout gradient_layout_of(const Layout& out, std::uint32_t pending) {
  layout::LayoutParts parts = out.parts();
  std::uint32_t used = 0;
  for (const layout::DimShardings& dim : parts.dims) {
    for (const layout::Sharding& sharding : dim.shardings) used |= 1U << sharding.by.axis;
  }
  parts.partials.clear();
  for (int a = 0; a < out.mesh().ndim(); ++a) {
    if ((pending & ~used) >> a & 1U) parts.partials.push_back({{a, 1, out.mesh().axis(a).size}});
  }
  return Layout::create(out.mesh(), parts);
}

struct Computed {
  Tensors results;
  Tensors gradients;
  Tensors second;
};

Computed differentiate(const LocalFn& fn, const Tensors& inputs,
                       const std::function<Tensor(const Tensor&, std::size_t)>& like) {
  Computed out;
  out.results = fn(inputs);
  Tensors given;
  for (std::size_t o = 0; o < out.results.size(); ++o) given.push_back(like(out.results[o], 10 + o));
  out.gradients = autograd::gradients(out.results, inputs, given, {.create_graph = true});
  Tensors directions;
  for (std::size_t i = 0; i < inputs.size(); ++i) directions.push_back(like(out.gradients[i], 20 + i));
  out.second = autograd::gradients(out.gradients, inputs, directions, {.allow_unused = true});
  return out;
}

constexpr std::size_t kPerRun = 16;  // numbers of results per combination of partial axes

// Adds results, gradients and second gradients of one run.
void run_case(const Case& each, std::uint32_t pending, Results& results) {
  std::vector<Layout> in;
  std::vector<Layout> out;
  for (const std::string& text : each.in) in.push_back(on_grid(text));
  for (const std::string& text : each.out) out.push_back(on_grid(text));
  Tensors xs;
  for (std::size_t i = 0; i < in.size(); ++i) xs.push_back(leaf(placed(values(each.shapes[i], i), in[i])));
  const LocalMap map = local_map(each.fn, in, out);
  const auto like = [&](const Tensor& of, std::size_t n) {
    return placed(values(of.shape(), n), gradient_layout_of(of.layout(), n < 20 ? pending : 0));
  };
  const Computed got = differentiate([&](const Tensors& x) { return map(x); }, xs, like);
  std::size_t number = kPerRun * pending;
  for (const Tensor& result : got.results) results.hand_in(number++, result);
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (pending == 0) {
      EXPECT_EQ(got.gradients[i].layout(), on_grid(each.gradients[i])) << i;
    }
    results.hand_in(number++, got.gradients[i]);
    if (got.second[i]) results.hand_in(number, got.second[i]);
    ++number;
  }
}

void check_case(const Case& each) {
  SCOPED_TRACE(each.name);
  constexpr std::uint32_t kWays = 4;  // partial along neither axis, the first, the second, both
  Results results(4);
  on_worlds(4, {1}, [&] {
    for (std::uint32_t pending = 0; pending < kWays; ++pending) run_case(each, pending, results);
  });
  Tensors xs;
  for (std::size_t i = 0; i < each.in.size(); ++i) xs.push_back(leaf(testing::plain(values(each.shapes[i], i))));
  const auto like = [](const Tensor& of, std::size_t n) { return testing::plain(values(of.shape(), n)); };
  const Computed want = differentiate(each.whole, xs, like);
  ops::testing::wait_for_work();
  const auto compare = [&](const char* what, std::size_t number, const Tensor& wanted) {
    const Whole got = results.whole(number);
    EXPECT_EQ(ops::testing::difference(got, ops::testing::read(wanted), 1e-9, results.layout(number)), "")
        << what << ", pending " << number / kPerRun;
  };
  for (std::uint32_t pending = 0; pending < kWays; ++pending) {
    std::size_t number = kPerRun * pending;
    for (const Tensor& result : want.results) compare("result", number++, result);
    for (std::size_t i = 0; i < each.in.size(); ++i) {
      compare("gradient", number++, want.gradients[i]);
      if (want.second[i]) compare("second gradient", number, want.second[i]);
      ++number;
    }
  }
}

TEST(LocalMap, DoesToThePartsWhatWouldBeDoneToTheWhole) {
  for (const Case& each : pointwise_and_products()) check_case(each);
}

TEST(LocalMap, IsDifferentiatedRightWhateverTheFunctionTalksBy) {
  for (const Case& each : talking()) check_case(each);
}

TEST(LocalMap, SendsNothingInBackwardOfItsOwn) {
  simulate(4, [] {
    const Tensor x = leaf(placed(values({4, 3}, 0), on_grid("S0,R")));
    const Tensor w = leaf(placed(values({3}, 1), on_grid("R,R")));
    const auto map = local_map([](const Tensors& in) -> Tensors { return {ops::mul(in[0], in[1])}; },
                               {on_grid("S0,R"), on_grid("R,R")}, {on_grid("S0,R")});
    const ForbidCommunication forbid;
    const Tensor y = map({x, w}, {{x.shape(), x.dtype()}})[0];
    autograd::backward(y, placed(values({4, 3}, 2), on_grid("S0,P")));
    EXPECT_EQ(autograd::grad(x).layout(), on_grid("S0,P"));
    EXPECT_EQ(autograd::grad(w).layout(), on_grid("P,P"));
  });
}

TEST(LocalMap, FindsTheShapeOfTheWhole) {
  on_worlds(4, {1}, [] {
    const Tensor x = placed(values({5, 3}, 0), on_grid("S0,S1"));  // 3 and 2 rows, 2 columns and 1
    const auto doubled = local_map(
        [](const Tensors& in) -> Tensors {
          return {ops::cat(Tensors{in[0], in[0]}, 1)};
        },
        {on_grid("S0,S1")}, {Layout::parse(grid(), "{Shard(0), Shard(1, sizes=4/2)}")});
    EXPECT_EQ(doubled({x})[0].shape(), (Shape{5, 6}));
    const auto sums =
        local_map([](const Tensors& in) -> Tensors { return {ops::sum(in[0])}; }, {on_grid("S0,S1")}, {on_grid("P,P")});
    const std::uint64_t before = shard_counts().collectives;
    EXPECT_EQ(sums({x})[0].shape(), Shape());  // nothing is sharded: no communication
    EXPECT_EQ(doubled({x}, {{{5, 6}, DType::kF64}})[0].shape(), (Shape{5, 6}));
    EXPECT_EQ(shard_counts().collectives, before);
  });
}

TEST(LocalMap, MovesInputsOnlyWhereThatIsAllowed) {
  simulate(4, [] {
    const Tensor x = leaf(placed(values({4, 4}, 0), on_grid("S0,R")));
    const auto map =
        local_map([](const Tensors& in) -> Tensors { return {squared(in[0])}; }, {on_grid("S1,R")}, {on_grid("S1,R")});
    expect_error<InvalidArgument>([&] { (void)map({x}); }, {"input 0", "f64[4, 4]", "{Shard(1), Replicate()}",
                                                            "redistribute()", "all-to-all", "AutoRedistribute"});
    const AutoRedistribute automatic;
    const TraceLayouts trace;
    const Tensor y = map({x}, {{x.shape(), x.dtype()}})[0];
    EXPECT_EQ(trace.counts().automatic, 1U);
    ASSERT_EQ(trace.events().size(), 2U);
    EXPECT_NE(trace.events()[0].text().find("automatic, for local_map"), std::string::npos);
    EXPECT_EQ(trace.events()[1].text(),
              "local_map(f64[4, 4] {Shard(1), Replicate()}) -> f64[4, 4] {Shard(1), Replicate()}");
    autograd::backward(y, placed(values({4, 4}, 1), on_grid("S1,R")));
    EXPECT_EQ(autograd::grad(x).layout(), on_grid("S0,R"));
  });
}

TEST(LocalMap, TakesTheWordOfTheCallerOnGradients) {
  simulate(4, [] {
    const Tensor w = leaf(placed(values({3}, 0), on_grid("R,R")));
    const Tensor x = placed(values({4, 3}, 1), on_grid("S0,R"));
    const auto map =
        local_map([](const Tensors& in) -> Tensors { return {ops::mul(in[0], in[1])}; },
                  {on_grid("S0,R"), on_grid("R,R")}, {on_grid("S0,R")}, {.gradients = {Layout(), on_grid("P(avg),R")}});
    autograd::backward(map({x, w})[0], placed(values({4, 3}, 2), on_grid("S0,R")));
    EXPECT_EQ(autograd::grad(w).layout(), on_grid("P(avg),R"));
  });
}

TEST(LocalMap, PassesPlainTensorsAndNoTensorsAsTheyAre) {
  simulate(4, [] {
    const Tensor x = placed(values({4}, 0), on_grid("S0,R"));
    const Tensor scale = leaf(ops::full({}, 3, {.dtype = DType::kF64}));
    const auto map = local_map(
        [](const Tensors& in) -> Tensors {
          EXPECT_FALSE(in[2]);
          return {ops::mul(in[0], in[1]), {}, in[1]};
        },
        {on_grid("S0,R"), Layout(), Layout()}, {on_grid("S0,R"), Layout(), Layout()});
    const Tensors out = map({x, scale, {}});
    EXPECT_TRUE(out[0].has_layout());
    EXPECT_FALSE(out[1]);
    EXPECT_TRUE(out[2].is_same(scale));
    autograd::backward(out[0], placed(values({4}, 1), on_grid("S0,R")));
    EXPECT_FALSE(autograd::grad(scale).has_layout());  // separate on each rank
  });
}

TEST(LocalMap, IsNotEnteredOffTheMesh) {
  on_worlds(3, {2}, [] {
    const Mesh mesh = Mesh::create({{"x", 2}}, Rank(1));
    const Layout sharding = Layout::parse(mesh, "S0");
    const Tensor x = leaf(placed(values({5, 2}, 0), sharding));
    int calls = 0;
    const auto map = local_map(
        [&](const Tensors& in) -> Tensors {
          ++calls;
          return {squared(in[0])};
        },
        {sharding}, {sharding});
    const bool is_off = current_place().rank == Rank(0);
    if (is_off) expect_error<InvalidArgument>([&] { (void)map({x}); }, {"rank 0", "not on mesh", "shape and dtype"});
    const Tensor y = map({x}, {{x.shape(), x.dtype()}})[0];
    EXPECT_EQ(calls, is_off ? 0 : 1);
    EXPECT_EQ(y.shape(), (Shape{5, 2}));
    EXPECT_EQ(y.layout(), sharding);
    EXPECT_EQ(static_cast<bool>(y.local()), !is_off);
    autograd::backward(y, placed(values({5, 2}, 1), sharding));
    EXPECT_EQ(autograd::grad(x).layout(), sharding);
  });
}

TEST(LocalMap, RefusesWhatDoesNotFit) {
  simulate(2, [] {
    const Mesh mesh = Mesh::parse("x=2");
    const Layout rows = Layout::parse(mesh, "S0");
    const Layout whole = Layout::parse(mesh, "R");
    const auto same = [](const Tensors& in) { return in; };
    const Tensor x = placed(values({4, 2}, 0), rows);
    const Tensor plain = ops::zeros({4, 2});
    expect_error<InvalidArgument>([&] { (void)local_map(same, {Layout()}, {}); }, {"no mesh"});
    expect_error<InvalidArgument>(
        [&] {
          (void)local_map(same, {rows, Layout::parse("y=2 {Shard(0)}")}, {});
        },
        {"different meshes", "x=2", "y=2"});
    expect_error<InvalidArgument>(
        [&] {
          (void)local_map(same, {rows}, {rows}, {.gradients = {rows, rows}});
        },
        {"2 layouts", "1 inputs"});
    expect_error<InvalidArgument>([&] { (void)local_map(same, {rows}, {rows})({x, x}); }, {"2 inputs", "1 layouts"});
    expect_error<InvalidArgument>([&] { (void)local_map(same, {rows}, {rows})({Tensor()}); },
                                  {"input 0", "is empty", "{Shard(0)}", "empty layout"});
    expect_error<InvalidArgument>([&] { (void)local_map(same, {rows}, {rows})({plain}); },
                                  {"input 0", "f32[4, 2]", "no layout", "distribute()"});
    expect_error<InvalidArgument>(
        [&] {
          (void)local_map(same, {rows, Layout()}, {rows, rows})({x, x});
        },
        {"input 1", "has a layout", "its given layout is empty"});
    expect_error<InvalidArgument>(
        [&] {
          (void)local_map(same, {rows}, {rows, rows})({x});
        },
        {"got 1 results", "2 layouts"});
    const auto nothing = [](const Tensors& /*in*/) -> Tensors { return {Tensor()}; };
    expect_error<InvalidArgument>([&] { (void)local_map(nothing, {rows}, {rows})({x}); },
                                  {"result 0 is empty", "{Shard(0)}"});
    const auto laid = [&](const Tensors& /*in*/) -> Tensors { return {x}; };
    expect_error<InvalidArgument>([&] { (void)local_map(laid, {rows}, {rows})({x}); }, {"has a layout", "result 0"});
    expect_error<InvalidArgument>(
        [&] {
          (void)local_map(same, {rows}, {rows})({x}, {{{7, 2}, DType::kF64}});
        },
        {"result 0", "f64[2, 2]", "f64[7, 2]", "but must be"});
    expect_error<InvalidArgument>(
        [&] {
          (void)local_map(same, {rows}, {rows})({x}, {{{4, 2}, DType::kF32}});
        },
        {"f32[4, 2]", "result 0", "f64[2, 2]"});
    const auto flat = [](const Tensors& in) -> Tensors { return {ops::sum(in[0])}; };
    expect_error<InvalidArgument>([&] { (void)local_map(flat, {rows}, {rows})({x}); },
                                  {"fewer dimensions", "result 0"});
    const auto odd = [](const Tensors& in) -> Tensors {
      return {ops::narrow(in[0], 0, 0, 1 + Along(in[0].ndim() > 0 ? Mesh::parse("x=2") : Mesh(), "x").place())};
    };
    expect_error<MismatchError>([&] { (void)local_map(odd, {rows}, {rows})({x}); }, {"local_map", "rank", "sizes="});
    {
      const ForbidCommunication forbid;
      expect_error<NotSupported>([&] { (void)local_map(same, {rows}, {rows})({x}); },
                                 {"local_map", "shape of result 0", "ForbidCommunication"});
    }
    const Tensor most = leaf(placed(values({4}, 0), Layout::parse(mesh, "P(max)")));
    const auto kept = local_map(same, {most.layout()}, {whole});
    expect_error<NotSupported>([&] { autograd::backward(kept({most})[0], placed(values({4}, 1), whole)); },
                               {"local_map", "max", "detach()"});
  });
}

}  // namespace
}  // namespace tessera::shard
