// Programs under mpirun: how ranks start, which backend they use, and MPI next to other backends. A case starts itself
// again under mpirun.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/backends/mpi/detail/library.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/testing/mpirun.h"
#include "tessera/comm/testing/rank_processes.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"

namespace tessera::comm {
namespace {

constexpr const char* kIsRank = "COMM_MPIRUN_RANK";

// Runs the body on ranks that mpirun started.
void under_mpirun(int ranks, const std::function<void()>& body) {
  if (std::getenv(kIsRank) != nullptr) {
    ::setenv("TESSERA_RECORD_BYTES", "1MiB", 0);
    body();
    return;
  }
  if (find_mpirun().empty()) GTEST_SKIP() << "no mpirun on PATH";
  const ::testing::TestInfo* info = ::testing::UnitTest::GetInstance()->current_test_info();
  std::vector<std::string> command = mpirun_command(ranks, 100);
  command.insert(command.end(),
                 {std::filesystem::read_symlink("/proc/self/exe"),
                  std::string("--gtest_filter=") + info->test_suite_name() + "." + info->name(), "--gtest_brief=1"});
  const CommandEnd end = run_command(command, {std::string(kIsRank) + "=1", "ASAN_OPTIONS=detect_leaks=0",
                                               "TSAN_OPTIONS=ignore_noninstrumented_modules=1 report_thread_leaks=0"});
  EXPECT_EQ(end.exit_code, 0) << end.output;
}

device::Stream stream() { return device::Device::get("host").default_stream(); }

void expect_sum(const ProcessGroup& group) {
  for (const std::int64_t count : {1, 100'000}) {
    std::vector<std::int32_t> x(static_cast<std::size_t>(count), group.rank() + 1);
    group.all_reduce(x.data(), x.data(), count, DType::kI32, {}, stream()).wait();
    EXPECT_EQ(x.back(), group.size() * (group.size() + 1) / 2) << group.name();
  }
}

// Rank 0 hosts the store here: no rank ends before all have finished with it.
void part() { world().launch({.kind = OpKind::kBarrier}, stream()).wait(); }

TEST(Mpirun, RanksOfOneMachineTakeSharedMemoryAndMpiOnRequest) {
  under_mpirun(3, [] {
    init();
    EXPECT_EQ(current_place().world_size, 3);
    EXPECT_EQ(world().backend(), "shm");
    expect_sum(world());
    const int all[] = {0, 1, 2};
    const int some[] = {2, 0};
    const ProcessGroup beside = world().subgroup(all, {.name = "beside", .backend = "mpi"});
    EXPECT_EQ(beside.backend(), "mpi");
    expect_sum(beside);
    const ProcessGroup pair = world().subgroup(some, {.backend = "mpi"});
    if (pair) expect_sum(pair);
    expect_sum(world());
    part();
  });
}

TEST(Mpirun, AWorldOnMpiHasGroupsOnMpiAndOthersOnRequest) {
  under_mpirun(4, [] {
    init({.backend = "mpi"});
    EXPECT_EQ(world().backend(), "mpi");
    expect_sum(world());
    const ProcessGroup half = world().split(world().rank() % 2, -world().rank());
    EXPECT_EQ(half.backend(), "mpi");
    const ProcessGroup near = world().split(world().rank() / 2, 0, {.backend = "shm"});
    EXPECT_EQ(near.backend(), "shm");
    for (int round = 0; round < 10; ++round) {
      expect_sum(half);
      expect_sum(near);
      expect_sum(world());
    }
    part();
  });
}

TEST(Mpirun, SeveralGroupsWorkAtOnceOnStreamsOfTheirOwn) {
  under_mpirun(2, [] {
    init({.backend = "mpi"});
    const device::Device host = device::Device::get("host");
    const device::Stream side = host.create_stream();
    const int turned[] = {1, 0};
    const ProcessGroup other = world().subgroup(turned);
    std::vector<float> x(50'000, 1);
    std::vector<float> y(50'000, 1);
    for (int round = 0; round < 20; ++round) {
      other.all_reduce(x.data(), x.data(), 50'000, DType::kF32, {Reduction::kAvg}, side);
      world().all_reduce(y.data(), y.data(), 50'000, DType::kF32, {Reduction::kAvg}, stream());
    }
    host.synchronize();
    EXPECT_EQ(x, std::vector<float>(50'000, 1));
    EXPECT_EQ(y, x);
    part();
  });
}

TEST(Mpirun, TheFirstGroupOnMpiHoldsAllRanks) {
  under_mpirun(3, [] {
    init();
    const int some[] = {0, 1};
    if (world().rank() < 2) {
      expect_error<NotSupported>([&] { (void)world().subgroup(some, {.backend = "mpi"}); },
                                 {"mpi: the first group on mpi must contain all ranks"});
    }
    part();
  });
}

TEST(Mpirun, MpiThatTheProgramInitialisedIsUsedAndLeftToIt) {
  under_mpirun(2, [] {
    mpi::MpiLibrary& library = mpi::MpiLibrary::get();
    int level = 0;
    library.check(library.functions().init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
    init({.backend = "mpi"});
    expect_sum(world());
    part();
    library.functions().finalize();
    EXPECT_FALSE(library.is_running());
    world().abort("asked for when it is too late");
    expect_error<AbortedError>([] { part(); }, {"MPI is finalized"});
    stream().reset_error();
  });
}

TEST(Mpirun, ProcessesThatItDidNotStartAreToldSo) {
  const std::vector<ProcessEnd> ends = run_rank_processes(2, [](int) {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}) ::unsetenv(name);
    const int all[] = {0, 1};
    expect_error<NotSupported>([&] { (void)world().subgroup(all, {.backend = "mpi"}); },
                               {"mpi: this process was not started by mpirun or srun"});
  });
  for (const ProcessEnd& end : ends) EXPECT_EQ(end.exit_code, 0);
}

}  // namespace
}  // namespace tessera::comm
