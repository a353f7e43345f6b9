// A rank whose body ends with work in flight: its work finishes or fails with an error, no freed memory is accessed,
// and a rank that ends early is an error for waiting ranks, never a crash.
#include <gtest/gtest.h>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/comm/world.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/nn/softmax.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/shard/redistribute.h"
#include "tessera/shard/scopes.h"
#include "tessera/shard/testing/all_ranks.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using layout::Mesh;
using testing::counted;
using testing::placed;

// Enqueues various work without waiting for it.
void work(const Mesh& mesh, int rounds) {
  const AutoRedistribute automatic;
  const Tensor x = placed(counted({8, 6}, DType::kF64), Layout::parse(mesh, "S0,S1"));
  const Tensor w = placed(counted({6, 8}, DType::kF64), Layout::parse(mesh, "S1,R"));
  autograd::set_requires_grad(w, true);
  for (int round = 0; round < rounds; ++round) {
    const Tensor y = ops::softmax(ops::mm(x, w), 1);
    autograd::backward(ops::sum(ops::mul(y, y)));
    (void)redistribute(y, Layout::replicated(mesh));
  }
}

constexpr std::uint64_t kSeeds = 24;

TEST(InFlight, WorkOfBodiesThatEndRunsToItsEnd) {
  const Mesh mesh = Mesh::parse("x=2,y=2");
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    simulate(4, [&] { work(mesh, 2); }, {.seed = seed});
    if (seed % 4 == 0) simulate(4, [&] { work(mesh, 2); });
  }
}

TEST(InFlight, RanksThatEndEarlyAreAnErrorForTheOthers) {
  const Mesh mesh = Mesh::parse("x=2,y=2");
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto body = [&] { work(mesh, current_place().rank.value() == static_cast<int>(seed % 4) ? 1 : 3); };
    for (const bool in_turns : {true, false}) {
      if (!in_turns && seed % 4 != 0) continue;
      try {
        simulate(4, body, in_turns ? SimulateOptions{.seed = seed} : SimulateOptions());
      } catch (const Error&) {
        continue;  // thrown in the body while it waited; otherwise it ended before
      }
    }
  }
}

}  // namespace
}  // namespace tessera::shard
