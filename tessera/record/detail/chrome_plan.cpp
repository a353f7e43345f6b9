#include "tessera/record/detail/chrome_plan.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <unordered_map>

namespace tessera::record::detail {
namespace {

constexpr std::int64_t kAskedFor = 1000;                // ns: long enough to be seen and to hold a flow's end
constexpr std::uint64_t kDeviceProcesses = 10'000'000;  // above what Linux gives to processes
constexpr std::uint64_t kDevicesOfRank = 64;
constexpr std::uint64_t kRowsBeside = 1'000'000;  // numbers of rows that are not a stream's own
constexpr std::uint32_t kLanes = 64;              // beside each other; spoilt records could ask for any number
constexpr std::uint64_t kNamedThreads = 1ull << 31;

void see(std::int64_t& earliest, std::int64_t moment) {
  if (moment > 0) earliest = std::min(earliest, moment);
}

std::int64_t first_known(const Launch& launch) {
  // A replay was asked for when it was captured, which may be long ago.
  const bool is_replay = launch.replay != 0 && launch.begun_ns > 0;
  if (!is_replay && launch.asked_ns > 0) return launch.asked_ns;
  if (launch.begun_ns > 0) return launch.begun_ns;
  return std::max<std::int64_t>(launch.ended_ns, 0);
}

class Planner {
 public:
  Planner(const Evidence& evidence, const Rank& rank, const ChromeShared& shared)
      : evidence_(evidence), rank_(rank), shared_(shared) {}

  ChromePlan plan() {
    plan_.process = rank_.pid != 0 ? rank_.pid : static_cast<std::uint64_t>(std::max(rank_.rank, 0)) + 1;
    plan_.first_device = kDeviceProcesses + static_cast<std::uint64_t>(std::max(rank_.rank, 0)) * kDevicesOfRank;
    const bool is_alive = rank_.state == RankState::kRunning || rank_.state == RankState::kStopped;
    plan_.until_ns = is_alive || rank_.last_ns <= 0 ? evidence_.taken_ns : rank_.last_ns;
    gather();
    std::uint64_t named = kNamedThreads;
    for (const Mark& mark : rank_.marks) {
      if (number_in(mark.thread) == 0 && plan_.threads.emplace(mark.thread, named).second) ++named;
    }
    place_runs();
    place_asked();
    for (const LastLaunch& last : rank_.launches) (void)own_row(last.device, last.stream);
    return std::move(plan_);
  }

 private:
  void gather() {
    for (const Group& group : rank_.groups) {
      const auto number = shared_.groups.find({group.name, group.ranks});
      for (const Launch& launch : group.launches) {
        if (launch.operations.empty()) continue;
        ChromeLaunch each;
        each.group = &group;
        each.launch = &launch;
        each.group_number = number == shared_.groups.end() ? -1 : number->second;
        each.when_ns = first_known(launch);
        if (each.when_ns == 0) continue;  // nothing of it has a time, so that it has no place
        set_run(each);
        plan_.launches.push_back(each);
      }
    }
    std::stable_sort(plan_.launches.begin(), plan_.launches.end(),
                     [](const ChromeLaunch& a, const ChromeLaunch& b) { return a.when_ns < b.when_ns; });
  }

  void set_run(ChromeLaunch& each) const {
    const Launch& launch = *each.launch;
    if (launch.stage == Stage::kAsked) return;
    each.is_run_drawn = true;
    each.begin_ns = launch.begun_ns > 0 ? launch.begun_ns : each.when_ns;
    const std::int64_t known = std::max({each.begin_ns, launch.met_ns, launch.ended_ns});
    each.end_ns = launch.has_ended() ? known : std::max(known, plan_.until_ns);
  }

  void place_runs() {
    std::vector<ChromeLaunch*> runs;
    for (ChromeLaunch& each : plan_.launches) {
      if (each.is_run_drawn) runs.push_back(&each);
    }
    std::stable_sort(runs.begin(), runs.end(),
                     [](const ChromeLaunch* a, const ChromeLaunch* b) { return a->begin_ns < b->begin_ns; });
    for (ChromeLaunch* each : runs) {
      each->row = free_row(each->launch->device, each->launch->stream, each->begin_ns);
      ChromeRow& row = plan_.rows[each->row];
      // Where there is no lane left slices are cut rather than drawn over each other.
      each->begin_ns = std::max(each->begin_ns, row.end_ns);
      each->end_ns = std::max(each->end_ns, each->begin_ns);
      row.end_ns = each->end_ns;
    }
  }

  std::size_t device_of(const std::string& name) {
    const auto found = std::find(plan_.devices.begin(), plan_.devices.end(), name);
    if (found != plan_.devices.end()) return static_cast<std::size_t>(found - plan_.devices.begin());
    plan_.devices.push_back(name);
    return plan_.devices.size() - 1;
  }

  std::vector<std::size_t>& lanes_of(const std::string& device, std::uint32_t stream) {
    return lanes_[{device_of(device), stream}];
  }

  std::size_t add_row(const std::string& device, std::uint32_t stream) {
    std::vector<std::size_t>& lanes = lanes_of(device, stream);
    ChromeRow row;
    row.device = device_of(device);
    row.stream = stream;
    row.lane = static_cast<std::uint32_t>(lanes.size());
    row.number = lanes.empty() && stream < kRowsBeside ? stream : kRowsBeside + plan_.rows.size();
    plan_.rows.push_back(row);
    lanes.push_back(plan_.rows.size() - 1);
    return plan_.rows.size() - 1;
  }

  std::size_t own_row(const std::string& device, std::uint32_t stream) {
    const std::vector<std::size_t>& lanes = lanes_of(device, stream);
    return lanes.empty() ? add_row(device, stream) : lanes.front();
  }

  std::size_t free_row(const std::string& device, std::uint32_t stream, std::int64_t begin_ns) {
    const std::vector<std::size_t>& lanes = lanes_of(device, stream);
    for (const std::size_t lane : lanes) {
      if (plan_.rows[lane].end_ns <= begin_ns) return lane;
    }
    return lanes.size() < kLanes ? add_row(device, stream) : lanes.back();
  }

  void place_asked() {
    // From the last to the first: what comes next on a thread bounds how long asking is drawn.
    std::unordered_map<std::uint64_t, std::vector<std::int64_t>> marks;
    for (const Mark& mark : rank_.marks) marks[thread_of(plan_, mark)].push_back(mark.since_ns);
    std::unordered_map<std::uint64_t, std::int64_t> next;
    for (auto each = plan_.launches.rbegin(); each != plan_.launches.rend(); ++each) {
      const Launch& launch = *each->launch;
      if (launch.asked_ns <= 0 || launch.replay != 0) continue;
      each->is_asked_drawn = true;
      each->asked_for_ns = kAskedFor;
      const auto bound = [&](std::int64_t moment) {
        if (moment >= launch.asked_ns) each->asked_for_ns = std::min(each->asked_for_ns, moment - launch.asked_ns);
      };
      if (const auto later = next.find(launch.thread); later != next.end()) bound(later->second);
      if (const auto begun = marks.find(launch.thread); begun != marks.end()) {
        for (const std::int64_t moment : begun->second) bound(moment);
      }
      next[launch.thread] = launch.asked_ns;
    }
  }

  const Evidence& evidence_;
  const Rank& rank_;
  const ChromeShared& shared_;
  ChromePlan plan_;
  std::map<std::pair<std::size_t, std::uint32_t>, std::vector<std::size_t>> lanes_;
};

}  // namespace

ChromeShared chrome_shared(const Evidence& evidence) {
  ChromeShared shared;
  std::int64_t earliest = std::numeric_limits<std::int64_t>::max();
  see(earliest, evidence.taken_ns);
  for (const Rank& rank : evidence.ranks) {
    see(earliest, rank.last_ns);
    for (const Mark& mark : rank.marks) see(earliest, mark.since_ns);
    for (const LastLaunch& last : rank.launches) see(earliest, last.when_ns);
    for (const Group& group : rank.groups) {
      shared.groups.try_emplace({group.name, group.ranks}, static_cast<int>(shared.groups.size()));
      for (const Launch& launch : group.launches) {
        see(earliest, first_known(launch));
        see(earliest, launch.met_ns);
        see(earliest, launch.ended_ns);
      }
    }
  }
  shared.base_ns = earliest == std::numeric_limits<std::int64_t>::max() ? 0 : earliest;
  return shared;
}

ChromePlan chrome_plan(const Evidence& evidence, const Rank& rank, const ChromeShared& shared) {
  return Planner(evidence, rank, shared).plan();
}

std::uint64_t number_in(const std::string& text) {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end && number < kNamedThreads ? number : 0;
}

std::uint64_t thread_of(const ChromePlan& plan, const Mark& mark) {
  const std::uint64_t number = number_in(mark.thread);
  if (number != 0) return number;
  const auto found = plan.threads.find(mark.thread);
  return found == plan.threads.end() ? kNamedThreads : found->second;
}

}  // namespace tessera::record::detail
