// Ends of processes that a test forks.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace tessera::comm {

/// For the first line of a forked process: it ends once all that it registers itself for its end has run. What its
/// parent registered is the parent's, the leak check of a sanitizer among it, which hangs now and then in such a
/// process.
inline void leave_out_what_the_parent_registered() {
  ::on_exit(
      [](int status, void* /*unused*/) {
        std::fflush(nullptr);
        std::_Exit(status);
      },
      nullptr);
}

}  // namespace tessera::comm
