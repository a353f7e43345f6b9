// Ranks that are threads are bitwise equal to ranks that are processes: random programs and a training step, with
// values, gradients and layouts.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstring>
#include <map>
#include <new>

#include "tessera/base/fnv1a.h"
#include "tessera/base/rank.h"
#include "tessera/comm/testing/rank_processes.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/ops/create/generator.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/shard/testing/llama.h"
#include "tessera/shard/testing/random_program.h"

namespace tessera::shard {
namespace {

using testing::RandomProgram;

constexpr std::uint64_t kPrograms = 12;
constexpr std::size_t kMaxDigests = 1000;  // per rank

const char* mesh_of(int ranks) {
  static const std::map<int, const char*> kMeshes = {{2, "x=2"}, {3, "x=3"},     {4, "x=2,y=2"},    {5, "x=5"},
                                                     {7, "x=7"}, {6, "x=2,y=3"}, {8, "x=2,y=2,z=2"}};
  return kMeshes.at(ranks);
}

// Results of the ranks of a world, one row each, shared with processes forked from this one.
class Board {
 public:
  Board() : rows_(::mmap(nullptr, sizeof(Rows), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (rows_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~Board() { ::munmap(rows_, sizeof(Rows)); }
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;
  std::array<std::uint64_t, kMaxDigests>& row(int rank) {
    return (*static_cast<Rows*>(rows_))[static_cast<std::size_t>(rank)];
  }

 private:
  using Rows = std::array<std::array<std::uint64_t, kMaxDigests>, 8>;
  void* rows_;
};

// FNV-1a of the tensors of a rank, in sequence.
class Digests {
 public:
  explicit Digests(std::array<std::uint64_t, kMaxDigests>& to) : to_(to) {}
  void add(const Tensor& tensor) {
    ASSERT_LT(++count_, kMaxDigests);
    to_[0] = count_;
    std::uint64_t digest = tessera::detail::kFnv1aStart;
    const auto take = [&](const void* bytes, std::size_t nbytes) {
      digest = tessera::detail::fnv1a({static_cast<const char*>(bytes), nbytes}, digest);
    };
    if (tensor) {
      const std::string layout = tensor.layout().text();
      take(layout.data(), layout.size());
      const Tensor part = ops::contiguous(tensor.local());
      device::Device::get("host").synchronize();
      take(part.data(), part.nbytes());
    }
    to_[count_] = digest;
  }

 private:
  std::array<std::uint64_t, kMaxDigests>& to_;
  std::size_t count_ = 0;
};

// Runs one rank.
void run_rank(int ranks, Board& board) {
  Digests digests(board.row(current_place().rank.value()));
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    const RandomProgram program(seed + 100 * static_cast<std::uint64_t>(ranks), layout::Mesh::parse(mesh_of(ranks)));
    const testing::ProgramRun run = program.run_sharded();
    EXPECT_EQ(run.refused, "") << program.text();
    for (const Tensor& tensor : run.tensors) digests.add(tensor);
    for (const Tensor& gradient : run.gradients) digests.add(gradient);
  }
  if (ranks != 8) return;
  ops::manual_seed(5);
  const testing::Llama model({.dtype = DType::kF32}, layout::Mesh::parse("dp=2,fsdp=2,tp=2"));
  const Tensor tokens = model.numbers();
  const Tensor targets = model.numbers();
  for (int step = 0; step < 3; ++step) digests.add(model.train(tokens, targets, 0.1));
  for (const Tensor& weight : model.parameters()) digests.add(weight);
}

// Processes are forked first, while this process has no other threads.
TEST(Simulation, IsByteEqualToProcesses) {
  std::array<Board, 9> of_processes;
  for (int ranks = 2; ranks <= 8; ++ranks) {
    Board& board = of_processes[static_cast<std::size_t>(ranks)];
    for (const comm::ProcessEnd& end : comm::run_rank_processes(ranks, [&](int) { run_rank(ranks, board); })) {
      ASSERT_EQ(end.exit_code, 0) << "signal " << end.signal << " of " << ranks << " ranks";
    }
  }
  for (int ranks = 2; ranks <= 8; ++ranks) {
    Board board;
    simulate(ranks, [&] { run_rank(ranks, board); });
    for (int rank = 0; rank < ranks; ++rank) {
      const auto& want = of_processes[static_cast<std::size_t>(ranks)].row(rank);
      EXPECT_GT(want[0], 50U);
      for (std::size_t i = 0; i <= want[0]; ++i) {
        ASSERT_EQ(board.row(rank)[i], want[i]) << "tensor " << i << " of rank " << rank << " of " << ranks;
      }
    }
  }
}

}  // namespace
}  // namespace tessera::shard
