// Collectives on plain tensors against their definition, and their gradients against that of the sum over all ranks:
// with gradients y of the results, sum <y, C x> = sum <C' y, x>.
#include "tessera/shard/collectives.h"

#include <gtest/gtest.h>

#include <functional>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/memory/label.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/host_values.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/shape/arrange.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/shard/groups.h"
#include "tessera/shard/scopes.h"
#include "tessera/shard/testing/all_ranks.h"
#include "tessera/shard/trace.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using layout::Mesh;
using Sizes = std::vector<std::int64_t>;
using testing::on_worlds;

const Mesh& square_mesh() {
  static const Mesh mesh = Mesh::parse("a=2,b=3");
  return mesh;
}
int rank() { return current_place().rank.value(); }

// Input of a rank: small integers that no two positions share.
Tensor given(const Shape& shape, int of_rank) {
  testing::Whole whole = testing::counted(shape, DType::kF64);
  for (std::size_t i = 0; i < whole.values.size(); ++i) whole.values[i] += 100 * of_rank;
  return testing::plain(whole);
}

// Returns the ranks along `over`, in order.
std::vector<int> peers(const Along& over) {
  std::vector<int> out;
  for (const Rank each : ranks_along(over.mesh(), over.axes(), current_place().rank)) out.push_back(each.value());
  return out;
}

std::vector<Along> ways() {
  return {{square_mesh(), "a"}, {square_mesh(), "b"}, {square_mesh(), {"a", "b"}}, {square_mesh(), {"b", "a"}}};
}

void expect_equal(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.shape(), want.shape());
  EXPECT_TRUE(ops::equal(got, want));
}

Tensor cat(const std::vector<Tensor>& tensors, std::int64_t dim) { return ops::cat(tensors, dim); }

TEST(Collectives, GiveWhatTheyAreByDefinition) {
  on_worlds(6, {1, 2}, [] {
    for (const Along& over : ways()) {
      const std::vector<int> ranks = peers(over);
      const int n = over.size();
      ASSERT_EQ(ranks[static_cast<std::size_t>(over.place())], rank());
      const Shape shape{2, n, 3};
      const Tensor x = given(shape, rank());
      std::vector<Tensor> all;
      for (const int each : ranks) all.push_back(given(shape, each));
      Tensor sum = all[0];
      for (std::size_t i = 1; i < all.size(); ++i) sum = ops::add(sum, all[i]);
      expect_equal(all_reduce(x, over), sum);
      expect_equal(all_reduce(x, over, Reduction::kAvg), ops::div(sum, n));
      expect_equal(all_reduce(x, over, Reduction::kMax),
                   all[static_cast<std::size_t>(std::ranges::max_element(ranks) - ranks.begin())]);
      for (const std::int64_t dim : {0, 1, -1}) expect_equal(all_gather(x, dim, over), cat(all, dim));
      expect_equal(reduce_scatter(x, 1, over), ops::narrow(sum, 1, over.place(), 1));
      std::vector<Tensor> chunks;
      for (const Tensor& each : all) chunks.push_back(ops::narrow(each, 1, over.place(), 1));
      expect_equal(all_to_all(x, 1, 0, over), cat(chunks, 0));
      expect_equal(all_to_all(x, 1, 1, over), cat(chunks, 1));
      expect_equal(all_to_all(x, 1, 2, over), cat(chunks, 2));
      expect_equal(broadcast(x, n - 1, over), all.back());
      std::vector<int> next;
      for (int p = 0; p < n; ++p) next.push_back(p + 1 < n ? p + 1 : -1);
      const Tensor before = over.place() == 0 ? ops::zeros(shape, {.dtype = DType::kF64})
                                              : all[static_cast<std::size_t>(over.place() - 1)];
      expect_equal(permute(x, next, over), before);
    }
  });
}

TEST(Collectives, TakeSizesThatAreNotAlike) {
  on_worlds(3, {3}, [] {
    const Along over(Mesh::parse("x=3"), "x");
    const Sizes sizes = {3, 0, 2};
    const std::int64_t mine = sizes[static_cast<std::size_t>(rank())];
    std::vector<Tensor> all;
    for (int r = 0; r < 3; ++r) all.push_back(given({2, sizes[static_cast<std::size_t>(r)], 2}, r));
    const Tensor whole = cat(all, 1);
    expect_equal(all_gather(all[static_cast<std::size_t>(rank())], 1, over, sizes), whole);
    const std::int64_t start = rank() == 0 ? 0 : 3;
    const Tensor summand = given({2, 5, 2}, 0);
    expect_equal(reduce_scatter(summand, 1, over, sizes), ops::narrow(ops::mul(summand, 3), 1, start, mine));
    // From sharded in dimension 1 to sharded in dimension 0.
    const Tensor moved = all_to_all(all[static_cast<std::size_t>(rank())], 0, 1, over, {{1, 0, 1}, sizes});
    expect_equal(moved, ops::narrow(whole, 0, rank() == 0 ? 0 : 1, rank() == 1 ? 0 : 1));
    // Arbitrary routing: rank r sends p + r rows to rank p.
    Sizes to;
    Sizes from;
    std::int64_t rows = 0;
    for (int p = 0; p < 3; ++p) {
      to.push_back(p + rank());
      from.push_back(rank() + p);
      rows += p + rank();
    }
    std::vector<Tensor> wanted;
    for (int p = 0; p < 3; ++p) {
      std::int64_t first = 0;
      for (int q = 0; q < rank(); ++q) first += q + p;
      wanted.push_back(ops::narrow(given({3 + 3 * p, 2}, p), 0, first, rank() + p));
    }
    expect_equal(all_to_all(given({rows, 2}, rank()), 0, 0, over, {to, from}), cat(wanted, 0));
  });
}

// A linear collective on tensors of this shape.
struct Linear {
  const char* name;
  Shape shape;
  std::function<Tensor(const Tensor&)> apply;
};

std::vector<Linear> linear_ones(const Along& over) {
  const std::int64_t n = over.size();
  std::vector<int> shifted;
  Sizes sizes;
  for (int p = 0; p < n; ++p) {
    shifted.push_back(p + 1 < n ? p + 1 : -1);  // a permutation that is not its own inverse
    sizes.push_back(p + 1);
  }
  const std::int64_t total = n * (n + 1) / 2;
  const std::int64_t mine = over.place() + 1;
  return {
      {"all_reduce", {2, 3}, [=](const Tensor& x) { return all_reduce(x, over); }},
      {"all_reduce avg", {2, 3}, [=](const Tensor& x) { return all_reduce(x, over, Reduction::kAvg); }},
      {"all_gather", {2, 3}, [=](const Tensor& x) { return all_gather(x, 1, over); }},
      {"all_gather uneven", {mine, 2}, [=](const Tensor& x) { return all_gather(x, 0, over, sizes); }},
      {"reduce_scatter", {2, n}, [=](const Tensor& x) { return reduce_scatter(x, 1, over); }},
      {"reduce_scatter uneven",
       {2, total},
       [=](const Tensor& x) { return reduce_scatter(x, 1, over, sizes, Reduction::kAvg); }},
      {"all_to_all", {3, 2 * n}, [=](const Tensor& x) { return all_to_all(x, 1, 0, over); }},
      {"all_to_all uneven",
       {total, mine},
       [=](const Tensor& x) {
         return all_to_all(x, 0, 1, over, {sizes, sizes});
       }},
      {"all_to_all within", {2, n}, [=](const Tensor& x) { return all_to_all(x, 1, 1, over); }},
      {"permute", {3}, [=](const Tensor& x) { return permute(x, shifted, over); }},
      {"broadcast", {3}, [=](const Tensor& x) { return broadcast(x, static_cast<int>(n) - 1, over); }},
  };
}

double dot_over_all(const Tensor& a, const Tensor& b) {
  const Tensor dot = ops::sum(ops::mul(a, b));
  return ops::item(all_reduce(dot, {square_mesh(), {"a", "b"}})).as_double();
}

TEST(Collectives, HaveTheTransposeAsGradientAndThemselvesAsItsGradient) {
  on_worlds(6, {5}, [] {
    for (const Along& over : ways()) {
      for (const Linear& each : linear_ones(over)) {
        SCOPED_TRACE(std::string(each.name) + " over " + over.text());
        const Tensor x = given(each.shape, rank());
        autograd::set_requires_grad(x, true);
        const Tensor result = each.apply(x);
        const Tensor y = given(result.shape(), 7 * rank() % 5);
        autograd::set_requires_grad(y, true);
        const Tensor back = autograd::gradients({result}, {x}, {y}, {.create_graph = true})[0];
        EXPECT_DOUBLE_EQ(dot_over_all(result.detach(), y.detach()), dot_over_all(back.detach(), x.detach()));
        const Tensor v = given(each.shape, 3 * rank() % 4);
        expect_equal(autograd::gradients({back}, {y}, {v})[0], each.apply(v));
      }
    }
  });
}

TEST(Collectives, AreCountedTracedAndForbidden) {
  simulate(2, [] {
    const Along over(Mesh::parse("tp=2"), "tp");
    const Tensor x = given({4, 2}, rank());
    const TraceLayouts trace;
    {
      const memory::Label label("kernel");
      (void)all_gather(x, 0, over);
    }
    EXPECT_EQ(trace.counts().collectives, 1U);
    EXPECT_EQ(trace.counts().nbytes, 64U);
    ASSERT_EQ(trace.events().size(), 1U);
    EXPECT_EQ(trace.events()[0].text(), "all_gather(f64[4, 2]) -> f64[8, 2] over tp: 64 B [kernel]");
    const ForbidCommunication forbid;
    expect_error<NotSupported>([&] { (void)all_reduce(x, over); },
                               {"all_reduce of f64[4, 2]", "over tp", "ForbidCommunication"});
    EXPECT_EQ(trace.counts().collectives, 1U);
  });
}

TEST(Collectives, AreForbiddenInBackwardWithTheForwardCallNamed) {
  simulate(2, [] {
    const Along over(Mesh::parse("tp=2"), "tp");
    const Tensor x = given({4}, rank());
    autograd::set_requires_grad(x, true);
    Tensor y;
    {
      const memory::Label label("router");
      y = ops::sum(all_to_all(x, 0, 0, over));
    }
    const ForbidCommunication forbid;
    expect_error<NotSupported>([&] { autograd::backward(y); }, {"all_to_all", "gradient of all_to_all", "router"});
  });
}

TEST(Collectives, OfOneRankGiveTheTensorBack) {
  const Along over(Mesh::parse("tp=1"), "tp");
  const Tensor x = given({4}, 0);
  const ForbidCommunication forbid;
  EXPECT_TRUE(all_reduce(x, over).is_same(x));
  EXPECT_TRUE(all_gather(x, 0, over).is_same(x));
  EXPECT_TRUE(broadcast(x, 0, over).is_same(x));
}

TEST(Collectives, OfNothingAreMadeTogether) {
  simulate(2, [] {
    const Along over(Mesh::parse("tp=2"), "tp");
    const Tensor none = ops::zeros({0, 3});
    EXPECT_EQ(all_reduce(none, over).shape(), (Shape{0, 3}));
    EXPECT_EQ(all_gather(none, 1, over).shape(), (Shape{0, 6}));
    EXPECT_EQ(reduce_scatter(none, 0, over).shape(), (Shape{0, 3}));
    EXPECT_EQ(all_to_all(none, 0, 1, over).shape(), (Shape{0, 6}));
  });
}

TEST(Collectives, RefuseWhatMakesNoSense) {
  simulate(3, [] {
    const Mesh mesh = Mesh::parse("x=2");
    if (rank() == 2) {
      expect_error<InvalidArgument>([&] { (void)all_reduce(ops::zeros({2}), {mesh, "x"}); }, {"2"});
      return;
    }
    const Along over(mesh, "x");
    const Tensor x = ops::zeros({3, 2});
    expect_error<InvalidArgument>([&] { Along(mesh, "y"); }, {"y"});
    expect_error<InvalidArgument>([&] { (void)all_reduce({}, over); }, {"all_reduce", "tensor must not be empty"});
    const Tensor laid = Tensor::sharded({3, 2}, DType::kF32, Layout::replicated(mesh), x);
    expect_error<InvalidArgument>([&] { (void)all_reduce(laid, over); }, {"plain", "redistribute()", "local_map()"});
    expect_error<InvalidArgument>([&] { (void)all_gather(x, 2, over); },
                                  {"dimension must be in [-2, 2), got 2 for f32[3, 2]"});
    expect_error<InvalidArgument>([&] { (void)all_gather(x, 0, over, {3}); }, {"1 sizes", "2 ranks along x"});
    expect_error<InvalidArgument>([&] { (void)all_gather(x, 0, over, {4, 4}); }, {"[4, 4]", "f32[3, 2]"});
    expect_error<InvalidArgument>([&] { (void)reduce_scatter(x, 0, over); }, {"must be divisible by the 2 ranks"});
    expect_error<InvalidArgument>(
        [&] {
          (void)reduce_scatter(x, 0, over, {1, 1});
        },
        {"sizes must add up to 3", "got [1, 1] = 2"});
    expect_error<InvalidArgument>([&] { (void)permute(x, std::vector<int>{1}, over); }, {"1 targets"});
    expect_error<InvalidArgument>(
        [&] {
          (void)permute(x, std::vector<int>{1, 1}, over);
        },
        {"targets must be unique", "got 1 twice"});
    expect_error<InvalidArgument>([&] { (void)broadcast(x, 2, over); }, {"root must be in [0, 2)", "got 2"});
    expect_error<NotSupported>([&] { (void)all_reduce(ops::zeros({2}, {DType::kBool}), over); }, {"bool", "sum"});
    const Tensor leaf = ops::ones({2});
    autograd::set_requires_grad(leaf, true);
    const Tensor most = ops::sum(all_reduce(leaf, over, Reduction::kMax));
    expect_error<NotSupported>([&] { autograd::backward(most); },
                               {"gradients require sum or avg, got max", "detach()"});
  });
}

}  // namespace
}  // namespace tessera::shard
