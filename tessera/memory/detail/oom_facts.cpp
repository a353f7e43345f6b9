// Collects the facts of a failed request.
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "tessera/memory/detail/capture_scope.h"

namespace tessera::memory::detail {
namespace {

void add_address_limit(OomFacts& facts) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  facts.address_limit_nbytes = limit.rlim_cur;
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  facts.address_nbytes = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

OomFacts oom_facts(AllocatorState& state, const AllocationRequest& request, const device::MemoryUse& use) {
  OomFacts facts;
  facts.device = state.name;
  facts.requested_nbytes = request.nbytes;
  facts.rounded_nbytes = request.size;
  std::size_t unit = request.pool->upstream->granularity();
  if (!request.pool->options.no_split || request.pool->expandable != nullptr)
    unit = std::max(state.policy.granule_nbytes, unit);
  facts.growth_nbytes = (request.size + unit - 1) / unit * unit;
  facts.stream = request.slot.id();
  facts.pool = request.pool->id;
  facts.label = Label::text_of(current_label);
  facts.is_in_capture = request.capture != nullptr;
  facts.limit_nbytes = state.reserved.limit();
  add_address_limit(facts);
  facts.snapshot = state.snapshot(nullptr);
  // Memory from another source than the device (pinned, custom) has no account there.
  if (request.pool->upstream == state.upstream && !state.host_writes) {
    facts.device_total_nbytes = use.total_nbytes;
    facts.device_free_nbytes = use.free_nbytes;
    if (use.process_nbytes.has_value()) facts.process_nbytes = *use.process_nbytes;
    const std::size_t reserved = facts.snapshot.totals().reserved_nbytes;
    facts.other_allocators_nbytes = use.own_nbytes - std::min(use.own_nbytes, reserved);
  }
  const std::lock_guard lock(state.slow_mutex);
  for (const auto& pool : state.pools) {
    if (pool->options.borrow_on_oom) facts.borrowable_pools.push_back(pool->id);
  }
  return facts;
}

}  // namespace tessera::memory::detail
