#include "tessera/analysis/detail/chrome_plan.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "tessera/analysis/detail/own_kernels.h"
#include "tessera/analysis/detail/plausible.h"
#include "tessera/analysis/detail/timed_records.h"
#include "tessera/base/error.h"

namespace tessera::analysis::detail {
namespace {

constexpr std::int64_t kAskedFor = 1000;                // ns: long enough to be visible and to hold the end of a flow
constexpr std::uint64_t kDeviceProcesses = 10'000'000;  // greater than Linux process ids
constexpr std::uint64_t kDevicesOfRank = 64;
constexpr std::uint64_t kRowsBeside = 1'000'000;     // numbers of extra rows
constexpr std::uint32_t kLanes = 64;                 // maximum of extra rows; corrupt records could request any number
constexpr std::uint64_t kNamedThreads = 1ull << 31;  // rows of threads with a name and no number
constexpr std::uint64_t kLostThreads = 1ull << 33;   // rows of threads whose name and number are both lost

std::int64_t first_known(const CollectiveCall& launch) {
  // A replay was enqueued at its capture, which may be long ago.
  const bool is_replay = launch.replay != 0 && launch.begun_ns > 0;
  if (!is_replay && launch.asked_ns > 0) return launch.asked_ns;
  if (launch.begun_ns > 0) return launch.begun_ns;
  return std::max<std::int64_t>(launch.ended_ns, 0);
}

// Returns the number that a complete text represents; 0 if it is not a number.
std::uint64_t number_in(const std::string& text) {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end && number < kNamedThreads ? number : 0;
}

class Planner {
 public:
  Planner(const Evidence& evidence, const Rank& rank, const ChromeShared& shared, std::int64_t since_ns)
      : evidence_(evidence), rank_(rank), shared_(shared), since_ns_(since_ns) {}

  ChromePlan plan() {
    plan_.process = rank_.pid != 0 ? rank_.pid : static_cast<std::uint64_t>(std::max(rank_.rank, 0)) + 1;
    plan_.first_device = kDeviceProcesses + static_cast<std::uint64_t>(std::max(rank_.rank, 0)) * kDevicesOfRank;
    const bool is_alive = rank_.state == RankState::kRunning || rank_.state == RankState::kStopped;
    plan_.until_ns = is_alive || !can_be(rank_.last_ns) ? evidence_.taken_ns : rank_.last_ns;
    gather();
    add_open_marks();
    read_file();
    nest_marks();
    place_runs();
    place_asked();
    for (const LastKernel& last : rank_.launches) (void)own_row(last.device, last.stream);
    return std::move(plan_);
  }

 private:
  [[nodiscard]] bool can_be(std::int64_t moment_ns) const { return is_plausible(moment_ns, evidence_.taken_ns); }

  void gather() {
    for (const Group& group : rank_.groups) {
      const auto number = shared_.groups.find({group.name, group.ranks});
      for (const CollectiveCall& launch : group.launches) {
        if (launch.operations.empty()) continue;
        ChromeLaunch each;
        each.group = &group;
        each.launch = &launch;
        each.group_number = number == shared_.groups.end() ? -1 : number->second;
        each.when_ns = first_known(launch);
        if (!can_be(each.when_ns)) continue;  // without any time it has no position
        if (each.when_ns < since_ns_) continue;
        set_run(each);
        plan_.launches.push_back(each);
      }
    }
    std::stable_sort(plan_.launches.begin(), plan_.launches.end(),
                     [](const ChromeLaunch& a, const ChromeLaunch& b) { return a.when_ns < b.when_ns; });
  }

  void set_run(ChromeLaunch& each) const {
    const CollectiveCall& launch = *each.launch;
    if (launch.stage == Stage::kAsked) return;
    each.is_run_drawn = true;
    each.begin_ns = std::max(can_be(launch.begun_ns) ? launch.begun_ns : each.when_ns, shared_.base_ns);
    std::int64_t known = each.begin_ns;
    for (const std::int64_t moment : {launch.met_ns, launch.ended_ns}) {
      if (can_be(moment)) known = std::max(known, moment);
    }
    each.end_ns = launch.has_ended() ? known : std::max(known, plan_.until_ns);
  }

  void add_open_marks() {
    std::map<std::string, std::uint64_t> named;
    for (const OpenAnnotation& annotation : rank_.annotations) {
      if (!can_be(annotation.since_ns)) continue;
      const std::uint64_t number = annotation.tid != 0 ? annotation.tid : number_in(annotation.thread);
      const std::uint64_t row =
          number != 0 ? number : named.try_emplace(annotation.thread, kNamedThreads + named.size()).first->second;
      const bool has_name = !annotation.thread.empty() && number_in(annotation.thread) == 0;
      name_thread(row, has_name ? annotation.thread : "thread", number);
      add_annotation(annotation.name, annotation.value, row, annotation.since_ns, std::nullopt);
    }
  }

  void name_thread(std::uint64_t row, const std::string& name, std::uint64_t number) {
    plan_.threads.try_emplace(row, number == 0 ? name : name + " " + std::to_string(number));
  }

  void add_annotation(const std::string& name, std::int64_t value, std::uint64_t row, std::int64_t begin_ns,
                      std::optional<std::int64_t> end_ns) {
    const std::int64_t begin = std::max({begin_ns, since_ns_, shared_.base_ns});
    plan_.annotations.push_back({.text = name + " " + std::to_string(value),
                                 .thread = row,
                                 .begin_ns = begin,
                                 .end_ns = std::max(begin, end_ns.value_or(plan_.until_ns)),
                                 .is_open = !end_ns.has_value()});
  }

  // Events after the evidence was taken are omitted: an annotation that was open then may have ended by now.
  void read_file() {
    if (rank_.file.empty()) return;
    std::optional<probe::RecordFile> file;
    try {
      file = probe::RecordFile::open(rank_.file);
    } catch (const IoError&) {
      return;
    }
    constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();
    const TimedRecords timed = read_timed_records(*file, evidence_.taken_ns > 0 ? evidence_.taken_ns : kForever);
    add_kernels(*file, timed.kernels);
    add_ended_marks(*file, timed);
  }

  void add_kernels(const probe::RecordFile& file, const std::vector<TimedKernel>& kernels) {
    const std::vector<bool> is_own = own_kernels(rank_, file, kernels);
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      const TimedKernel& kernel = kernels[i];
      if (is_own[i] || kernel.asked_ns < since_ns_) continue;
      if (!can_be(kernel.begin_ns) || !can_be(kernel.end_ns)) continue;
      const auto [label, is_new] = plan_.labels.try_emplace(kernel.label.value());
      if (is_new) label->second = file.string(kernel.label);
      const auto [device, is_first] = devices_.try_emplace(kernel.device.value(), 0);
      if (is_first) device->second = device_of(file.string(kernel.device));
      const std::int64_t begin = std::max(kernel.begin_ns, shared_.base_ns);
      plan_.kernels.push_back({&label->second, 0, begin, std::max(begin, kernel.end_ns)});
      streams_.emplace_back(device->second, kernel.stream);
    }
  }

  void add_ended_marks(const probe::RecordFile& file, const TimedRecords& timed) {
    std::set<std::pair<std::uint64_t, std::int64_t>> open;  // row and start
    for (const OpenAnnotation& annotation : rank_.annotations) open.emplace(annotation.tid, annotation.since_ns);
    std::unordered_map<std::uint32_t, std::string> names;
    for (const TimedAnnotation& annotation : timed.annotations) {
      if (annotation.end_ns < since_ns_ || open.contains({annotation.tid, annotation.begin_ns})) continue;
      if (!can_be(annotation.begin_ns) || !can_be(annotation.end_ns)) continue;
      const auto [name, is_new] = names.try_emplace(annotation.name.value());
      if (is_new) name->second = file.string(annotation.name);
      const std::uint64_t row = annotation.tid != 0 ? annotation.tid : kLostThreads + annotation.thread;
      const auto thread = timed.threads.find(annotation.tid);
      name_thread(row, thread == timed.threads.end() ? "thread" : thread->second, annotation.tid);
      add_annotation(name->second, annotation.value, row, annotation.begin_ns, annotation.end_ns);
    }
  }

  // Viewers nest slices with equal starts by their order in the file: the longer first.
  void nest_marks() {
    std::stable_sort(plan_.annotations.begin(), plan_.annotations.end(),
                     [](const ChromeAnnotation& a, const ChromeAnnotation& b) {
                       return std::tuple(a.begin_ns, b.end_ns) < std::tuple(b.begin_ns, a.end_ns);
                     });
    std::unordered_map<std::uint64_t, std::vector<std::int64_t>> around;  // ends of the enclosing annotations
    for (ChromeAnnotation& annotation : plan_.annotations) {
      std::vector<std::int64_t>& ends = around[annotation.thread];
      while (!ends.empty() && ends.back() <= annotation.begin_ns) ends.pop_back();
      if (!ends.empty()) annotation.end_ns = std::min(annotation.end_ns, ends.back());
      ends.push_back(annotation.end_ns);
    }
  }

  // A group launch or a kernel, while rows are assigned.
  struct Run {
    std::size_t device = 0;
    std::uint32_t stream = 0;
    std::int64_t* begin_ns = nullptr;
    std::int64_t* end_ns = nullptr;
    std::size_t* row = nullptr;
  };

  void place_runs() {
    std::vector<Run> runs;
    runs.reserve(plan_.launches.size() + plan_.kernels.size());
    for (ChromeLaunch& each : plan_.launches) {
      if (!each.is_run_drawn) continue;
      const CollectiveCall& launch = *each.launch;
      runs.push_back({device_of(launch.device), launch.stream, &each.begin_ns, &each.end_ns, &each.row});
    }
    for (std::size_t i = 0; i < plan_.kernels.size(); ++i) {
      ChromeKernel& each = plan_.kernels[i];
      runs.push_back({streams_[i].first, streams_[i].second, &each.begin_ns, &each.end_ns, &each.row});
    }
    std::stable_sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return *a.begin_ns < *b.begin_ns; });
    for (const Run& each : runs) {
      *each.row = free_row(each.device, each.stream, *each.begin_ns);
      ChromeRow& row = plan_.rows[*each.row];
      // Without a free row, slices are truncated instead of overlapping.
      *each.begin_ns = std::max(*each.begin_ns, row.end_ns);
      *each.end_ns = std::max(*each.end_ns, *each.begin_ns);
      row.end_ns = *each.end_ns;
    }
    std::stable_sort(plan_.kernels.begin(), plan_.kernels.end(),
                     [](const ChromeKernel& a, const ChromeKernel& b) { return a.begin_ns < b.begin_ns; });
  }

  std::size_t device_of(const std::string& name) {
    const auto found = std::find(plan_.devices.begin(), plan_.devices.end(), name);
    if (found != plan_.devices.end()) return static_cast<std::size_t>(found - plan_.devices.begin());
    plan_.devices.push_back(name);
    return plan_.devices.size() - 1;
  }

  std::size_t add_row(std::size_t device, std::uint32_t stream) {
    std::vector<std::size_t>& lanes = lanes_[{device, stream}];
    ChromeRow row;
    row.device = device;
    row.stream = stream;
    row.lane = static_cast<std::uint32_t>(lanes.size());
    row.number = lanes.empty() && stream < kRowsBeside ? stream : kRowsBeside + plan_.rows.size();
    plan_.rows.push_back(row);
    lanes.push_back(plan_.rows.size() - 1);
    return plan_.rows.size() - 1;
  }

  std::size_t own_row(const std::string& device, std::uint32_t stream) {
    const std::size_t number = device_of(device);
    const std::vector<std::size_t>& lanes = lanes_[{number, stream}];
    return lanes.empty() ? add_row(number, stream) : lanes.front();
  }

  std::size_t free_row(std::size_t device, std::uint32_t stream, std::int64_t begin_ns) {
    const std::vector<std::size_t>& lanes = lanes_[{device, stream}];
    for (const std::size_t lane : lanes) {
      if (plan_.rows[lane].end_ns <= begin_ns) return lane;
    }
    return lanes.size() < kLanes ? add_row(device, stream) : lanes.back();
  }

  void place_asked() {
    // From the last to the first: the next event of a thread bounds the drawn length of an enqueue.
    std::unordered_map<std::uint64_t, std::vector<std::int64_t>> annotations;
    for (const ChromeAnnotation& annotation : plan_.annotations) {
      annotations[annotation.thread].push_back(annotation.begin_ns);
      annotations[annotation.thread].push_back(annotation.end_ns);
    }
    for (auto& [thread, moments] : annotations) std::sort(moments.begin(), moments.end());
    std::unordered_map<std::uint64_t, std::int64_t> next;
    for (auto each = plan_.launches.rbegin(); each != plan_.launches.rend(); ++each) {
      const CollectiveCall& launch = *each->launch;
      if (!can_be(launch.asked_ns) || launch.replay != 0) continue;
      each->is_asked_drawn = true;
      each->asked_for_ns = kAskedFor;
      const auto bound = [&](std::int64_t moment) {
        if (moment >= launch.asked_ns) each->asked_for_ns = std::min(each->asked_for_ns, moment - launch.asked_ns);
      };
      if (const auto later = next.find(launch.thread); later != next.end()) bound(later->second);
      if (const auto around = annotations.find(launch.thread); around != annotations.end()) {
        const auto moment = std::lower_bound(around->second.begin(), around->second.end(), launch.asked_ns);
        if (moment != around->second.end()) bound(*moment);
      }
      next[launch.thread] = launch.asked_ns;
      name_thread(launch.thread, "thread", launch.thread);
    }
  }

  const Evidence& evidence_;
  const Rank& rank_;
  const ChromeShared& shared_;
  std::int64_t since_ns_;
  ChromePlan plan_;
  std::vector<std::pair<std::size_t, std::uint32_t>> streams_;  // device and stream of each kernel
  std::unordered_map<std::uint32_t, std::size_t> devices_;      // devices of kernels, by their number in the record
  std::map<std::pair<std::size_t, std::uint32_t>, std::vector<std::size_t>> lanes_;
};

}  // namespace

ChromeShared chrome_shared(const Evidence& evidence, std::int64_t since_ns) {
  ChromeShared shared;
  std::int64_t earliest = std::numeric_limits<std::int64_t>::max();
  const auto see = [&](std::int64_t moment) {
    if (is_plausible(moment, evidence.taken_ns)) earliest = std::min(earliest, moment);
  };
  see(evidence.taken_ns);
  for (const Rank& rank : evidence.ranks) {
    see(rank.first_ns);
    see(rank.last_ns);
    for (const OpenAnnotation& annotation : rank.annotations) see(annotation.since_ns);
    for (const LastKernel& last : rank.launches) see(last.when_ns);
    for (const Group& group : rank.groups) {
      shared.groups.try_emplace({group.name, group.ranks}, static_cast<int>(shared.groups.size()));
      for (const CollectiveCall& launch : group.launches) {
        see(first_known(launch));
        see(launch.met_ns);
        see(launch.ended_ns);
      }
    }
  }
  shared.base_ns = earliest == std::numeric_limits<std::int64_t>::max() ? 0 : std::max(earliest, since_ns);
  return shared;
}

ChromePlan chrome_plan(const Evidence& evidence, const Rank& rank, const ChromeShared& shared, std::int64_t since_ns) {
  return Planner(evidence, rank, shared, since_ns).plan();
}

}  // namespace tessera::analysis::detail
