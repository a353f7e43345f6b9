#include "tessera/comm/testing/rank_team.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/comm/detail/process_world.h"
#include "tessera/comm/detail/world_state.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/store/file_store.h"
#include "tessera/comm/store/prefix_store.h"
#include "tessera/device/device.h"

namespace tessera::comm {
namespace {

// Like init(), but for a separate rank: that of the process may be in use.
std::shared_ptr<RankContext> make_rank(int rank, int ranks, const std::string& directory) {
  auto context = std::make_shared<RankContext>(
      RankPlace{.rank = Rank(rank), .world_size = ranks, .local_rank = rank, .local_world_size = ranks});
  const RankScope scope(context);
  context->part<detail::WorldState>([&] {
    auto store = std::make_shared<FileStore>(directory);
    auto processes = std::make_shared<detail::ProcessWorld>(std::make_shared<PrefixStore>("world", store), Rank(rank));
    processes->meet(ranks, std::chrono::minutes(1));
    return std::make_shared<detail::WorldState>(store, nullptr, processes);
  });
  return context;
}

// On a busy machine the kernel puts two processes that wake each other on one core, and the bench would measure that.
void bind_to_core(int rank, int ranks) {
  if (ranks > ::sysconf(_SC_NPROCESSORS_ONLN)) return;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(static_cast<std::size_t>(rank), &cores);
  (void)::sched_setaffinity(0, sizeof cores, &cores);
}

void obey(int orders, int answers, const RankTeam::Body& body) {
  const ProcessGroup group = world();
  const device::Stream stream = device::Device::get("host").default_stream();
  for (int times = 0; ::read(orders, &times, sizeof times) == sizeof times && times > 0;) {
    group.launch({.kind = OpKind::kBarrier}, stream).wait();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) body();
    const double took = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
    if (::write(answers, &took, sizeof took) != sizeof took) return;
  }
}

}  // namespace

RankTeam::RankTeam(int ranks, const std::function<Body()>& prepare, bool is_bound) {
  char name[] = "/tmp/tessera_team_XXXXXX";
  TESSERA_CHECK_AS(IoError, ::mkdtemp(name) != nullptr, "no directory for ranks to meet in");
  directory_ = name;
  std::fflush(nullptr);
  for (int rank = 0; rank < ranks; ++rank) {
    int orders[2];
    int answers[2];
    TESSERA_CHECK_AS(IoError, ::pipe(orders) == 0 && ::pipe(answers) == 0, "no pipe");
    const pid_t process = ::fork();
    if (process == 0) {
      if (is_bound) bind_to_core(rank, ranks);
      ::close(orders[1]);
      for (const TeamMember& other : members_) ::close(other.orders);
      try {
        const RankScope scope(make_rank(rank, ranks, directory_ + "/store"));
        obey(orders[0], answers[1], prepare());
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      }
      ::_exit(0);
    }
    ::close(orders[0]);
    ::close(answers[1]);
    members_.push_back({process, orders[1], answers[0]});
  }
}

RankTeam::~RankTeam() {
  for (const TeamMember& member : members_) {
    ::close(member.orders);
    ::close(member.answers);
  }
  for (const TeamMember& member : members_) ::waitpid(member.process, nullptr, 0);
  std::filesystem::remove_all(directory_);
}

double RankTeam::run(int times) {
  for (const TeamMember& member : members_) {
    TESSERA_CHECK_AS(IoError, ::write(member.orders, &times, sizeof times) == sizeof times, "a rank has ended");
  }
  double slowest = 0;
  for (const TeamMember& member : members_) {
    double took = 0;
    TESSERA_CHECK_AS(IoError, ::read(member.answers, &took, sizeof took) == sizeof took, "a rank has ended");
    slowest = std::max(slowest, took);
  }
  return slowest / times;
}

}  // namespace tessera::comm
