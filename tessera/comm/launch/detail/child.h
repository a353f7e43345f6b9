// A rank's process: started with pipes, in a group of its own, tied to the life of its launcher.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/comm/launch/launch.h"
#include "tessera/comm/store/detail/descriptor.h"

namespace tessera::comm::detail {

/// What to start.
struct ChildRequest {
  const std::vector<std::string>& command;
  /// Set over what this process has.
  const std::vector<std::pair<std::string, std::string>>& environment;
  sigset_t signal_mask;              ///< for the child
  const cpu_set_t* cores = nullptr;  ///< that it may use; null: those of this process
};

/// A started process. Moved, not copied; ends with its group when let go of.
class Child {
 public:
  Child() = default;
  /// Starts it. IoError when it cannot be.
  explicit Child(const ChildRequest& request);
  ~Child();
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;

  /// Its process id; 0: it has ended, or was never started.
  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Sends a signal to the process and all it started.
  void signal(int number) const;
  /// How it ended, if it has; what it started is killed then, and the process is no more.
  std::optional<RankEnd> reap();

  Descriptor out;  ///< what it writes to stdout; reads do not block
  Descriptor err;  ///< and to stderr

 private:
  pid_t pid_ = 0;
};

}  // namespace tessera::comm::detail
