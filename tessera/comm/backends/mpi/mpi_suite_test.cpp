// The contract of groups, for ranks that mpirun starts. Starting a job takes longer than most cases, so one job runs
// all cases with the same number of ranks: this program again, under mpirun, runs the bodies of the same cases, each in
// a separate world. It writes the results to files, which the cases here read.
//
// A job ends with the first case that fails; separate jobs run the remaining cases. If the backend lacks a feature that
// a case needs, the rank reports it and the case is skipped.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "tessera/base/rank.h"
#include "tessera/comm/detail/process_world.h"
#include "tessera/comm/detail/world_state.h"
#include "tessera/comm/launch_environment.h"
#include "tessera/comm/store/file_store.h"
#include "tessera/comm/store/prefix_store.h"
#include "tessera/comm/suite/comm_suite.h"
#include "tessera/comm/testing/mpirun.h"

namespace tessera::comm::suite {
namespace {

// Not TESSERA_...: these are not settings of the library.
constexpr const char* kRanks = "COMM_SUITE_RANKS";    // set in a job: number of ranks
constexpr const char* kFolder = "COMM_SUITE_FOLDER";  // set in a job: directory of the store and the results
// Sanitizer builds take too long; only mpirun_mp_test runs there.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

// Returns the current part of the running case, numbered from 1: "CommSuite.X/mpi 2".
std::string next_part() {
  static std::string of;
  static int part = 0;
  const ::testing::TestInfo* info = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = std::string(info->test_suite_name()) + "." + info->name();
  if (std::exchange(of, name) != name) part = 0;
  return name + " " + std::to_string(++part);
}

// Like init(), but for a separate world. It is kept, as that of a process is: MPI may still write to its memory.
std::shared_ptr<RankContext> make_rank(const std::string& directory) {
  static auto& kept = *new std::vector<std::shared_ptr<RankContext>>;
  const RankPlace place = read_launch_environment(process_environment()).place;
  kept.push_back(std::make_shared<RankContext>(place));
  const RankScope scope(kept.back());
  kept.back()->part<detail::WorldState>([&] {
    auto store = std::make_shared<FileStore>(directory);
    auto processes = std::make_shared<detail::ProcessWorld>(std::make_shared<PrefixStore>("world", store), place.rank);
    processes->meet(place.world_size, 1min);
    return std::make_shared<detail::WorldState>(store, nullptr, processes, "mpi");
  });
  return kept.back();
}

// In a job: runs the part and reports its result.
void be_rank(const std::string& part, const std::function<void()>& body) {
  static int parts = 0;
  const std::string folder = std::getenv(kFolder);
  std::string became = "well";
  try {
    const RankScope scope(make_rank(folder + "/store." + std::to_string(++parts)));
    body();
    detail::WorldState::current().leave();
  } catch (const Lacking&) {
    became = "lacks";
  } catch (const Death&) {
    ADD_FAILURE() << "the death of a rank ends the job: such cases need a backend that can shrink";
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  if (::testing::Test::HasFailure()) became = "failed";
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  std::ofstream(folder + "/became." + rank, std::ios::app) << became << " " << part << std::endl;
  if (became != "failed") return;
  std::fflush(nullptr);
  std::_Exit(1);  // mpirun ends the other ranks
}

// The results of a job.
struct Job {
  std::map<std::string, std::map<std::string, int>> became;  // by part: number of ranks with each result
  std::string output;
};

// Runs a job with the cases that match the filter.
Job run_job(int ranks, const std::string& filter) {
  char folder[] = "/dev/shm/tessera_mpi_XXXXXX";  // also holds their records
  TESSERA_CHECK_AS(IoError, ::mkdtemp(folder) != nullptr, "no directory for a job");
  std::vector<std::string> command = mpirun_command(ranks, 280);
  command.insert(command.end(),
                 {std::filesystem::read_symlink("/proc/self/exe"), "--gtest_filter=" + filter, "--gtest_brief=1"});
  Job job;
  job.output = run_command(command, {kRanks + ("=" + std::to_string(ranks)), kFolder + ("=" + std::string(folder)),
                                     std::string("TESSERA_RECORD_DIR=") + folder, "TESSERA_RECORD_BYTES=1MiB"})
                   .output;
  for (int rank = 0; rank < ranks; ++rank) {
    std::ifstream told(folder + ("/became." + std::to_string(rank)));
    std::string became;
    for (std::string part; told >> became && std::getline(told >> std::ws, part);) ++job.became[part][became];
  }
  std::filesystem::remove_all(folder);
  return job;
}

void run_part(int ranks, const std::function<void()>& body) {
  const std::string part = next_part();
  if (const char* in_job = std::getenv(kRanks)) {
    if (std::to_string(ranks) == in_job) be_rank(part, body);
    return;
  }
  if (::testing::Test::IsSkipped()) return;  // skipped by an earlier part of the case
  if (find_mpirun().empty()) GTEST_SKIP() << "no mpirun on PATH";
  if (kIsSanitized) GTEST_SKIP() << "jobs take too long under a sanitizer: mpirun_mp_test is what runs there";
  static std::map<int, Job> jobs;  // by number of ranks
  const auto [at, is_new] = jobs.try_emplace(ranks);
  if (is_new) at->second = run_job(ranks, GTEST_FLAG_GET(filter));
  Job job = at->second;
  const auto is_told = [&] { return job.became[part]["failed"] > 0 || job.became[part]["well"] == ranks; };
  if (job.became[part]["lacks"] > 0) GTEST_SKIP() << "the backend declares that it cannot";
  if (!is_told()) job = run_job(ranks, part.substr(0, part.rfind(' ')));
  EXPECT_EQ(job.became[part]["well"], ranks) << job.output;
}

INSTANTIATE_TEST_SUITE_P(Mpi, CommSuite,
                         ::testing::Values(CommImplementation{.name = "mpi", .backend = "mpi", .run = run_part}),
                         implementation_name);

}  // namespace
}  // namespace tessera::comm::suite
