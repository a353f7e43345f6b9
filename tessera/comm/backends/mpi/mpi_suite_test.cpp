// What groups promise, for ranks that mpirun starts. A case runs its body in a new job: this program again, under
// mpirun, told which case it is and which of the case's jobs. A rank whose transport lacks what the case needs ends
// with kLacks, and the case is skipped.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "tessera/comm/suite/comm_suite.h"
#include "tessera/comm/testing/mpirun.h"

namespace tessera::comm::suite {
namespace {

constexpr int kLacks = 77;
// Not TESSERA_...: these are no settings of the library.
constexpr const char* kJob = "COMM_SUITE_JOB";
constexpr const char* kStore = "COMM_SUITE_STORE";

// Which job of the running case this is, from 1.
int next_job() {
  static std::string of;
  static int job = 0;
  const testing::TestInfo* info = testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = info->name();
  if (std::exchange(of, name) != name) job = 0;
  return ++job;
}

void be_rank(const std::function<void()>& body) {
  ::setenv("TESSERA_RECORD_BYTES", "1MiB", 0);
  try {
    init({.store = std::getenv(kStore), .backend = "mpi"});
    body();
  } catch (const Lacking& lacking) {
    std::printf("%s\n", lacking.what.c_str());
    std::fflush(nullptr);
    std::exit(kLacks);
  } catch (const Death&) {
    ADD_FAILURE() << "a death ends the job: cases with one need a transport that can shrink";
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
}

void run_job(int ranks, const std::function<void()>& body) {
  const int job = next_job();
  if (const char* wanted = std::getenv(kJob)) {
    if (std::to_string(job) == wanted) be_rank(body);
    return;
  }
  if (testing::Test::IsSkipped()) return;  // by an earlier job of the case
  if (find_mpirun().empty()) GTEST_SKIP() << "no mpirun on PATH";
  char folder[] = "/tmp/tessera_mpi_XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  const testing::TestInfo* info = testing::UnitTest::GetInstance()->current_test_info();
  std::vector<std::string> command = mpirun_command(ranks, 250);
  command.insert(command.end(),
                 {std::filesystem::read_symlink("/proc/self/exe"),
                  std::string("--gtest_filter=") + info->test_suite_name() + "." + info->name(), "--gtest_brief=1"});
  // MPI's own memory and threads are not ours to check.
  const CommandEnd end =
      run_command(command, {kJob + ("=" + std::to_string(job)), kStore + ("=file://" + std::string(folder) + "/store"),
                            "ASAN_OPTIONS=detect_leaks=0", "TSAN_OPTIONS=ignore_noninstrumented_modules=1"});
  std::filesystem::remove_all(folder);
  if (end.exit_code == kLacks) GTEST_SKIP() << "the transport declares that it cannot";
  EXPECT_EQ(end.exit_code, 0) << end.output;
}

INSTANTIATE_TEST_SUITE_P(Mpi, CommSuite,
                         testing::Values(Implementation{.name = "mpi", .backend = "mpi", .run = run_job}),
                         implementation_name);

}  // namespace
}  // namespace tessera::comm::suite
