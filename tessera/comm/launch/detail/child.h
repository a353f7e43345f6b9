// The process of a rank: spawned with pipes, in a separate process group, and killed if its launcher dies.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/comm/launch/launch.h"
#include "tessera/comm/store/descriptor.h"

namespace tessera::comm::detail {

/// Arguments of a spawn.
struct ChildRequest {
  const std::vector<std::string>& command;
  /// Overrides the environment of this process.
  const std::vector<std::pair<std::string, std::string>>& environment;
  sigset_t signal_mask;              ///< signal mask of the child
  const cpu_set_t* cores = nullptr;  ///< cores that it may use; null: those of this process
};

/// A spawned process. Move-only. The destructor kills its process group.
class Child {
 public:
  Child() = default;
  /// Spawns the process. Throws IoError if that fails.
  explicit Child(const ChildRequest& request);
  ~Child();
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;

  /// Returns its process id; 0 if it has ended or was never started.
  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Sends a signal to the process and its descendants.
  void signal(int number) const;
  /// Returns how it ended, if it has. Then also kills its descendants and reaps the process.
  std::optional<RankEnd> reap();

  Descriptor out;  ///< its stdout; reads do not block
  Descriptor err;  ///< its stderr; reads do not block

 private:
  pid_t pid_ = 0;
};

}  // namespace tessera::comm::detail
