// Redistribution between processes: the same pairs as between threads, on shared memory and on MPI.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tessera/autograd/autograd.h"
#include "tessera/base/rank.h"
#include "tessera/comm/communicator.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/testing/mpirun.h"
#include "tessera/comm/testing/rank_processes.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/layout/testing/random_requests.h"
#include "tessera/shard/distribute.h"
#include "tessera/shard/redistribute.h"
#include "tessera/shard/testing/all_ranks.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using testing::counted;
using testing::placed;

void run(int ranks, const std::function<void(int)>& body) {
  for (const comm::ProcessEnd& end : comm::run_rank_processes(ranks, body)) {
    EXPECT_EQ(end.exit_code, 0) << "signal " << end.signal;
  }
}

// Expects the shard of this rank to be that of the global tensor, by definition.
void expect_part(const Tensor& x, const ops::testing::Whole& whole) {
  ASSERT_TRUE(x.layout().partials().empty());
  device::Device::get("host").synchronize();
  const Tensor want = placed(whole, x.layout()).local();
  ASSERT_EQ(static_cast<bool>(x.local()), static_cast<bool>(want));
  if (!want) return;
  const auto got = ops::testing::read(x.local());
  const auto wanted = ops::testing::read(want);
  ASSERT_EQ(got.shape, wanted.shape);
  for (std::size_t i = 0; i < got.values.size(); ++i) ASSERT_NEAR(got.values[i], wanted.values[i], 1e-6);
}

// Returns the same layout on a mesh whose axes have these options.
Layout with_options(const Layout& layout, const std::vector<std::pair<std::string, std::string>>& options) {
  std::vector<layout::AxisSpec> axes;
  for (const layout::Axis& axis : layout.mesh().axes()) axes.push_back({axis.name, axis.size, axis.link, options});
  return Layout::create(layout::Mesh::create(axes), layout.parts());
}

// Tests data and gradients of random pairs on meshes of at most 4 ranks.
void expect_random_pairs(int count, const std::vector<std::pair<std::string, std::string>>& options = {}) {
  const layout::testing::RequestKind kind{
      .max_axes = 3, .uneven_percent = 40, .special_percent = 30, .partial_percent = 40};
  int checked = 0;
  for (std::uint64_t seed = 0; checked < count; ++seed) {
    const layout::PlanRequest pair = layout::testing::random_request(seed, kind);
    if (pair.from.mesh().size() > 4 || pair.shape.numel() > 2048) continue;
    SCOPED_TRACE(layout::testing::pair_text(pair));
    ++checked;
    const Layout from = with_options(pair.from, options);
    const Layout to = with_options(pair.to, options);
    const auto whole = counted(pair.shape, DType::kF64);
    const Tensor x = placed(whole, from);
    autograd::set_requires_grad(x, true);
    const Tensor y = redistribute(x, to);
    const Tensor settled = redistribute(y, layout::gradient_layout(to));
    expect_part(settled, whole);
    const Tensor g = placed(whole, layout::gradient_layout(to));
    const Tensor back = autograd::gradients({settled}, {x}, {g})[0];
    EXPECT_EQ(back.layout(), layout::gradient_layout(from));
    expect_part(back, whole);
  }
}

TEST(RedistributeProcesses, RandomPairsGiveTheSameDataAndGradients) {
  run(4, [](int) { expect_random_pairs(60); });
}

// Runs this program again, under mpirun.
TEST(RedistributeProcesses, RandomPairsGiveTheSameOnMpi) {
  constexpr const char* kIsRank = "SHARD_MPIRUN_RANK";  // not a setting of the library
  if (std::getenv(kIsRank) != nullptr) {
    ::setenv("TESSERA_RECORD_BYTES", "1MiB", 0);
    init({.backend = "mpi"});
    ASSERT_EQ(comm::world().backend(), "mpi");
    expect_random_pairs(60, {{"backend", "mpi"}});
    // Rank 0 hosts the store: no rank may end before all are done with it.
    comm::world().barrier(device::Device::get("host").default_stream()).wait();
    return;
  }
  const auto backends = comm::all_backends();
  if (std::ranges::find(backends, "mpi", &comm::BackendInfo::name) == backends.end())
    GTEST_SKIP() << "built without MPI";
  if (comm::find_mpirun().empty()) GTEST_SKIP() << "no mpirun on PATH";
  std::vector<std::string> command = comm::mpirun_command(4, 200);
  command.insert(command.end(),
                 {std::filesystem::read_symlink("/proc/self/exe"),
                  "--gtest_filter=RedistributeProcesses.RandomPairsGiveTheSameOnMpi", "--gtest_brief=1"});
  // The memory and threads of MPI are not checked.
  const comm::CommandEnd end =
      comm::run_command(command, {std::string(kIsRank) + "=1", "ASAN_OPTIONS=detect_leaks=0",
                                  "TSAN_OPTIONS=ignore_noninstrumented_modules=1 report_thread_leaks=0"});
  EXPECT_EQ(end.exit_code, 0) << end.output;
}

// Work in flight at the end of a process is aborted in order: no rank crashes.
TEST(RedistributeProcesses, ThatEndWithMovesInFlightEndWell) {
  for (int round = 0; round < 5; ++round) {
    run(4, [](int) {
      const layout::Mesh mesh = layout::Mesh::parse("x=2,y=2");
      const Tensor x = placed(counted(Shape{64, 48}), Layout::parse(mesh, "S0,S1"));
      for (int i = 0; i < 20; ++i) {
        (void)redistribute(redistribute(x, Layout::replicated(mesh)), Layout::parse(mesh, "S1,S0"));
      }
    });
  }
}

TEST(RedistributeProcesses, TheFirstRankSendsAndEveryRankGathers) {
  run(3, [](int) {
    const layout::Mesh mesh = layout::Mesh::parse("x=3");
    const auto whole = counted(Shape{7, 5});
    for (const char* text : {"R", "S0", "S1"}) {
      const Tensor x = distribute(testing::plain(whole), Layout::parse(mesh, text), DataOn::kFirstRank);
      expect_part(x, whole);
      expect_part(replicate(shard::gather(x), mesh), whole);
      EXPECT_EQ(from_local(local(x), x.layout(), {.check = true}).shape(), whole.shape);
    }
  });
}

}  // namespace
}  // namespace tessera::shard
