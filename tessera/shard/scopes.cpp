#include "tessera/shard/scopes.h"

#include <utility>

#include "tessera/base/error.h"
#include "tessera/shard/detail/counts.h"
#include "tessera/shard/detail/dispatch_plan.h"
#include "tessera/shard/detail/rank_state.h"
#include "tessera/tensor/gradient_moves.h"

namespace tessera::shard {
namespace {

constinit thread_local Moving in_force = Moving::kRefused;

}  // namespace

Moving moving() { return in_force == Moving::kRefused && tensor::may_gradient_move() ? Moving::kAutomatic : in_force; }

MovingScope::MovingScope(Moving moving) : previous_(std::exchange(in_force, moving)) {}
MovingScope::~MovingScope() { in_force = previous_; }

ShardCounts shard_counts() {
  const detail::AtomicShardCounts& all = detail::counters();
  return {all.calls, all.hits, all.evictions, all.automatic, all.collectives, all.nbytes};
}

namespace detail {

AtomicShardCounts& counters() { return rank_state<AtomicShardCounts>(); }

void check_may_communicate(std::string_view what) {
  TESSERA_CHECK_AS(
      NotSupported, in_force != Moving::kForbidden, what,
      " requires communication inside a ForbidCommunication scope; leave the scope, or redistribute the tensors first",
      backward_note());
}

}  // namespace detail
}  // namespace tessera::shard
