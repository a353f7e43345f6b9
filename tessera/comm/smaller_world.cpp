#include "tessera/comm/smaller_world.h"

#include <algorithm>
#include <optional>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/comm/communicator.h"
#include "tessera/comm/detail/group_hooks.h"
#include "tessera/comm/detail/group_state.h"
#include "tessera/comm/detail/process_world.h"
#include "tessera/comm/detail/world_state.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/store/prefix_store.h"
#include "tessera/device/device.h"

namespace tessera::comm {
namespace {

using detail::ProcessWorld;
using detail::WorldState;

std::shared_ptr<RankContext> make_rank(std::span<const int> ranks) {
  const RankPlace& old = current_place();
  const auto found = std::ranges::find(ranks, old.rank.value());
  TESSERA_CHECK(found != ranks.end(), "shrunk world: the calling rank must be a member, got rank ", old.rank);
  const int size = static_cast<int>(ranks.size());
  const int rank = static_cast<int>(found - ranks.begin());
  // Only shm can continue, and it runs on one machine.
  return std::make_shared<RankContext>(RankPlace{
      .rank = Rank(rank), .world_size = size, .local_rank = rank, .local_world_size = size, .run_dir = old.run_dir});
}

}  // namespace

std::vector<int> agree_on_left(std::string_view reason, std::chrono::nanoseconds timeout) {
  WorldState& state = WorldState::current();
  TESSERA_CHECK_AS(NotSupported, state.processes() != nullptr,
                   "shrunk world: ranks must be processes, got threads of one process");
  const ProcessGroup all = world();
  TESSERA_CHECK_AS(NotSupported, all.state()->communicator->capabilities().has_shrink, "group ", all.name(),
                   ": backend ", all.backend(), " cannot shrink; restart the job from a checkpoint");
  state.abort(reason);
  return all.agree(timeout);
}

SmallerWorld::SmallerWorld(std::span<const int> ranks, std::chrono::nanoseconds timeout)
    : rank_(make_rank(ranks)), scope_([&] {
        // The store is a prefix of that of the previous world; a world nested in this one uses another prefix.
        const auto store = std::make_shared<PrefixStore>("smaller world", WorldState::current().store());
        const Rank rank = rank_->place().rank;
        std::shared_ptr<ProcessWorld> processes;
        if (ranks.size() > 1) {
          // All survivors have reported the failure of the previous world, and nothing of this one has started.
          if (auto* observer = detail::group_observer()) observer->rank_opens(rank_->place(), /*is_process=*/true);
          processes = std::make_shared<ProcessWorld>(std::make_shared<PrefixStore>("world", store), rank);
          processes->meet(static_cast<int>(ranks.size()), timeout);
        }
        if (processes)
          rank_->part<WorldState>(
              [&] { return std::make_shared<WorldState>(store, nullptr, processes, WorldState::current().backend()); });
        return rank_;
      }()) {}

// Like the end of a simulated rank: its work, then the communicators that peers wait for, then its memory.
SmallerWorld::~SmallerWorld() {
  try {
    device::Device::get("host").synchronize();
    WorldState::current().leave();
    WorldState::current().let_go();
  } catch (const std::exception& error) {
    log::debug("shrunk world: cleanup failed: ", error.what());
  }
}

}  // namespace tessera::comm
