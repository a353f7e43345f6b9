// Ranks that do not do the same are told so at once, and both sides are named; whether they run freely or in turns.
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/shard/redistribute.h"
#include "tessera/shard/testing/all_ranks.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using layout::Mesh;
using testing::counted;
using testing::placed;

// What the ranks of a simulation are told when rank 1 does something else than the others.
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

// Groups of different ranks, asked for in orders that do not go together: each rank waits for the next. No deadline is
// at hand: that none of them will come is known at once.
TEST(Mismatch, OfGroupsInACircleNamesWhatEachWaitsFor) {
  const auto circle = [](const char* mesh) {
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
  // Before the groups are there, and when they are.
  expect_words(told(4, {.seed = 4}, [&](bool) { circle("x=2,y=2"); }),
               {"deadlock", "rank 0 waits for the ranks of the new group 0-1",
                "rank 1 waits for the ranks of the new group 1,3"});
  expect_words(told(4, {.seed = 4},
                    [&](bool) {
                      gather("x=2,y=2", {8}, "S0,R", "R,R");
                      gather("x=2,y=2", {8}, "R,S0", "R,R");
                      circle("x=2,y=2");
                    }),
               {"deadlock", "all_gather of group 0-1, rank 1 to come", "all_gather of group 1,3, rank 1 to come"});
  expect_words(told(4, {}, [&](bool) { circle("x=2,y=2"); }),
               {"ranks wait for each other in a circle", "rank 0 waits for rank 1 in the ranks of the new group 0-1",
                "rank 1 waits for rank 3 in the ranks of the new group 1,3"});
  expect_words(told(4, {},
                    [&](bool) {
                      gather("x=2,y=2", {8}, "S0,R", "R,R");
                      gather("x=2,y=2", {8}, "R,S0", "R,R");
                      circle("x=2,y=2");
                    }),
               {"ranks wait for each other in a circle", "rank 0 waits for rank 1 in all_gather of group",
                "rank 1 waits for rank 3 in all_gather of group"});
}

}  // namespace
}  // namespace tessera::shard
