#include "tessera/comm/testing/rank_processes.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/comm/testing/forked.h"
#include "tessera/comm/world.h"

namespace tessera::comm {
namespace {

struct Child {
  pid_t process = -1;
  int handle = -1;  // pidfd
  bool has_ended = false;
};

[[noreturn]] void be_rank(int rank, int ranks, const std::string& directory, const std::function<void(int)>& body) {
  leave_out_what_the_parent_registered();
  ::setenv("TESSERA_RECORD_DIR", std::filesystem::path(directory).parent_path().c_str(), 0);
  ::setenv("TESSERA_RECORD_BYTES", "1MiB", 0);  // all of it is touched when a rank starts, which takes time
  bool is_well = false;
  try {
    init({.rank = rank, .world_size = ranks, .store = "file://" + directory});
    body(rank);
    is_well = !testing::Test::HasFailure();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
  }
  std::exit(is_well ? 0 : 1);
}

ProcessEnd collect(Child& child) {
  int status = 0;
  ::waitpid(child.process, &status, 0);
  ::close(child.handle);
  child.has_ended = true;
  return WIFEXITED(status) ? ProcessEnd{.exit_code = WEXITSTATUS(status)} : ProcessEnd{.signal = WTERMSIG(status)};
}

}  // namespace

std::vector<ProcessEnd> run_rank_processes(int ranks, const std::function<void(int)>& body) {
  char name[] = "/dev/shm/tessera_ranks_XXXXXX";  // also holds the records of ranks that die
  TESSERA_CHECK_AS(IoError, ::mkdtemp(name) != nullptr, "no directory for ranks to meet in");
  const std::string base = name;
  std::fflush(nullptr);
  std::vector<Child> children(static_cast<std::size_t>(ranks));
  std::vector<ProcessEnd> ends(children.size());
  for (int rank = 0; rank < ranks; ++rank) {
    Child& child = children[static_cast<std::size_t>(rank)];
    child.process = ::fork();
    if (child.process == 0) be_rank(rank, ranks, base + "/store", body);
    child.handle = static_cast<int>(::syscall(SYS_pidfd_open, child.process, 0));
  }
  bool has_failed = false;
  for (std::size_t left = children.size(); left > 0;) {
    std::vector<pollfd> polled;
    for (const Child& child : children) polled.push_back({child.has_ended ? -1 : child.handle, POLLIN, 0});
    const int ready = ::poll(polled.data(), polled.size(), has_failed ? 20'000 : -1);
    for (std::size_t i = 0; i < children.size(); ++i) {
      if (children[i].has_ended) continue;
      if (ready == 0) ::kill(children[i].process, SIGKILL);
      if (ready != 0 && polled[i].revents == 0) continue;
      ends[i] = collect(children[i]);
      has_failed |= ends[i].exit_code != 0;
      --left;
    }
  }
  std::filesystem::remove_all(base);
  return ends;
}

}  // namespace tessera::comm
