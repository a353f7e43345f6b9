// The contract of groups, for ranks that are processes of this machine. A rank that dies is killed.
#include <unistd.h>

#include <csignal>

#include "tessera/comm/suite/comm_suite.h"
#include "tessera/comm/testing/rank_processes.h"

namespace tessera::comm::suite {
namespace {

void run_processes(int ranks, const std::function<void()>& body) {
  const std::vector<ProcessEnd> ends = run_rank_processes(ranks, [&](int) {
    try {
      body();
    } catch (const Death&) {
      if (::testing::Test::HasFailure()) std::_Exit(1);
      std::fflush(nullptr);
      ::kill(::getpid(), SIGKILL);
    }
  });
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    const bool is_well = ends[rank].exit_code == 0 || ends[rank].signal == SIGKILL;
    EXPECT_TRUE(is_well) << "rank " << rank << " ended with "
                         << (ends[rank].signal != 0 ? "signal " + std::to_string(ends[rank].signal)
                                                    : "exit code " + std::to_string(ends[rank].exit_code));
  }
}

INSTANTIATE_TEST_SUITE_P(Shm, CommSuite,
                         ::testing::Values(CommImplementation{.name = "shm", .backend = "shm", .run = run_processes}),
                         implementation_name);
INSTANTIATE_TEST_SUITE_P(Shm, SymmetricSuite,
                         ::testing::Values(CommImplementation{.name = "shm", .backend = "shm", .run = run_processes}),
                         implementation_name);

}  // namespace
}  // namespace tessera::comm::suite
