#include "tessera/comm/group_observer.h"

#include <cstdio>
#include <cstdlib>

#include "tessera/base/rank.h"
#include "tessera/comm/detail/group_state.h"
#include "tessera/comm/detail/world_state.h"

namespace tessera::comm::detail {
namespace {

// Set before main; read by all threads afterwards.
GroupObserver*& slot() {
  static GroupObserver* observer = nullptr;
  return observer;
}

}  // namespace

const std::string& ObservedGroup::name() const { return state_->name; }

const std::vector<Rank>& ObservedGroup::ranks() const { return state_->ranks; }

Rank ObservedGroup::rank() const { return state_->ranks[static_cast<std::size_t>(state_->rank)]; }

std::uint64_t ObservedGroup::generation() const { return state_->generation; }

std::chrono::nanoseconds ObservedGroup::deadline() const {
  return std::chrono::nanoseconds(state_->deadline_ns.load(std::memory_order_relaxed));
}

std::chrono::nanoseconds ObservedGroup::extended() const {
  return std::chrono::nanoseconds(state_->extended_ns.load(std::memory_order_relaxed));
}

OnHang ObservedGroup::on_hang() const { return state_->on_hang; }

GroupProgress ObservedGroup::progress() const { return state_->record.progress(); }

const std::shared_ptr<Communicator>& ObservedGroup::communicator() const { return state_->communicator; }

void set_group_observer(GroupObserver* observer) {
  if (slot() != nullptr) {
    // An exception before main cannot be caught.
    std::fputs("tessera: two watchdogs are registered\n", stderr);
    std::abort();
  }
  slot() = observer;
}

GroupObserver* group_observer() noexcept {
  // A rank that is alone in its world (traffic.h) waits for nobody.
  const auto* world = slot() == nullptr ? nullptr : current_rank()->find_part<WorldState>();
  return world != nullptr && world->is_alone() ? nullptr : slot();
}

}  // namespace tessera::comm::detail
