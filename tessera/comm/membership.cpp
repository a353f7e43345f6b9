// Creates groups from groups: subsets, colors, and the survivors of a failure. Ranks agree through the store.
#include <algorithm>
#include <mutex>
#include <numeric>

#include "tessera/base/env.h"
#include "tessera/base/error.h"
#include "tessera/base/fnv1a.h"
#include "tessera/base/log.h"
#include "tessera/base/rank.h"
#include "tessera/comm/detail/backend_hint.h"
#include "tessera/comm/detail/group_state.h"
#include "tessera/comm/detail/peer_memory/failures.h"
#include "tessera/comm/detail/store_wait.h"
#include "tessera/comm/detail/world_state.h"
#include "tessera/comm/group_creation_record.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/store/prefix_store.h"
#include "tessera/comm/store/wait_notice.h"

namespace tessera::comm {
namespace {

std::chrono::nanoseconds deadline_of_environment() { return std::chrono::seconds(env::deadline_seconds()); }

// The world group of a rank. It has a separate lock, since connecting waits for other ranks.
struct WorldGroup {
  std::mutex mutex;
  ProcessGroup group;
};

// The scheduler reports a deadlock to its ranks immediately.
std::chrono::nanoseconds first_deadline() {
  const auto& simulated = detail::WorldState::current().simulated();
  return simulated != nullptr && simulated->scheduler() != nullptr ? device::kForever : deadline_of_environment();
}

// Returns the deadline of the world group, if it is connected.
std::chrono::nanoseconds deadline_of_world() {
  auto* const all = current_rank()->find_part<WorldGroup>();
  if (all == nullptr) return first_deadline();
  const std::unique_lock lock(all->mutex, std::try_to_lock);
  return lock && all->group ? all->group.deadline() : first_deadline();
}

void check_group(const std::shared_ptr<GroupState>& state) {
  TESSERA_CHECK(state != nullptr, "group handle must not be empty; this rank is not a member");
  state->owner.check("process group");
}

// Connects a group of these world ranks; returns an empty handle if this rank is not one of them.
ProcessGroup connect(std::vector<Rank> ranks, const std::string& name, const GroupOptions& options,
                     const GroupState* parent, std::uint64_t generation) {
  const auto self = std::ranges::find(ranks, current_place().rank);
  if (self == ranks.end()) return ProcessGroup();
  const auto inherited =
      parent == nullptr ? deadline_of_environment() : std::chrono::nanoseconds(parent->deadline_ns.load());
  const auto deadline = options.deadline.value_or(inherited);
  std::shared_ptr<GroupState> state(new GroupState, [](GroupState* last) {
    if (last->owner.is_this()) delete last;
  });
  state->name = options.name.empty() ? name : options.name;
  state->digest = tessera::detail::fnv1a(state->name);  // equal in all processes
  state->rank = static_cast<int>(self - ranks.begin());
  state->generation = generation;
  state->deadline_ns.store(deadline.count(), std::memory_order_relaxed);
  const std::string_view backend =
      options.backend.empty() && parent != nullptr ? std::string_view(parent->backend) : options.backend;
  const bool is_process = detail::WorldState::current().processes() != nullptr;
  if (auto* observer = detail::group_observer()) observer->rank_opens(current_place(), is_process);
  state->on_hang = options.on_hang     ? *options.on_hang
                   : parent != nullptr ? parent->on_hang
                                       : detail::on_hang_of_environment();
  detail::GroupCreationRecord creation("group " + state->name, "", 0, ranks);
  state->communicator = creation.during([&] {
    return detail::observed(state->name, state->on_hang, [&] {
      // A rank that aborts a group must not end its parent group.
      const bool is_same = parent != nullptr && parent->ranks == ranks && parent->generation == generation;
      return detail::WorldState::current().communicator(ranks, backend, options.device_kind, generation,
                                                        is_same ? parent->name : std::string(), deadline,
                                                        state->backend);
    });
  });
  creation.done();
  state->symmetric = detail::WorldState::current().symmetric(*state->communicator);
  // A backend that only the device selects determines the default.
  const bool is_any_order =
      backend.empty() && !options.device_kind.empty() && !state->communicator->capabilities().has_fixed_order;
  state->has_fixed_order = options.fixed_order.value_or(parent == nullptr ? !is_any_order : parent->has_fixed_order);
  TESSERA_CHECK_AS(NotSupported, !state->has_fixed_order || state->communicator->capabilities().has_fixed_order,
                   "group ", state->name, ": backend ", state->backend,
                   " does not support deterministic reductions; set GroupOptions::fixed_order to false, or ",
                   detail::backend_hint(&Capabilities::has_fixed_order));
  state->ranks = std::move(ranks);
  state->record.open(*state);
  state->observed.open(*state);
  return ProcessGroup(std::move(state));
}

// Returns the part of the store for a step that each rank of a group takes once.
PrefixStore meeting(const GroupState& group, std::string_view what, std::uint64_t number) {
  return PrefixStore("group " + group.name + "/" + std::string(what) + " " + std::to_string(number),
                     detail::WorldState::current().store());
}

// Returns the contribution of a rank to a step. Throws if the rank is lost.
std::string hear(const GroupState& group, PrefixStore& meeting, std::string_view what, int place,
                 std::chrono::nanoseconds deadline) {
  const std::string key = std::to_string(place);
  if (deadline == device::kForever) return meeting.get(key, deadline);  // the scheduler reports deadlocks
  const std::string who = detail::text_of_members(std::span(&place, 1), group.ranks);
  const std::string subject = "group " + group.name;
  const auto said = detail::wait_for_value(
      meeting, {.key = key,
                .timeout = deadline,
                .subject = subject,
                .whom = tessera::detail::concat(who, " in ", what),
                .check = [&] {
                  const std::string why =
                      group.generation == 0 ? detail::WorldState::current().why_aborted() : std::string();
                  TESSERA_CHECK_AS(AbortedError, why.empty(), subject, ": ", what, ": ", why);
                  const std::vector<int> gone = group.communicator->gone();
                  TESSERA_CHECK_AS(AbortedError, std::ranges::find(gone, place) == gone.end() || meeting.find(key),
                                   subject, ": ", what, ": ", who, " has ended or left");
                }});
  TESSERA_CHECK_AS(TimeoutError, said.has_value(), subject, ": ", what, ": ", who, " did not arrive within ", deadline);
  return *said;
}

std::vector<int> parse_places(std::string_view text) {
  std::vector<int> places;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    places.push_back(std::stoi(std::string(text.substr(at, end - at))));
    at = end + 1;
  }
  return places;
}

}  // namespace

ProcessGroup world() {
  auto& own = current_rank()->part<WorldGroup>([] { return std::make_shared<WorldGroup>(); });
  const std::lock_guard lock(own.mutex);
  if (own.group) return own.group;
  std::vector<Rank> ranks;
  for (int rank = 0; rank < current_place().world_size; ++rank) ranks.emplace_back(rank);
  const GroupOptions options{.backend = detail::WorldState::current().backend(), .deadline = first_deadline()};
  own.group = connect(std::move(ranks), "world", options, nullptr, 0);
  return own.group;
}

ProcessGroup group_of(std::span<const Rank> ranks, const GroupOptions& options) {
  std::vector<Rank> members(ranks.begin(), ranks.end());
  const std::string name = detail::text_of(members);
  TESSERA_CHECK(std::ranges::find(members, current_place().rank) != members.end(), "group ", name,
                ": the calling rank must be a member, got rank ", current_place().rank);
  for (const Rank rank : members) {
    TESSERA_CHECK(rank.value() >= 0 && rank.value() < current_place().world_size, "group ", name,
                  ": ranks must be in [0, ", current_place().world_size - 1, "], got ", rank);
    TESSERA_CHECK(std::ranges::count(members, rank) == 1, "group ", name, ": ranks must be distinct, got rank ", rank,
                  " twice");
  }
  // Does not connect the world: ranks outside the group may never arrive.
  GroupOptions given = options;
  if (!given.deadline) given.deadline = deadline_of_world();
  return connect(std::move(members), name, given, nullptr, 0);
}

ProcessGroup ProcessGroup::subgroup(std::span<const int> places, const GroupOptions& options) const {
  check_group(state_);
  const std::uint64_t number = state_->made.fetch_add(1) + 1;
  std::vector<Rank> members;
  for (const int place : places) {
    TESSERA_CHECK(place >= 0 && place < size(), "group ", name(), ": subgroup ranks must be in [0, ", size() - 1,
                  "], got ", place);
    const Rank member = ranks()[static_cast<std::size_t>(place)];
    TESSERA_CHECK(std::ranges::find(members, member) == members.end(), "group ", name(),
                  ": subgroup ranks must be distinct, got rank ", place, " twice");
    members.push_back(member);
  }
  TESSERA_CHECK(!members.empty(), "group ", name(), ": a subgroup must have at least one rank");
  return connect(std::move(members), name() + "/" + std::to_string(number), options, state_.get(), state_->generation);
}

ProcessGroup ProcessGroup::split(int colour, int key, const GroupOptions& options) const {
  check_group(state_);
  const std::uint64_t number = state_->made.fetch_add(1) + 1;
  const std::string what = "split " + std::to_string(number);
  detail::GroupCreationRecord creation(what + " of group " + name(), name(), number, ranks());
  PrefixStore store = meeting(*state_, "split", number);
  store.set(std::to_string(rank()), std::to_string(colour) + " " + std::to_string(key));
  struct Member {
    int key;
    int place;
  };
  std::vector<Member> members;
  for (int place = 0; place < size(); ++place) {
    const std::vector<int> said = creation.during([&] {
      return detail::observed(name(), state_->on_hang,
                              [&] { return parse_places(hear(*state_, store, what, place, deadline())); });
    });
    if (said[0] == colour) members.push_back({said[1], place});
  }
  creation.done();
  if (colour == -1) return ProcessGroup();
  std::ranges::sort(
      members, [](const Member& a, const Member& b) { return std::pair(a.key, a.place) < std::pair(b.key, b.place); });
  std::vector<Rank> ranks;
  for (const Member& member : members) ranks.push_back(state_->ranks[static_cast<std::size_t>(member.place)]);
  return connect(std::move(ranks), name() + "/" + std::to_string(number) + ":" + std::to_string(colour), options,
                 state_.get(), state_->generation);
}

// Each rank announces itself, waits until all are present or known to be lost, and proposes those present. All ranks
// adopt the first proposal. A rank that is too late to be in it gets an error.
std::vector<int> ProcessGroup::agree(std::chrono::nanoseconds timeout) const {
  check_group(state_);
  const std::uint64_t number = state_->agreements.fetch_add(1) + 1;
  PrefixStore store = meeting(*state_, "agree", number);
  store.set("here " + std::to_string(rank()), "");
  const auto until =
      std::chrono::steady_clock::now() + std::min<std::chrono::nanoseconds>(timeout, std::chrono::hours(24));
  constexpr std::chrono::milliseconds kLook(20);  // polling period for lost ranks
  detail::WaitNotice notice(std::chrono::steady_clock::now());
  std::vector<int> here;
  while (true) {
    here.clear();
    std::vector<std::string> missing;
    std::vector<int> awaited;
    const std::vector<int> gone = state_->communicator->gone();
    for (int place = 0; place < size(); ++place) {
      const std::string key = "here " + std::to_string(place);
      if (std::ranges::find(gone, place) != gone.end()) continue;  // it may have arrived and died since
      if (store.find(key)) {
        here.push_back(place);
      } else {
        missing.push_back(key);
        awaited.push_back(place);
      }
    }
    if (missing.empty() || store.find("result") || std::chrono::steady_clock::now() >= until) break;
    try {
      store.wait(missing, kLook);
    } catch (const TimeoutError&) {
      // Some ranks may be lost by now.
      const auto waited = notice.due(std::chrono::steady_clock::now());
      if (waited && here.front() == rank())
        log::info("group ", name(), ": waiting ", waited->count(), " s for ", detail::text_of_members(awaited, ranks()),
                  " to agree");
    }
  }
  std::string text;
  for (const int place : here) text += (text.empty() ? "" : " ") + std::to_string(place);
  std::vector<int> agreed = parse_places(*store.compare_set("result", std::nullopt, text));
  TESSERA_CHECK_AS(AbortedError, std::ranges::find(agreed, rank()) != agreed.end(), "group ", name(),
                   ": the other ranks (", store.get("result", timeout), ") agreed to continue without rank ", rank(),
                   ", which arrived too late");
  return agreed;
}

ProcessGroup ProcessGroup::shrink(std::chrono::nanoseconds timeout, const GroupOptions& options) const {
  check_group(state_);
  TESSERA_CHECK_AS(NotSupported, state_->communicator->capabilities().has_shrink, "group ", name(), ": backend ",
                   backend(), " cannot shrink; restart the job from a checkpoint, or ",
                   detail::backend_hint(&Capabilities::has_shrink));
  for (std::uint64_t generation = state_->generation + 1;; ++generation) {
    const std::vector<int> agreed = agree(timeout);
    std::vector<Rank> left;
    for (const int place : agreed) left.push_back(ranks()[static_cast<std::size_t>(place)]);
    try {
      return connect(std::move(left), name() + " shrunk " + std::to_string(generation), options, state_.get(),
                     generation);
    } catch (const AbortedError&) {
      // A rank that agreed has died, which all others see: they agree again, at most once per rank.
      const std::vector<int> gone = state_->communicator->gone();
      const bool has_died =
          std::ranges::any_of(agreed, [&](int place) { return std::ranges::find(gone, place) != gone.end(); });
      if (!has_died) throw;
    }
  }
}

}  // namespace tessera::comm
