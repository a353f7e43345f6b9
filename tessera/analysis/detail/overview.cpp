#include "tessera/analysis/detail/overview.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "tessera/analysis/detail/wording.h"

namespace tessera::analysis::detail {
namespace {

constexpr std::int64_t kClockTolerance = 1'000'000'000;  // clocks within it count as equal
constexpr std::size_t kClockSamples = 64;                // collectives of a group that are compared

std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  return (hash ^ word) * 0x9e3779b97f4a7c15 ^ (hash >> 29);
}

// Identifies a group on all ranks: its name, its members, and its number among those on its rank.
std::uint64_t hash_of(const Group& group, std::size_t occurrence) {
  std::uint64_t hash = std::hash<std::string>{}(group.name);
  for (const int rank : group.ranks) hash = mixed(hash, static_cast<std::uint64_t>(static_cast<std::uint32_t>(rank)));
  return mixed(hash, occurrence);
}

// Returns the group rank of this rank; the size of the group if it is not a member.
std::size_t place_of(const Rank& rank, const Group& group) {
  const auto place = static_cast<std::size_t>(group.rank);
  if (group.rank >= 0 && place < group.ranks.size() && group.ranks[place] == rank.rank) return place;
  return static_cast<std::size_t>(std::find(group.ranks.begin(), group.ranks.end(), rank.rank) - group.ranks.begin());
}

bool is_distinct(const std::vector<int>& ranks) {
  std::unordered_set<int> seen;
  return std::all_of(ranks.begin(), ranks.end(), [&](int rank) { return seen.insert(rank).second; });
}

// Recorders that never record a start leave launches as enqueued until they end.
bool sees_beginnings(const Group& group) {
  bool has_ended = false;
  for (const CollectiveCall& launch : group.launches) {
    if (launch.begun_ns != 0 || launch.stage == Stage::kBegun || launch.stage == Stage::kMet) return true;
    has_ended = has_ended || launch.stage == Stage::kDone;
  }
  return !has_ended;
}

class Filling {
 public:
  Filling(GroupMember& member, const Rank& rank) : member_(member), ranks_(member.group->ranks) {
    nothing_is_lost_ = rank.lost == 0 && (member.group->launches.empty() || member.group->launches.front().task <= 1);
  }

  void fill() {
    const Group& group = *member_.group;
    const bool sees = sees_beginnings(group);
    std::uint32_t last_task = 0;  // a task enqueued before started ones was captured: its replays start
    for (const CollectiveCall& launch : group.launches) {
      if (launch.stage != Stage::kAsked && launch.replay == 0) last_task = std::max(last_task, launch.task);
    }
    for (const CollectiveCall& launch : group.launches) {
      if (launch.operations.empty()) continue;
      const bool has_come = launch.stage != Stage::kAsked || (!sees && launch.collective_number != 0);
      if (!has_come && launch.task != 0 && launch.task < last_task) continue;
      if (launch.is_message()) {
        add_messages(launch, has_come);
      } else {
        add_collective(launch, has_come);
      }
    }
    number_collectives();
  }

 private:
  void add_collective(const CollectiveCall& launch, bool has_come) {
    if (!has_come) {
      member_.pending.push_back({launch.collective_number, &launch});
    } else if (launch.collective_number == 0) {
      unnumbered_.push_back(&launch);
    } else {
      member_.collectives.push_back({launch.collective_number, &launch});
    }
  }

  void add_messages(const CollectiveCall& launch, bool has_come) {
    bool is_first = true;
    for (const RecordedOperation& operation : launch.operations) {
      const bool is_numbered = is_first && launch.collective_number != 0;
      is_first = false;
      if (operation.peer < 0 || static_cast<std::size_t>(operation.peer) >= ranks_.size()) continue;
      const bool is_send = operation.kind != "recv";
      std::uint64_t& number = numbers_[{operation.peer, is_send}];
      number = is_numbered ? launch.collective_number : number + 1;
      (has_come ? member_.messages : member_.pending_messages)
          .push_back({static_cast<std::size_t>(operation.peer), is_send, number, &launch, &operation,
                      is_numbered || nothing_is_lost_});
    }
  }

  void number_collectives() {
    auto& collectives = member_.collectives;
    if (collectives.empty() && member_.messages.empty() && member_.group->begun != 0) {
      // A group without point-to-point operations has started as many collectives as launches: the table has the last.
      std::uint64_t collective_number = member_.group->begun;
      member_.come = collective_number;
      member_.is_counted = true;
      for (auto at = unnumbered_.rbegin(); at != unnumbered_.rend() && collective_number > 0;
           ++at, --collective_number) {
        collectives.push_back({collective_number, *at});
      }
    } else {
      member_.has_unnumbered = !unnumbered_.empty();
    }
    std::stable_sort(collectives.begin(), collectives.end(),
                     [](const Numbered& a, const Numbered& b) { return a.collective_number < b.collective_number; });
    const auto is_same = [](const Numbered& a, const Numbered& b) {
      return a.collective_number == b.collective_number;
    };
    collectives.erase(std::unique(collectives.begin(), collectives.end(), is_same), collectives.end());
    if (!collectives.empty()) member_.come = std::max(member_.come, collectives.back().collective_number);
    std::uint64_t next = member_.come;
    for (Numbered& asked : member_.pending) {
      if (next == ~std::uint64_t{0}) break;
      asked.collective_number = asked.collective_number > next ? asked.collective_number : next + 1;
      next = asked.collective_number;
    }
  }

  GroupMember& member_;
  const std::vector<int>& ranks_;
  bool nothing_is_lost_ = false;
  std::vector<const CollectiveCall*> unnumbered_ = {};
  std::map<std::pair<int, bool>, std::uint64_t> numbers_ = {};
};

class Sorting {
 public:
  explicit Sorting(const Evidence& evidence) { found_.evidence = &evidence; }

  Overview sorted() {
    for (const Rank& rank : found_.evidence->ranks) {
      if (!found_.ranks.emplace(rank.rank, &rank).second) continue;  // duplicate: the first counts
      found_.standings.emplace(rank.rank, standing_of(rank));
      std::unordered_map<std::uint64_t, std::size_t> occurrences;
      for (const Group& group : rank.groups) add(rank, group, occurrences[hash_of(group, 0)]++);
    }
    for (GroupView& view : found_.groups) {
      for (GroupMember& member : view.members) {
        member.known = found_.find(member.rank);
        if (member.known != nullptr) member.standing = found_.standings.at(member.rank);
      }
    }
    return std::move(found_);
  }

 private:
  void add(const Rank& rank, const Group& group, std::size_t occurrence) {
    const std::size_t place = place_of(rank, group);
    if (place >= group.ranks.size()) return;
    GroupView* view = view_of(group, occurrence);
    if (view == nullptr || view->members[place].group != nullptr) return;
    GroupMember& member = view->members[place];
    member.group = &group;
    Filling(member, rank).fill();
  }

  GroupView* view_of(const Group& group, std::size_t occurrence) {
    const std::uint64_t hash = hash_of(group, occurrence);
    for (const std::size_t at : by_hash_[hash]) {
      if (found_.groups[at].name == group.name && *ranks_[at] == group.ranks) return &found_.groups[at];
    }
    if (!is_distinct(group.ranks)) return nullptr;
    by_hash_[hash].push_back(found_.groups.size());
    ranks_.push_back(&group.ranks);
    GroupView& view = found_.groups.emplace_back();
    view.name = group.name;
    for (const int rank : group.ranks) view.members.push_back({.rank = rank});
    return &view;
  }

  Overview found_;
  std::vector<const std::vector<int>*> ranks_ = {};
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> by_hash_ = {};
};

std::int64_t median(std::vector<std::int64_t>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// All ranks end a collective at about the same moment: the differences are those of their clocks.
void compare_clocks(const GroupView& view, Overview& found) {
  std::map<std::uint64_t, std::vector<std::pair<int, std::int64_t>>> ends;  // by collective number: rank and time
  for (const GroupMember& member : view.members) {
    std::size_t taken = 0;
    for (auto at = member.collectives.rbegin(); at != member.collectives.rend() && taken < kClockSamples; ++at) {
      if (at->launch->stage != Stage::kDone || at->launch->ended_ns <= 0) continue;
      ends[at->collective_number].emplace_back(member.rank, at->launch->ended_ns);
      ++taken;
    }
  }
  std::unordered_map<int, std::vector<std::int64_t>> apart;
  for (const auto& [collective_number, times] : ends) {
    if (times.size() < 2) continue;
    std::vector<std::int64_t> all;
    for (const auto& [rank, time] : times) all.push_back(time);
    const std::int64_t middle = median(all);
    for (const auto& [rank, time] : times) apart[rank].push_back(difference(middle, time));
  }
  for (auto& [rank, values] : apart) {
    const std::int64_t ahead = median(values);
    const bool is_apart = ahead > kClockTolerance || ahead < -kClockTolerance;
    if (values.size() >= 2 && is_apart) found.clock_ahead_ns.emplace(rank, ahead);
  }
}

}  // namespace

const Rank* Overview::find(int rank) const {
  const auto found = ranks.find(rank);
  return found == ranks.end() ? nullptr : found->second;
}

std::int64_t Overview::shared_time(int rank, std::int64_t time_ns) const {
  if (time_ns == 0 || clock_ahead_ns.empty()) return time_ns;
  const auto found = clock_ahead_ns.find(rank);
  return found == clock_ahead_ns.end() ? time_ns : difference(found->second, time_ns);
}

Overview overview_of(const Evidence& evidence) {
  Overview found = Sorting(evidence).sorted();
  const auto largest =
      std::max_element(found.groups.begin(), found.groups.end(),
                       [](const GroupView& a, const GroupView& b) { return a.members.size() < b.members.size(); });
  if (largest != found.groups.end()) compare_clocks(*largest, found);
  return found;
}

const CollectiveCall* collective_at(const GroupMember& member, std::uint64_t collective_number) {
  const auto at =
      std::lower_bound(member.collectives.begin(), member.collectives.end(), collective_number,
                       [](const Numbered& one, std::uint64_t wanted) { return one.collective_number < wanted; });
  return at != member.collectives.end() && at->collective_number == collective_number ? at->launch : nullptr;
}

}  // namespace tessera::analysis::detail
