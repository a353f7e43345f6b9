// Exits of processes that a test forks.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace tessera::comm {

/// Call it first in a forked process. The process then exits after its own exit handlers have run, and skips those that
/// its parent registered. These include the leak check of a sanitizer, which sometimes hangs in such a process.
inline void leave_out_what_the_parent_registered() {
  ::on_exit(
      [](int status, void* /*unused*/) {
        std::fflush(nullptr);
        std::_Exit(status);
      },
      nullptr);
}

}  // namespace tessera::comm
