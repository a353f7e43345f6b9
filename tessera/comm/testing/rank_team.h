// Ranks as processes that repeat an operation on request, for benches. The measuring process is not a rank, so that its
// earlier work and its memory do not affect the result.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace tessera::comm {

/// The ranks. The constructor forks, so it needs a process with no other thread.
class RankTeam {
 public:
  /// The repeated operation.
  using Body = std::function<void()>;
  /// Starts the ranks. Each calls `prepare` once and repeats the returned body. If `is_bound`, binds each rank to a
  /// core, as mpirun does, if there are enough cores; do not use it for ranks with threads.
  RankTeam(int ranks, const std::function<Body()>& prepare, bool is_bound = true);
  /// Ends the ranks.
  ~RankTeam();
  RankTeam(const RankTeam&) = delete;
  RankTeam& operator=(const RankTeam&) = delete;
  /// Makes all ranks repeat the operation `times` times, starting together. Returns nanoseconds per repetition on the
  /// slowest rank.
  double run(int times);

 private:
  struct TeamMember {
    pid_t process = -1;
    int orders = -1;   // pipe to it: number of repetitions
    int answers = -1;  // pipe from it: nanoseconds
  };
  std::string directory_;
  std::vector<TeamMember> members_;
};

}  // namespace tessera::comm
