// Read plans at a scale that no test can save: from an index alone.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "tessera/base/testing/expect_error.h"
#include "tessera/train/checkpoint/detail/index.h"
#include "tessera/train/checkpoint/detail/read_plan.h"
#include "tessera/train/checkpoint/detail/shard_file.h"

namespace tessera::train::detail {
namespace {

using layout::Layout;
using layout::Mesh;

// 1,024 tensors of a model and its optimizer on 4,096 ranks. File sizes follow from the layouts.
CheckpointIndex large_index(const char* mesh_text) {
  const Mesh mesh = Mesh::parse(mesh_text);
  const Layout by_rows = Layout::parse(mesh, "R,S0,S0");
  const Layout by_columns = Layout::parse(mesh, "R,S1,S0");
  const Layout in_pieces = Layout::parse(mesh, "R,S0,R");
  CheckpointIndex index;
  index.step = 1000;
  index.world_size = static_cast<int>(mesh.size());
  for (int i = 0; i < 1024; ++i) {
    SavedTensor tensor;
    tensor.name = "layers." + std::to_string(i / 8) + "." + std::to_string(i % 8);
    switch (i % 8) {
      case 0: tensor.shape = {8192}, tensor.layout = in_pieces; break;
      case 1: tensor.shape = {8192, 8192}, tensor.layout = by_rows; break;
      case 2: tensor.shape = {1024, 8192}, tensor.layout = by_rows; break;
      case 3: tensor.shape = {28672, 8192}, tensor.layout = by_rows; break;
      case 4: tensor.shape = {8192, 28672}, tensor.layout = by_columns; break;
      case 5: tensor.shape = {8192}, tensor.layout = in_pieces; break;
      case 6: tensor.shape = {8192, 8200 + i}, tensor.layout = by_columns; break;  // a unique shape
      default: tensor.shape = {3}; break;                                          // plain
    }
    index.tensors.push_back(std::move(tensor));
  }
  const Ownership ownership(index.tensors, index.world_size);
  for (int rank = 0; rank < index.world_size; ++rank) {
    const std::vector<FileShard> pieces = ownership.pieces_of(Rank(rank));
    const std::uint64_t elements = pieces.empty() ? 0 : pieces.back().offset + pieces.back().nbytes;
    index.files.push_back({4096 + elements, 4096, std::string(kHashLetters, '0')});
  }
  return index;
}

// Returns the bytes that a plan reads.
std::uint64_t nbytes_of(const ReadPlan& plan, const CheckpointIndex& index, const std::vector<Wanted>& wanted) {
  std::uint64_t nbytes = 0;
  std::vector<const DimSource*> sources;
  for (const PlannedRead& read : plan.reads) {
    plan.sets[static_cast<std::size_t>(read.set)]->region(read.region, sources);
    std::uint64_t numel = 1;
    for (const DimSource* source : sources) {
      std::uint64_t size = 0;
      for (const Stretch& stretch : source->stretches) size += static_cast<std::uint64_t>(stretch.size);
      numel *= size;
    }
    const std::size_t tensor = wanted[static_cast<std::size_t>(read.tensor)].tensor;
    nbytes += numel * itemsize(index.tensors[tensor].dtype);
  }
  return nbytes;
}

std::uint64_t nbytes_wanted(const CheckpointIndex& index, const std::vector<Wanted>& wanted, Rank rank) {
  std::uint64_t nbytes = 0;
  for (const Wanted& each : wanted) {
    const SavedTensor& tensor = index.tensors[each.tensor];
    const Shape part = each.layout ? layout::local_shape(each.layout, tensor.shape, rank) : tensor.shape;
    nbytes += static_cast<std::uint64_t>(part.numel()) * itemsize(tensor.dtype);
  }
  return nbytes;
}

// Reads the index and plans for one rank of the mesh `to`; "": a world of one rank.
void plan_and_tell(const char* from, const std::string& text, const char* to) {
  const auto start = std::chrono::steady_clock::now();
  const CheckpointIndex index = read_index(text, "index.json");
  ReadPlanner planner(index);
  std::vector<Wanted> wanted;
  for (std::size_t t = 0; t < index.tensors.size(); ++t) {
    Layout layout;
    if (*to != 0 && index.tensors[t].layout) {
      layout = Layout::parse(Mesh::parse(to), index.tensors[t].layout.placements_text());
    }
    wanted.push_back({t, layout});
  }
  const Rank rank(*to == 0 ? 0 : 5);
  const ReadPlan plan = planner.plan(wanted, rank);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  std::printf("from %s to %s: %zu reads, index (%zu bytes) read and planned in %.3f s\n", from,
              *to == 0 ? "one rank" : to, plan.reads.size(), text.size(), spent.count());
  EXPECT_EQ(nbytes_of(plan, index, wanted), nbytes_wanted(index, wanted, rank)) << to;
  for (const PlannedRead& read : plan.reads) {
    ASSERT_GE(read.offset, 4096U);
    ASSERT_LT(read.offset, index.files[static_cast<std::size_t>(read.file)].nbytes);
  }
}

TEST(ReadPlan, PlansAThousandTensorsOfFourThousandRanks) {
  for (const char* from : {"dp=4,fsdp=128,tp=8", "dp=1,fsdp=512,tp=8"}) {
    const std::string text = write_index(large_index(from));
    for (const char* to : {"dp=2,fsdp=512,tp=4", "dp=1,fsdp=96,tp=8", "dp=1,fsdp=8,tp=1", ""}) {
      plan_and_tell(from, text, to);
    }
  }
}

TEST(ReadPlan, AnIndexWhoseSizesDoNotAgreeIsRefused) {
  CheckpointIndex index = large_index("dp=1,fsdp=4,tp=1");
  index.files[2].nbytes += 4;
  ReadPlanner planner(index);
  expect_error<IoError>([&] { (void)planner.plan({{1, {}}}, Rank(0)); }, {"rank-000002", "index has"});
}

}  // namespace
}  // namespace tessera::train::detail
