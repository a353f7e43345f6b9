#include "tessera/shard/scopes.h"

#include <utility>

#include "tessera/base/error.h"
#include "tessera/shard/detail/counts.h"
#include "tessera/shard/detail/dispatch_plan.h"
#include "tessera/shard/detail/rank_state.h"
#include "tessera/tensor/gradient_moves.h"

namespace tessera::shard {
namespace {

constinit thread_local RedistributeMode in_force = RedistributeMode::kRefused;

}  // namespace

RedistributeMode redistribute_mode() {
  return in_force == RedistributeMode::kRefused && tensor::may_gradient_move() ? RedistributeMode::kAutomatic
                                                                               : in_force;
}

RedistributeModeScope::RedistributeModeScope(RedistributeMode mode) : previous_(std::exchange(in_force, mode)) {}
RedistributeModeScope::~RedistributeModeScope() { in_force = previous_; }

ShardCounts shard_counts() {
  const detail::AtomicShardCounts& all = detail::counters();
  return {all.calls, all.hits, all.evictions, all.automatic, all.collectives, all.nbytes};
}

namespace detail {

AtomicShardCounts& counters() { return rank_state<AtomicShardCounts>(); }

void check_may_communicate(std::string_view what) {
  TESSERA_CHECK_AS(
      NotSupported, in_force != RedistributeMode::kForbidden, what,
      " requires communication inside a ForbidCommunication scope; leave the scope, or redistribute the tensors first",
      backward_note());
}

}  // namespace detail
}  // namespace tessera::shard
