#include "tessera/analysis/detail/waits.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "tessera/analysis/detail/rank_position.h"
#include "tessera/analysis/detail/wording.h"

namespace tessera::analysis::detail {
namespace {

constexpr std::int64_t kOld = 1'000'000'000;  // shorter waits are normal

// Returns true if ranks that run in turns failed with a detected deadlock: then their current operations failed by it.
bool was_told_of_a_deadlock(const Evidence& evidence) {
  return std::any_of(evidence.ranks.begin(), evidence.ranks.end(), [](const Rank& rank) {
    return rank.reason.find("deadlock: every participant waits") != std::string::npos;
  });
}

// Returns true if the rank waits in it, or did until it failed.
bool is_waiting(const CollectiveCall& launch, bool is_deadlock) {
  if (is_deadlock && launch.stage == Stage::kFailed && launch.failure == "device error") return true;
  return launch.stage == Stage::kBegun || launch.stage == Stage::kMet ||
         (launch.stage == Stage::kFailed && failed_by_others(launch) && launch.failure != "mismatch");
}

// A rank that ended, or is gone by its own fault, no longer waits.
bool can_wait(const GroupMember& member) {
  return member.standing == RankPosition::kAtWork || member.standing == RankPosition::kVictim ||
         member.standing == RankPosition::kTold;
}

class Gathering {
 public:
  explicit Gathering(const Overview& overview)
      : overview_(overview),
        is_deadlock_(was_told_of_a_deadlock(*overview.evidence)),
        is_final_(is_deadlock_ || is_final(*overview.evidence)) {}

  WaitGraph found() {
    for (std::size_t i = 0; i < overview_.groups.size(); ++i) {
      add_collectives(i);
      add_messages(i);
      add_signals(i);
    }
    for (std::size_t i = 0; i < graph_.meetings.size(); ++i) {
      UnfinishedCollective& meeting = graph_.meetings[i];
      settle(meeting);
      for (const Waiter& waiter : meeting.waiters) {
        const GroupMember& member = overview_.groups[meeting.group].members[waiter.member];
        if (can_wait(member)) graph_.meetings_of[member.rank].push_back(i);
      }
    }
    return std::move(graph_);
  }

 private:
  [[nodiscard]] std::int64_t waited(int rank, const CollectiveCall& launch) const {
    if (launch.stage == Stage::kFailed) return elapsed(launch.begun_ns, launch.ended_ns);
    const std::int64_t since = launch.begun_ns != 0 ? launch.begun_ns : launch.asked_ns;
    return elapsed(overview_.shared_time(rank, since), overview_.evidence->taken_ns);
  }

  void add_collectives(std::size_t index) {
    const GroupView& group = overview_.groups[index];
    std::map<std::uint64_t, UnfinishedCollective> by_collective_number;
    for (std::size_t i = 0; i < group.members.size(); ++i) {
      const GroupMember& member = group.members[i];
      const CollectiveCall* asked = asked_unseen(member);
      for (const Numbered& one : member.collectives) {
        if (!is_waiting(*one.launch, is_deadlock_) && one.launch != asked) continue;
        UnfinishedCollective& meeting = by_collective_number[one.collective_number];
        meeting.group = index;
        meeting.collective_number = one.collective_number;
        meeting.waiters.push_back({i, one.launch, nullptr, waited(member.rank, *one.launch)});
        break;  // later ones wait for it
      }
    }
    for (auto& [collective_number, meeting] : by_collective_number) {
      find_absent(group, meeting);
      graph_.meetings.push_back(std::move(meeting));
    }
  }

  // If starts are not recorded, it waits in the first enqueued launch that has not ended.
  static const CollectiveCall* asked_unseen(const GroupMember& member) {
    for (const Numbered& one : member.collectives) {
      if (one.launch->stage == Stage::kAsked) return one.launch;
    }
    return nullptr;
  }

  // Returns the time of the first failure in it, on the shared clock of the ranks; 0 if none failed or unknown.
  [[nodiscard]] std::int64_t failed_at(const GroupView& group, const UnfinishedCollective& meeting) const {
    std::int64_t first = std::numeric_limits<std::int64_t>::max();
    for (const Waiter& waiter : meeting.waiters) {
      if (waiter.launch->stage != Stage::kFailed || waiter.launch->ended_ns <= 0) continue;
      first = std::min(first, overview_.shared_time(group.members[waiter.member].rank, waiter.launch->ended_ns));
    }
    return first == std::numeric_limits<std::int64_t>::max() ? 0 : first;
  }

  // A member that starts after the others have failed finds the meeting over, and fails with their message.
  [[nodiscard]] bool came_too_late(const GroupMember& member, const CollectiveCall& launch,
                                   std::int64_t failed_ns) const {
    if (launch.stage != Stage::kFailed || failed_ns == 0) return false;
    if (launch.begun_ns <= 0)
      return launch.asked_ns > 0 && overview_.shared_time(member.rank, launch.asked_ns) > failed_ns;
    return overview_.shared_time(member.rank, launch.begun_ns) > failed_ns;
  }

  void find_absent(const GroupView& group, UnfinishedCollective& meeting) const {
    const std::int64_t failed_ns = failed_at(group, meeting);
    const bool has_met = std::any_of(meeting.waiters.begin(), meeting.waiters.end(), [](const Waiter& waiter) {
      return waiter.launch->stage == Stage::kMet || waiter.launch->met_ns != 0;
    });
    std::vector<char> waits(group.members.size(), 0);
    std::vector<Waiter> in_time;
    for (const Waiter& waiter : meeting.waiters) {
      waits[waiter.member] = 1;
      if (!has_met && came_too_late(group.members[waiter.member], *waiter.launch, failed_ns)) {
        meeting.absent.push_back(waiter.member);
        meeting.too_late.push_back(waiter.member);
      } else {
        in_time.push_back(waiter);
      }
    }
    meeting.waiters = std::move(in_time);
    for (std::size_t i = 0; i < group.members.size(); ++i) {
      if (waits[i] != 0) continue;
      const GroupMember& member = group.members[i];
      const CollectiveCall* launch = collective_at(member, meeting.collective_number);
      if (launch != nullptr && launch->stage == Stage::kDone) meeting.ended.push_back(i);
      if (has_met || member.come >= meeting.collective_number) continue;
      const bool is_unread = member.known != nullptr && !member.is_seen() &&
                             (left_no_record(*member.known) ||
                              (member.known->groups.empty() && member.known->state == RankState::kUnknown));
      const bool is_unsure = member.standing == RankPosition::kMissing || member.has_unnumbered || is_unread;
      (is_unsure ? meeting.unsure : meeting.absent).push_back(i);
    }
    std::sort(meeting.absent.begin(), meeting.absent.end());
  }

  void add_messages(std::size_t index) {
    const GroupView& group = overview_.groups[index];
    // Number of point-to-point operations that a member reached, by peer and direction.
    std::vector<std::map<std::pair<std::size_t, bool>, std::uint64_t>> come(group.members.size());
    for (std::size_t i = 0; i < group.members.size(); ++i) {
      for (const Message& one : group.members[i].messages) {
        std::uint64_t& number = come[i][{one.peer, one.is_send}];
        number = std::max(number, one.number);
      }
    }
    for (std::size_t i = 0; i < group.members.size(); ++i) {
      std::set<std::pair<std::size_t, bool>> seen;  // later ones wait for the first
      for (const Message& one : group.members[i].messages) {
        if (!is_waiting(*one.launch, is_deadlock_) || !seen.emplace(one.peer, one.is_send).second) continue;
        UnfinishedCollective meeting{.group = index, .collective_number = one.number, .is_message = true};
        meeting.waiters.push_back({i, one.launch, one.operation, waited(group.members[i].rank, *one.launch)});
        const GroupMember& peer = group.members[one.peer];
        const auto there = come[one.peer].find({i, !one.is_send});
        const bool has_come = one.launch->stage == Stage::kMet || one.launch->met_ns != 0 ||
                              (there != come[one.peer].end() && there->second >= one.number);
        if (!has_come) {
          const bool is_known = one.is_sure && peer.is_seen() &&
                                (peer.known == nullptr || peer.known->lost == 0 || there != come[one.peer].end());
          (is_known || is_gone(peer) ? meeting.absent : meeting.unsure).push_back(one.peer);
        }
        graph_.meetings.push_back(std::move(meeting));
      }
    }
  }
  // A rank that waits for a signal waits only for the peer that has not set it.
  void add_signals(std::size_t index) {
    const GroupView& group = overview_.groups[index];
    for (std::size_t i = 0; i < group.members.size(); ++i) {
      if (!group.members[i].is_seen()) continue;
      for (const CollectiveCall& one : group.members[i].group->signals) {
        if (one.operations.empty() || !is_waiting(one, is_deadlock_)) continue;
        const RecordedOperation& operation = one.operations.front();
        const auto at = static_cast<std::size_t>(operation.peer);
        if (operation.peer < 0 || at >= group.members.size() || at == i) continue;
        UnfinishedCollective meeting{
            .group = index, .collective_number = one.collective_number, .is_message = true, .is_signal = true};
        meeting.waiters.push_back({i, &one, &operation, waited(group.members[i].rank, one)});
        const GroupMember& peer = group.members[at];
        (peer.is_seen() || is_gone(peer) ? meeting.absent : meeting.unsure).push_back(at);
        graph_.meetings.push_back(std::move(meeting));
      }
    }
  }
  static bool is_gone(const GroupMember& member) {
    return member.standing == RankPosition::kGone || member.standing == RankPosition::kStopped ||
           member.standing == RankPosition::kEnded;
  }

  // Dump files do not state when they were read; their time is that of the last record. They were written because of a
  // failure, so their waits have lasted long, however little happened after them.
  static bool is_final(const Evidence& evidence) {
    std::int64_t last = 0;
    bool is_over = true;
    for (const Rank& rank : evidence.ranks) {
      is_over = is_over && rank.state != RankState::kRunning && rank.state != RankState::kUnknown;
      last = std::max(last, rank.last_ns);
    }
    return !is_over && last > 0 && evidence.taken_ns == last;
  }

  void settle(UnfinishedCollective& meeting) const {
    std::stable_sort(meeting.waiters.begin(), meeting.waiters.end(),
                     [](const Waiter& a, const Waiter& b) { return a.waited_ns > b.waited_ns; });
    meeting.is_old = is_final_ && !meeting.waiters.empty();
    for (const Waiter& waiter : meeting.waiters) {
      meeting.has_failed = meeting.has_failed || waiter.launch->stage == Stage::kFailed;
      meeting.has_timed_out = meeting.has_timed_out || waiter.launch->failure == "timeout";
      meeting.is_old = meeting.is_old || meeting.has_timed_out || waiter.waited_ns >= kOld;
    }
  }

  const Overview& overview_;
  bool is_deadlock_ = false;
  bool is_final_ = false;
  WaitGraph graph_;
};

// Strongly connected components of ranks and meetings, by Tarjan's algorithm without recursion. Ranks are numbered
// after meetings.
class DeadlockCycles {
 public:
  DeadlockCycles(const Overview& overview, const WaitGraph& graph) : graph_(graph) {
    const std::size_t meetings = graph.meetings.size();
    edges_.resize(meetings);
    std::unordered_map<int, std::size_t> numbers;
    const auto number_of = [&](int rank) {
      const auto [at, is_new] = numbers.emplace(rank, edges_.size());
      if (is_new) edges_.emplace_back();
      return at->second;
    };
    for (std::size_t i = 0; i < meetings; ++i) {
      if (!graph.meetings[i].is_old) continue;
      for (const std::size_t member : graph.meetings[i].absent) {
        const std::size_t rank = number_of(overview.groups[graph.meetings[i].group].members[member].rank);
        edges_[i].push_back(rank);
      }
    }
    for (const auto& [rank, in] : graph.meetings_of) {
      const auto at = numbers.find(rank);
      if (at != numbers.end()) edges_[at->second] = in;
    }
  }

  // Returns components without outgoing edges: a rank outside would explain the others.
  std::vector<std::vector<std::size_t>> found() {
    order_.assign(edges_.size(), 0);
    low_.assign(edges_.size(), 0);
    part_.assign(edges_.size(), 0);
    for (std::size_t node = 0; node < graph_.meetings.size(); ++node) {
      if (order_[node] == 0) walk(node);
    }
    std::vector<std::vector<std::size_t>> cycles;
    for (const std::vector<std::size_t>& part : parts_) {
      if (part.size() < 2 || !is_closed(part)) continue;
      std::vector<std::size_t>& cycle = cycles.emplace_back();
      for (const std::size_t node : part) {
        if (node < graph_.meetings.size()) cycle.push_back(node);
      }
      std::sort(cycle.begin(), cycle.end());
    }
    std::sort(cycles.begin(), cycles.end());
    return cycles;
  }

 private:
  [[nodiscard]] bool is_closed(const std::vector<std::size_t>& part) const {
    const std::size_t number = part_[part[0]];
    return std::all_of(part.begin(), part.end(), [&](std::size_t node) {
      return std::all_of(edges_[node].begin(), edges_[node].end(),
                         [&](std::size_t next) { return part_[next] == number; });
    });
  }

  void enter(std::size_t node) {
    order_[node] = low_[node] = ++entered_;
    stack_.push_back(node);
    way_.emplace_back(node, 0);
  }

  void walk(std::size_t from) {
    enter(from);
    while (!way_.empty()) {
      const std::size_t node = way_.back().first;
      if (way_.back().second < edges_[node].size()) {
        const std::size_t next = edges_[node][way_.back().second++];
        if (order_[next] == 0) {
          enter(next);
        } else if (part_[next] == 0) {
          low_[node] = std::min(low_[node], order_[next]);
        }
        continue;
      }
      way_.pop_back();
      if (!way_.empty()) low_[way_.back().first] = std::min(low_[way_.back().first], low_[node]);
      if (low_[node] != order_[node]) continue;
      std::vector<std::size_t>& part = parts_.emplace_back();
      do {
        part.push_back(stack_.back());
        stack_.pop_back();
        part_[part.back()] = parts_.size();
      } while (part.back() != node);
    }
  }

  const WaitGraph& graph_;
  std::vector<std::vector<std::size_t>> edges_ = {};
  std::vector<std::size_t> order_ = {};
  std::vector<std::size_t> low_ = {};
  std::vector<std::size_t> part_ = {};  // component of a node, from 1
  std::vector<std::vector<std::size_t>> parts_ = {};
  std::vector<std::size_t> stack_ = {};
  std::vector<std::pair<std::size_t, std::size_t>> way_ = {};  // node and its next edge
  std::size_t entered_ = 0;
};

// Returns true if the host of this rank continued after it had enqueued the launch: it opened an annotation before the
// launch ended, and is still in it.
bool went_on(const Rank& rank, const CollectiveCall& launch) {
  const std::int64_t until = launch.has_ended() ? launch.ended_ns : std::numeric_limits<std::int64_t>::max();
  return launch.asked_ns > 0 &&
         std::any_of(rank.annotations.begin(), rank.annotations.end(), [&](const OpenAnnotation& annotation) {
           return annotation.since_ns > launch.asked_ns && annotation.since_ns < until;
         });
}

// Returns the rank of a cycle that is not held by its own operations there: its host continued after it had enqueued
// them, and has not enqueued any that the others wait for. -1 if no rank or several ranks qualify.
int loose_rank(const Overview& overview, const WaitGraph& graph, const std::vector<std::size_t>& cycle) {
  std::map<int, bool> loose;
  const auto judge = [&](const GroupMember& member, bool is_loose) {
    const auto [at, is_new] = loose.emplace(member.rank, is_loose);
    at->second = at->second && is_loose;
  };
  for (const std::size_t at : cycle) {
    const UnfinishedCollective& meeting = graph.meetings[at];
    const GroupView& group = overview.groups[meeting.group];
    for (const Waiter& waiter : meeting.waiters) {
      const GroupMember& member = group.members[waiter.member];
      judge(member, member.known != nullptr && went_on(*member.known, *waiter.launch));
    }
    for (const std::size_t absent : meeting.absent) {
      const GroupMember& member = group.members[absent];
      judge(member, member.pending.empty() && member.pending_messages.empty());
    }
  }
  int found = -1;
  for (const auto& [rank, is_loose] : loose) {
    if (is_loose && found >= 0) return -1;
    if (is_loose) found = rank;
  }
  return found;
}

// If one rank of a cycle only left an operation running, it does not wait: it is the end of the chain.
void open_loose_cycles(const Overview& overview, WaitGraph& graph) {
  std::erase_if(graph.cycles, [&](const std::vector<std::size_t>& cycle) {
    const int loose = loose_rank(overview, graph, cycle);
    if (loose >= 0) graph.meetings_of.erase(loose);
    return loose >= 0;
  });
}

Wait wait_of(const Overview& overview, const UnfinishedCollective& meeting, const Waiter& waiter, std::size_t absent) {
  const GroupView& group = overview.groups[meeting.group];
  const std::int64_t since = waiter.launch->begun_ns != 0 ? waiter.launch->begun_ns : waiter.launch->asked_ns;
  return {.rank = group.members[waiter.member].rank,
          .peer = group.members[absent].rank,
          .group = group.name,
          .what = text_of(overview, meeting),
          .since_ns = since};
}

}  // namespace

WaitGraph waits_of(const Overview& overview) {
  WaitGraph graph = Gathering(overview).found();
  graph.cycles = DeadlockCycles(overview, graph).found();
  open_loose_cycles(overview, graph);
  return graph;
}

std::string text_of(const Overview& overview, const UnfinishedCollective& meeting) {
  if (meeting.waiters.empty()) return fmt::format("collective {}", meeting.collective_number);
  const Waiter& first = meeting.waiters.front();
  if (first.message == nullptr)
    return fmt::format("collective {}, {}", meeting.collective_number, text_of(*first.launch));
  const GroupView& group = overview.groups[meeting.group];
  std::string text =
      fmt::format("{} {}, ", meeting.is_signal ? "signal" : "point-to-point operation", meeting.collective_number);
  RecordedOperation operation = *first.message;
  const auto place = static_cast<std::size_t>(operation.peer);
  if (operation.peer >= 0 && place < group.members.size()) operation.peer = group.members[place].rank;
  text += text_of(operation);
  if (first.launch->replay != 0) {
    text += fmt::format(", node {} in replay {} of its graph", first.launch->node, first.launch->replay);
  }
  return text;
}

std::vector<Wait> pairs_of(const Overview& overview, const WaitGraph& graph, std::size_t most) {
  std::vector<Wait> pairs;
  for (const UnfinishedCollective& meeting : graph.meetings) {
    for (const Waiter& waiter : meeting.waiters) {
      for (const std::size_t absent : meeting.absent) {
        if (pairs.size() >= most) return pairs;
        pairs.push_back(wait_of(overview, meeting, waiter, absent));
      }
    }
  }
  return pairs;
}

std::vector<std::vector<Wait>> ways_around(const Overview& overview, const WaitGraph& graph) {
  std::vector<std::vector<Wait>> ways;
  for (const std::vector<std::size_t>& cycle : graph.cycles) {
    // From rank to rank by the first wait of each that stays in the cycle, until one repeats.
    std::unordered_map<int, Wait> next;
    std::vector<int> ranks;
    std::unordered_map<int, char> is_in;
    for (const std::size_t at : cycle) {
      for (const Waiter& waiter : graph.meetings[at].waiters) {
        is_in[overview.groups[graph.meetings[at].group].members[waiter.member].rank] = 1;
      }
    }
    for (const std::size_t at : cycle) {
      const UnfinishedCollective& meeting = graph.meetings[at];
      const GroupView& group = overview.groups[meeting.group];
      const auto to = std::find_if(meeting.absent.begin(), meeting.absent.end(),
                                   [&](std::size_t member) { return is_in.contains(group.members[member].rank); });
      if (to == meeting.absent.end()) continue;
      for (const Waiter& waiter : meeting.waiters) {
        const int rank = group.members[waiter.member].rank;
        if (next.emplace(rank, wait_of(overview, meeting, waiter, *to)).second) ranks.push_back(rank);
      }
    }
    std::vector<Wait> way;
    std::unordered_map<int, std::size_t> place;
    int rank = ranks.empty() ? 0 : *std::min_element(ranks.begin(), ranks.end());
    while (next.contains(rank) && !place.contains(rank)) {
      place[rank] = way.size();
      way.push_back(next.at(rank));
      rank = way.back().peer;
    }
    if (!place.contains(rank)) continue;
    way.erase(way.begin(), way.begin() + static_cast<std::ptrdiff_t>(place[rank]));
    ways.push_back(std::move(way));
  }
  return ways;
}

}  // namespace tessera::analysis::detail
