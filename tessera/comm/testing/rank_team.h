// Ranks as processes that repeat something when told, for benches: the process that measures is none of them, so that
// what it did before and holds does not matter.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace tessera::comm {

/// See the head of this file. Forks: made in a process with no other thread.
class RankTeam {
 public:
  /// What a rank repeats.
  using Body = std::function<void()>;
  /// Starts the ranks; each calls `prepare` once and repeats what it returns. Bound: each to a core, as mpirun does for
  /// peers, where there are enough; not for ranks with threads of their own.
  RankTeam(int ranks, const std::function<Body()>& prepare, bool is_bound = true);
  /// Ends them.
  ~RankTeam();
  RankTeam(const RankTeam&) = delete;
  RankTeam& operator=(const RankTeam&) = delete;
  /// Has all ranks repeat it this often, beginning together. Returns nanoseconds of one, on the slowest rank.
  double run(int times);

 private:
  struct Member {
    pid_t process = -1;
    int orders = -1;   // to it: how often
    int answers = -1;  // from it: nanoseconds
  };
  std::string directory_;
  std::vector<Member> members_;
};

}  // namespace tessera::comm
