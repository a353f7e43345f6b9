// Functions of several operators: if forward accepts a layout, backward computes the gradient of one device. The
// operators themselves are tested in operators_test.cpp.
#include <gtest/gtest.h>

#include "tessera/autograd/autograd.h"
#include "tessera/comm/world.h"
#include "tessera/layout/planner.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/shard/testing/all_ranks.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using layout::Mesh;
using testing::counted;
using testing::leaf;
using testing::placed;
using testing::plain;
using testing::Results;

struct Diagonal {
  const char* equation;
  Shape shape;
  Shape result;
  std::vector<const char*> layouts;
};

// Uneven rows, so that no shard of the flattened matrix is a shard of its rows.
std::vector<Diagonal> diagonals() {
  return {{"ii->i", {5, 5}, {5}, {"S0", "S1", "R", "P"}},
          {"ii->", {5, 5}, {}, {"S0", "S1", "P"}},
          {"bii->bi", {3, 5, 5}, {3, 5}, {"S0", "S1", "S2"}},
          {"ibi->b", {5, 3, 5}, {3}, {"S0", "S1", "S2"}},
          {"ii->i", {1, 1}, {1}, {"S0", "S1"}}};
}

TEST(AcceptedGradients, OfDiagonalsAreThoseOfOneDevice) {
  const Mesh mesh = Mesh::parse("x=2");
  for (const Diagonal& each : diagonals()) {
    for (const char* layout : each.layouts) {
      SCOPED_TRACE(std::string(each.equation) + " under " + layout);
      Results results(2);
      simulate(2, [&] {
        const Tensor x = leaf(placed(counted(each.shape), Layout::parse(mesh, layout)));
        const Tensor y = ops::einsum(each.equation, {x});
        results.hand_in(0, y);
        const Tensor grad = placed(counted(each.result), layout::gradient_layout(y.layout()));
        results.hand_in(1, autograd::gradients({y}, {x}, {grad})[0]);
      });
      const Tensor x = leaf(plain(counted(each.shape)));
      const Tensor y = ops::einsum(each.equation, {x});
      EXPECT_EQ(results.wrong_with(0, testing::read(y), 1e-5), "");
      const Tensor grad = autograd::gradients({y}, {x}, {plain(counted(each.result))})[0];
      EXPECT_EQ(results.wrong_with(1, testing::read(grad), 1e-5), "");
    }
  }
}

// Every rank holds an empty tensor.
TEST(AcceptedGradients, TensorsWithoutElementsAreMadeSharded) {
  const Mesh mesh = Mesh::parse("x=2");
  const Layout rows = Layout::parse(mesh, "S0");
  simulate(2, [&] {
    EXPECT_EQ(ops::zeros({0, 4}, {.layout = rows}).local().shape(), Shape({0, 4}));
    EXPECT_EQ(ops::ones({0, 4}, {.layout = rows}).layout(), rows);
    EXPECT_EQ(ops::randn({0, 4}, {.layout = rows}).shape(), Shape({0, 4}));
    EXPECT_EQ(ops::rand({0}, {.layout = rows}).numel(), 0);
    EXPECT_EQ(ops::arange(3, 3, 1, {.layout = rows}).local().numel(), 0);
    EXPECT_EQ(ops::eye(0, 4, {.layout = rows}).local().shape(), Shape({0, 4}));
    EXPECT_EQ(ops::zeros({4, 0}, {.layout = rows}).local().shape(), Shape({2, 0}));
  });
}

}  // namespace
}  // namespace tessera::shard
