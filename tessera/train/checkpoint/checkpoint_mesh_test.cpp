// A checkpoint of one mesh is read on any other, bit for bit, and one of the ranks that hold a shard writes it.
#include <gtest/gtest.h>

#include <map>

#include "tessera/comm/world.h"
#include "tessera/train/checkpoint/detail/index.h"
#include "tessera/train/checkpoint/detail/read_plan.h"
#include "tessera/train/checkpoint/testing/checkpoints.h"
#include "tessera/train/checkpoint/verify.h"

namespace tessera::train {
namespace {

using layout::Layout;
using layout::Mesh;
using testing::CheckpointDirectory;
using testing::KnownTensor;

// Sizes that no mesh divides, and some that some meshes divide.
const std::vector<KnownTensor>& known() {
  static const std::vector<KnownTensor> all = {
      {"matrix", DType::kF32, {13, 10}}, {"wide", DType::kBF16, {6, 24}},   {"cube", DType::kF64, {3, 5, 4}},
      {"vector", DType::kI64, {17}},     {"flags", DType::kBool, {4, 7}},   {"scalar", DType::kF32, {}},
      {"empty", DType::kF32, {0, 3}},    {"blocked", DType::kF32, {24, 5}}, {"steps", DType::kI32, {2}},
  };
  return all;
}

// A world and the layout of each tensor; "" is plain. The last tensor is plain everywhere.
struct World {
  const char* name;
  int ranks;
  const char* mesh;
  std::vector<const char*> placements;
};

const std::vector<World>& worlds() {
  static const std::vector<World> all = {
      {"one", 1, "", {"", "", "", "", "", "", "", "", ""}},
      {"dp2", 2, "dp=2", {"R", "R", "R", "R", "R", "R", "R", "R", ""}},
      {"fsdp2", 2, "fsdp=2", {"S0", "S1", "S2", "S0", "S1", "R", "S0", "S0", ""}},
      {"fsdp3", 3, "fsdp=3", {"S0", "S1", "S1", "S0", "S0", "R", "S1", "Shard(0, blocks=2)", ""}},
      {"dp2fsdp2", 4, "dp=2,fsdp=2", {"R,S0", "R,S1", "R,S0", "R,S0", "R,R", "R,R", "R,S0", "R,S0", ""}},
      {"fsdp2tp2", 4, "fsdp=2,tp=2", {"S0,S0", "S1,S0", "S0,S1", "S0,R", "R,S1", "R,R", "S1,S1", "S1,S0", ""}},
      {"ordered",
       4,
       "fsdp=2,tp=2",
       {"{Shard(0, order=1), Shard(0, order=0)}", "S1,S1", "S2,S2", "R,S0", "S1,S0", "R,R", "S1,R",
        "{Shard(0, blocks=3), Shard(1)}", ""}},
      {"all_axes",
       8,
       "dp=2,fsdp=2,tp=2",
       {"R,S0,S1", "R,S1,S1", "S0,S1,S2", "S0,S0,S0", "R,R,S0", "R,R,R", "R,S0,S1", "R,S1,S0", ""}},
      {"sizes",
       3,
       "fsdp=3",
       {"Shard(0, sizes=0/12/1)", "Shard(1, sizes=1/22/1)", "S0", "Shard(0, sizes=5/0/12)", "S1", "R", "S0", "S0", ""}},
      {"inside", 4, "1+fsdp=2", {"S0", "S1", "S0", "S0", "S1", "R", "S0", "S0", ""}},
      {"more_than_there_is", 5, "fsdp=5", {"S1", "S0", "S0", "S0", "S0", "R", "S0", "S1", ""}},
  };
  return all;
}

CheckpointState state_on(const World& world) {
  CheckpointState state;
  for (std::size_t t = 0; t < known().size(); ++t) {
    Layout layout;
    if (*world.placements[t] != 0) layout = Layout::parse(Mesh::parse(world.mesh), world.placements[t]);
    state.tensors.emplace_back(known()[t].name, testing::allocate(known()[t], layout));
  }
  state.texts = {{"position", "{\"sample\": 12}"}};
  return state;
}

void save_on(const World& world, const std::filesystem::path& directory, std::int64_t step) {
  simulate(world.ranks, [&] {
    const CheckpointState state = state_on(world);
    testing::set_known(state, step);
    CheckpointWriter writer({.directory = directory});
    writer.save(step, state);
    writer.finish();
    EXPECT_EQ(writer.take_errors(), std::vector<std::string>());
  });
}

TEST(CheckpointMesh, AnyMeshReadsWhatAnyOtherSaved) {
  for (const World& from : worlds()) {
    const CheckpointDirectory directory;
    save_on(from, directory.path(), 7);
    const auto last = last_good(directory.path(), [](const std::string& line) { ADD_FAILURE() << line; });
    ASSERT_TRUE(last.has_value()) << from.name;
    EXPECT_EQ(last->world_size, from.ranks);
    for (const World& to : worlds()) {
      std::atomic<std::int64_t> wrong = 0;
      simulate(to.ranks, [&] {
        CheckpointState state = state_on(to);
        testing::set_known(state, 8);  // all of it must be overwritten
        EXPECT_EQ(load_checkpoint(*last, state),
                  (std::map<std::string, std::string>{{"position", "{\"sample\": 12}"}}));
        wrong += testing::count_wrong(state, 7);
      });
      EXPECT_EQ(wrong, 0) << "elements, from " << from.name << " to " << to.name;
    }
  }
}

TEST(CheckpointMesh, EveryElementIsWrittenOnce) {
  std::uint64_t elements = 0;
  for (const KnownTensor& each : known()) elements += nbytes(each.shape, each.dtype);
  for (const World& world : worlds()) {
    const CheckpointDirectory directory;
    save_on(world, directory.path(), 3);
    const detail::CheckpointIndex index = detail::load_index(directory.path() / "step-000000003");
    std::uint64_t written = 0;
    for (const detail::SavedFile& file : index.files) written += file.nbytes - file.header_nbytes;
    EXPECT_EQ(written, elements) << world.name;
  }
}

TEST(CheckpointMesh, WhatAllHoldIsSharedOutEvenly) {
  std::vector<detail::SavedTensor> tensors;
  const Layout copies = Layout::parse(Mesh::parse("dp=4"), "R");
  for (int i = 0; i < 32; ++i) tensors.push_back({"t" + std::to_string(i), DType::kF32, {100 + i, 64}, copies});
  const detail::Ownership ownership(tensors, 4);
  std::vector<std::uint64_t> loads;
  for (int rank = 0; rank < 4; ++rank) {
    const std::vector<detail::FileShard> pieces = ownership.pieces_of(Rank(rank));
    loads.push_back(pieces.back().offset + pieces.back().nbytes);
  }
  const auto [least, most] = std::ranges::minmax(loads);
  EXPECT_LT(static_cast<double>(most), 1.05 * static_cast<double>(least));
}

TEST(CheckpointMesh, ARankReadsNoMoreThanItsOwnParts) {
  // From 4 shards to 2: the second rank needs only the files of ranks 2 and 3.
  const Layout from = Layout::parse(Mesh::parse("fsdp=4"), "S0");
  detail::CheckpointIndex index;
  index.world_size = 4;
  index.tensors = {{"x", DType::kF32, {16, 4}, from}};
  index.files.assign(4, {4096 + 64, 4096, std::string(32, '0')});
  detail::ReadPlanner planner(index);
  const detail::ReadPlan plan = planner.plan({{0, Layout::parse(Mesh::parse("fsdp=2"), "S0")}}, Rank(1));
  ASSERT_EQ(plan.reads.size(), 2U);
  EXPECT_EQ(plan.reads[0].file, 2);
  EXPECT_EQ(plan.reads[1].file, 3);
  EXPECT_EQ(plan.reads[0].offset, 4096U);
}

TEST(CheckpointMesh, AWorldOfOneNeedsNoOthers) {
  const CheckpointDirectory directory;
  const World& one = worlds().front();
  CheckpointState state = state_on(one);
  testing::set_known(state, 1);
  {
    CheckpointWriter writer({.directory = directory.path()});
    writer.save(1, state);
  }
  testing::set_known(state, 2);
  load_checkpoint(checkpoints_in(directory.path()).at(0), state);
  EXPECT_EQ(testing::count_wrong(state, 1), 0);
}

}  // namespace
}  // namespace tessera::train
