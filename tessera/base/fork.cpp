#include "tessera/base/fork.h"

#include <pthread.h>
#include <unistd.h>

#include "tessera/base/error.h"

namespace tessera::detail {

constinit std::atomic<std::uint32_t> fork_depth{0};

namespace {
// Runs before main: an earlier fork has nothing to inherit.
[[maybe_unused]] const int kRegistered =
    ::pthread_atfork(nullptr, nullptr, [] { fork_depth.fetch_add(1, std::memory_order_relaxed); });

struct Kept {
  const void* object;
  Kept* next;
};
constinit std::atomic<Kept*> kept{nullptr};
}  // namespace

void keep_reachable(const void* object) {
  auto* const node = new Kept{object, kept.load(std::memory_order_relaxed)};
  while (!kept.compare_exchange_weak(node->next, node, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

void throw_forked(std::string_view what) {
  TESSERA_THROW(NotSupported, what, ": must be used in the process that created it, got a forked child (process ",
                ::getpid(), " of parent ", ::getppid(),
                "); call exec after fork, or fork before the first use of Tessera");
}

}  // namespace tessera::detail
