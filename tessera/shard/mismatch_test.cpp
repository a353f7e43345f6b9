// Ranks that make different calls fail immediately, with an error that names both sides, concurrently or in turns.
#include <gtest/gtest.h>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/ops/nn/softmax.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/shard/collectives.h"
#include "tessera/shard/distribute.h"
#include "tessera/shard/redistribute.h"
#include "tessera/shard/testing/all_ranks.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using layout::Mesh;
using testing::counted;
using testing::leaf;
using testing::placed;
using testing::plain;

// Returns the errors of a simulation in which rank 1 differs from the others.
std::string told(int ranks, const SimulateOptions& how, const std::function<void(bool is_other)>& body) {
  try {
    simulate(
        ranks,
        [&] {
          body(current_place().rank == Rank(1));
          device::Device::get("host").synchronize();
        },
        how);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

struct Difference {
  const char* name;
  std::function<void(bool is_other)> body;
  std::vector<const char*> words;
};

void gather(const char* mesh, const Shape& shape, const char* from = "S0", const char* to = "R",
            DType dtype = DType::kF32) {
  const Mesh on = Mesh::parse(mesh);
  (void)redistribute(placed(counted(shape, dtype), Layout::parse(on, from)), Layout::parse(on, to));
}

std::vector<Difference> differences() {
  return {{"order",
           [](bool is_other) {
             if (is_other) gather("x=2", {6}, "P", "R");
             gather("x=2", {8});
             if (!is_other) gather("x=2", {6}, "P", "R");
           },
           {"operation 1", "rank 0 run all_gather(f32[4])", "rank 1 all_reduce(f32[6], sum)"}},
          {"shape",
           [](bool is_other) { gather("x=2", {is_other ? 12 : 8}); },
           {"rank 0 run all_gather(f32[4])", "rank 1 all_gather(f32[6])"}},
          {"dtype",
           [](bool is_other) { gather("x=2", {8}, "S0", "R", is_other ? DType::kI32 : DType::kF32); },
           {"rank 0 run all_gather(f32[4])", "rank 1 all_gather(i32[4])"}}};
}

Along along() { return {Mesh::parse("x=2"), "x"}; }

// Operations of one kind, dtype and count, on different tensors.
std::vector<Difference> differences_of_shape() {
  const auto either = [](bool is_other) { return plain(counted(is_other ? Shape{16} : Shape{4, 4})); };
  return {
      {"all_reduce",
       [=](bool is_other) { (void)all_reduce(either(is_other), along()); },
       {"rank 0 all_reduce(f32[16], sum) on a tensor of shape [4, 4]",
        "rank 1 run all_reduce(f32[16], sum) on a tensor of shape [16]"}},
      {"no dimensions",
       [](bool is_other) { (void)all_reduce(plain(counted(is_other ? Shape{1} : Shape{})), along()); },
       {"on a tensor of shape []", "on a tensor of shape [1]"}},
      {"broadcast",
       [=](bool is_other) { (void)broadcast(either(is_other), 0, along()); },
       {"rank 0 broadcast(f32[16], root 0) on a tensor of shape [4, 4]", "on a tensor of shape [16]"}},
      {"permute",
       [=](bool is_other) {
         (void)permute(either(is_other), std::vector<int>{1, 0}, along());
       },
       {"rank 0 permute(f32[16], to=[1, 0]) on a tensor of shape [4, 4]", "on a tensor of shape [16]"}},
      {"all_gather",
       [=](bool is_other) { (void)all_gather(either(is_other), 0, along()); },
       {"on a tensor of shape [8, 4], dimension 0", "on a tensor of shape [32], dimension 0"}},
      {"all_gather along",
       [](bool is_other) {
         (void)all_gather(plain(counted({4, 4})), is_other ? 1 : 0, along());
       },
       {"on a tensor of shape [8, 4], dimension 0", "on a tensor of shape [4, 8], dimension 1"}},
      {"reduce_scatter",
       [=](bool is_other) { (void)reduce_scatter(either(is_other), 0, along()); },
       {"on a tensor of shape [4, 4], dimension 0", "on a tensor of shape [16], dimension 0"}},
      {"reduce_scatter along",
       [](bool is_other) {
         (void)reduce_scatter(plain(counted({4, 4})), is_other ? 1 : 0, along());
       },
       {"on a tensor of shape [4, 4], dimension 0", "on a tensor of shape [4, 4], dimension 1"}},
      {"all_to_all along",
       [](bool is_other) {
         (void)all_to_all(plain(counted({4, 4})), is_other ? 1 : 0, is_other ? 0 : 1, along());
       },
       {"on a tensor of shape [4, 8], dimensions 0 to 1", "on a tensor of shape [8, 4], dimensions 1 to 0"}},
      {"gradients",
       [](bool is_other) {
         const Tensor x = leaf(plain(counted({4, 4})));
         const Tensor y = all_gather(x, 0, along());
         autograd::backward(ops::sum(is_other ? all_reduce(x, along()) : y));
       },
       {"ranks differ"}},
      {"redistribute",
       [](bool is_other) {
         gather("x=2", is_other ? Shape{16} : Shape{4, 4});
       },
       {"on a tensor of shape [4, 4], dimension 0", "on a tensor of shape [16], dimension 0"}},
      {"redistribute along",
       [](bool is_other) {
         gather("x=2", {4, 4}, is_other ? "S1" : "S0");
       },
       {"on a tensor of shape [4, 4], dimension 0", "on a tensor of shape [4, 4], dimension 1"}},
      {"layouts", [](bool is_other) { gather("x=2,y=2", {16}, "P,R", is_other ? "R,S0" : "R,R"); }, {"ranks differ"}},
      {"distribute",
       [=](bool is_other) {
         const Mesh mesh = Mesh::parse("x=2");
         (void)distribute(either(is_other), Layout::parse(mesh, "S0"), DataOn::kFirstRank);
       },
       {"on a tensor of shape [4, 4]", "on a tensor of shape [16]"}},
      {"softmax",
       [](bool is_other) {
         const Mesh mesh = Mesh::parse("x=2");
         const int dim = is_other ? 1 : 0;
         (void)ops::softmax(placed(counted({4, 4}), Layout::parse(mesh, is_other ? "S1" : "S0")), dim);
       },
       {"on a tensor of shape [1, 4]", "on a tensor of shape [4, 1]"}},
  };
}

TEST(Mismatch, OfShapesOfEqualCountNamesBothShapes) {
  for (const Difference& difference : differences_of_shape()) {
    const std::string words = told(difference.name == std::string("layouts") ? 4 : 2, {.seed = 4}, difference.body);
    for (const char* word : difference.words) {
      EXPECT_NE(words.find(word), std::string::npos) << difference.name << ": '" << word << "' is missing in " << words;
    }
  }
}

// Sizes that may differ between ranks are not a mismatch.
TEST(Mismatch, IsNoneForUnevenSizes) {
  EXPECT_EQ(told(2, {.seed = 4},
                 [](bool is_other) {
                   const Tensor x = plain(counted({is_other ? 3 : 1, 2}));
                   EXPECT_EQ(all_gather(x, 0, along(), {1, 3}).shape(), Shape({4, 2}));
                   EXPECT_EQ(reduce_scatter(plain(counted({4, 2})), 0, along(), {1, 3}).shape(), x.shape());
                   const AllToAllSizes rows = is_other ? AllToAllSizes{{2, 1}, {0, 1}} : AllToAllSizes{{1, 0}, {1, 2}};
                   EXPECT_EQ(all_to_all(x, 0, 0, along(), rows).size(0), is_other ? 1 : 3);
                 }),
            "nothing");
}

TEST(Mismatch, IsToldWithBothSides) {
  for (const Difference& difference : differences()) {
    for (const SimulateOptions& how : {SimulateOptions(), SimulateOptions{.seed = 4}}) {
      const std::string words = told(2, how, difference.body);
      for (const char* word : difference.words) {
        EXPECT_NE(words.find(word), std::string::npos)
            << difference.name << (how.seed ? ", in turns" : "") << ": '" << word << "' is missing in " << words;
      }
    }
  }
}

// Groups of different ranks, used in incompatible orders: each rank waits for the next. There is no deadline: the
// deadlock is detected immediately.
TEST(Mismatch, OfGroupsInACircleNamesWhatEachWaitsFor) {
  const auto cycle = [](const char* mesh) {
    const int rank = current_place().rank.value();
    const bool is_first = rank == 0 || rank == 3;
    gather(mesh, {8}, is_first ? "R,S0" : "S0,R", "R,R");
    gather(mesh, {8}, is_first ? "S0,R" : "R,S0", "R,R");
  };
  const auto expect_words = [](const std::string& words, const std::vector<const char*>& expected) {
    for (const char* word : expected) {
      EXPECT_NE(words.find(word), std::string::npos) << "'" << word << "' is missing in " << words;
    }
  };
  // Before the groups exist, and after.
  expect_words(
      told(4, {.seed = 4}, [&](bool) { cycle("x=2,y=2"); }),
      {"deadlock", "rank 0 waits for the creation of group 0-1", "rank 1 waits for the creation of group 1,3"});
  expect_words(told(4, {.seed = 4},
                    [&](bool) {
                      gather("x=2,y=2", {8}, "S0,R", "R,R");
                      gather("x=2,y=2", {8}, "R,S0", "R,R");
                      cycle("x=2,y=2");
                    }),
               {"deadlock", "all_gather of group 0-1, rank 1 to arrive", "all_gather of group 1,3, rank 1 to arrive"});
  expect_words(told(4, {}, [&](bool) { cycle("x=2,y=2"); }),
               {"deadlock cycle: ", "rank 0 waits for rank 1 in the creation of group 0-1",
                "rank 1 waits for rank 3 in the creation of group 1,3"});
  expect_words(told(4, {},
                    [&](bool) {
                      gather("x=2,y=2", {8}, "S0,R", "R,R");
                      gather("x=2,y=2", {8}, "R,S0", "R,R");
                      cycle("x=2,y=2");
                    }),
               {"deadlock cycle: ", "rank 0 waits for rank 1 in all_gather of group",
                "rank 1 waits for rank 3 in all_gather of group"});
}

}  // namespace
}  // namespace tessera::shard
