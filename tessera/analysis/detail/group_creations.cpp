// Groups that were never created: the ranks that wait in a group creation, and the absent ones. A rank that waits
// elsewhere, or about which too little is known, is not blamed.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tessera/analysis/detail/findings.h"
#include "tessera/analysis/detail/whereabouts.h"
#include "tessera/analysis/detail/wording.h"

namespace tessera::analysis::detail {
namespace {

constexpr std::int64_t kOld = 1'000'000'000;  // shorter waits are normal
constexpr std::size_t kMaxKept = 8;           // minimum number that a rank keeps
constexpr std::size_t kMaxFindings = 16;      // each names its group

// Ranks in the creation of one group.
struct GroupCreationView {
  const GroupCreation* first = nullptr;  // of the longest waiting rank
  std::vector<int> waiting = {};         // arrived, but not done
  std::vector<int> absent = {};          // absent, and not waiting
  bool has_others = false;               // absent, and explained otherwise or unknown
  bool has_timed_out = false;            // a deadline passed
  std::int64_t waited_ns = 0;            // maximum wait
};

bool is_waiting(const GroupCreation& creation) {
  return creation.stage == Stage::kBegun || creation.failure == "timeout" || creation.failure == "aborted";
}

// Returns true if a rank is known to have arrived: it was there, or is past it.
bool has_come(const Rank& rank, const GroupCreation& creation) {
  for (const GroupCreation& own : rank.creations) {
    if (own.what == creation.what && own.ranks == creation.ranks) return true;
    if (!creation.from.empty() && own.from == creation.from && own.number > creation.number) return true;
  }
  return std::any_of(rank.groups.begin(), rank.groups.end(),
                     [&](const Group& group) { return "group " + group.name == creation.what; });
}
// Returns true if the rank may no longer have the record of its arrival.
bool may_have_forgotten(const Rank& rank, const GroupCreation& creation) {
  return rank.creations.size() >= kMaxKept &&
         std::all_of(rank.creations.begin(), rank.creations.end(),
                     [&](const GroupCreation& own) { return own.since_ns > creation.since_ns; });
}

class NotMade {
 public:
  NotMade(const Material& material, std::vector<Finding>& findings) : material_(material), findings_(findings) {}

  void find() {
    std::map<std::pair<std::string, std::vector<int>>, GroupCreationView> views;
    for (const auto& [number, rank] : material_.overview.ranks) {
      const RankPosition standing = material_.overview.standings.at(number);
      if (standing == RankPosition::kGone || standing == RankPosition::kStopped) continue;
      for (const GroupCreation& creation : rank->creations) {
        if (is_waiting(creation)) add(views[{creation.what, creation.ranks}], number, creation);
      }
    }
    for (auto& [key, view] : views) {
      if (view.waited_ns < kOld && !view.has_timed_out) continue;
      std::sort(view.waiting.begin(), view.waiting.end());
      find_absent(view);
      if (told_ < kMaxFindings && !view.absent.empty()) tell(view);
    }
  }

 private:
  void add(GroupCreationView& view, int rank, const GroupCreation& creation) const {
    const std::int64_t since = material_.overview.shared_time(rank, creation.since_ns);
    const std::int64_t waited = elapsed(since, material_.overview.evidence->taken_ns);
    if (view.first == nullptr || waited > view.waited_ns) view.first = &creation;
    view.waited_ns = std::max(view.waited_ns, waited);
    view.has_timed_out = view.has_timed_out || creation.failure == "timeout";
    view.waiting.push_back(rank);
  }

  [[nodiscard]] bool waits_elsewhere(const Rank& rank) const {
    if (std::any_of(rank.creations.begin(), rank.creations.end(), is_waiting)) return true;
    const auto found = material_.waits.meetings_of.find(rank.rank);
    return found != material_.waits.meetings_of.end() &&
           std::any_of(found->second.begin(), found->second.end(),
                       [&](std::size_t at) { return material_.waits.meetings[at].is_old; });
  }

  void find_absent(GroupCreationView& view) const {
    for (const int number : view.first->ranks) {
      const Rank* rank = material_.overview.find(number);
      if (rank != nullptr && has_come(*rank, *view.first)) continue;
      const RankPosition standing = rank == nullptr ? RankPosition::kMissing : material_.overview.standings.at(number);
      const bool can_be =
          standing == RankPosition::kAtWork || standing == RankPosition::kTold || standing == RankPosition::kEnded;
      if (can_be && !may_have_forgotten(*rank, *view.first) && !waits_elsewhere(*rank)) {
        view.absent.push_back(number);
      } else {
        view.has_others = true;
      }
    }
  }

  void tell(const GroupCreationView& view) {
    const Rank& first = *material_.overview.find(view.absent.front());
    const std::string where = whereabouts(material_.overview, first);
    const std::string what = visible(view.first->what);
    Finding finding{.strength = Strength::kConcluded, .waiting = view.waiting.size()};
    finding.involved = view.waiting;
    finding.when_ns = view.first->since_ns;
    Verdict& verdict = finding.verdict;
    verdict.group = view.first->from;
    if (view.absent.size() > view.waiting.size()) {
      finding.strength = Strength::kWeak;
      verdict.fault = Fault::kUnknown;
      verdict.confidence = Confidence::kLow;
      verdict.sentence = fmt::format("only {} reached the creation of {}; {} did not; {}", text_of_ranks(view.waiting),
                                     what, text_of_ranks(view.absent), where);
      verdict.advice = fmt::format("check whether {} must create this group at all", text_of_ranks(view.waiting));
    } else {
      verdict.fault = Fault::kAbsent;
      verdict.culprits = view.absent;
      const bool is_sure = view.has_timed_out && !view.has_others;
      verdict.confidence = is_sure ? Confidence::kHigh : Confidence::kMedium;
      verdict.sentence = fmt::format("{} did not reach the creation of {}: {}{}{}", text_of_ranks(view.absent), what,
                                     view.absent.size() == 1 ? "" : fmt::format("of rank {}: ", first.rank), where,
                                     text_of_waiting(view.waiting.size(), view.absent.size()));
      verdict.advice = fmt::format(
          "look at the code of {} before it creates its groups: all ranks of a group must create it, in the same order",
          text_of_ranks(view.absent));
    }
    findings_.push_back(std::move(finding));
    ++told_;
  }

  const Material& material_;
  std::vector<Finding>& findings_;
  std::size_t told_ = 0;
};

}  // namespace

void find_not_made(const Material& material, std::vector<Finding>& findings) { NotMade(material, findings).find(); }

}  // namespace tessera::analysis::detail
