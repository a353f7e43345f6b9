#include "tessera/analysis/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <unordered_map>
#include <utility>

#include "tessera/analysis/detail/chrome_plan.h"
#include "tessera/analysis/detail/collective_words.h"
#include "tessera/analysis/detail/json_text.h"
#include "tessera/analysis/detail/torch_names.h"
#include "tessera/analysis/detail/wording.h"
#include "tessera/base/atomic_file.h"
#include "tessera/base/bytes.h"
#include "tessera/base/error.h"

namespace tessera::analysis {
namespace {

using detail::ChromeAnnotation;
using detail::ChromeKernel;
using detail::ChromeLaunch;
using detail::ChromePlan;
using detail::ChromeRow;
using detail::JsonText;

constexpr std::size_t kListed = 30;  // listed members of a group, as in the PyTorch profiler
constexpr std::size_t kNamed = 16;   // listed operations of a launch
constexpr int kDigits = 20;          // digits of the largest number

std::string_view word_of(Stage stage) {
  switch (stage) {
    case Stage::kAsked: return "asked";
    case Stage::kBegun: return "waits for others";
    case Stage::kMet: return "moves bytes";
    case Stage::kDone: return "done";
    case Stage::kFailed: return "failed";
  }
  return "unknown";
}

// Returns "[0, 1, 2]"; for a long list the beginning and "...".
std::string list_of(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < std::min(ranks.size(), kListed); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  }
  return "[" + text + (ranks.size() > kListed ? ", ...]" : "]");
}

int world_rank(const Group& group, int place) {
  return place >= 0 && static_cast<std::size_t>(place) < group.ranks.size()
             ? group.ranks[static_cast<std::size_t>(place)]
             : place;
}

// Writes one trace. Required events come first; launches, kernels and ended annotations follow as far as they fit, the
// latest preferred.
class TraceWriter {
 public:
  TraceWriter(const Evidence& evidence, const Rank& rank, const detail::ChromeShared& shared,
              const ChromeOptions& options)
      : evidence_(evidence),
        rank_(rank),
        shared_(shared),
        options_(options),
        plan_(detail::chrome_plan(evidence, rank, shared, options.since_ns)) {
    for (const Group& group : rank_.groups) lists_[&group] = list_of(group.ranks);
    order_events();
  }

  ChromeTrace write(std::ostream& out) {
    JsonText json;
    put_header(json);
    put_names(json);
    put_state(json);
    for (const ChromeAnnotation& annotation : plan_.annotations) {
      if (annotation.is_open) put_mark(json, annotation);
    }
    std::string fixed = json.take();
    const std::size_t skipped = first_that_fits(json, fixed.size());
    out << fixed;
    std::uint64_t nbytes = fixed.size();
    for (std::size_t i = skipped; i < events_.size(); ++i) {
      put_event(json, events_[i]);
      nbytes += json.text().size();
      json.send(out);
    }
    if (skipped > 0) put_left_out(json, skipped, events_[skipped - 1].when_ns);
    json.line().close(']').close('}');
    nbytes += json.text().size() + 1;
    json.send(out);
    out << '\n';
    TESSERA_CHECK_AS(IoError, out.good(), "the Chrome trace of rank ", rank_.rank, ": writing failed");
    return {{}, rank_.rank, nbytes, events_.size() - skipped, skipped};
  }

 private:
  // Optional events, in order of time.
  enum class Kind : std::uint8_t { kLaunch, kMark, kKernel };
  struct Event {
    std::int64_t when_ns = 0;
    Kind kind = Kind::kLaunch;
    std::size_t index = 0;  // in the list of its kind
  };

  void order_events() {
    events_.reserve(plan_.launches.size() + plan_.annotations.size() + plan_.kernels.size());
    for (std::size_t i = 0; i < plan_.launches.size(); ++i) {
      events_.push_back({plan_.launches[i].when_ns, Kind::kLaunch, i});
    }
    for (std::size_t i = 0; i < plan_.annotations.size(); ++i) {
      if (!plan_.annotations[i].is_open) events_.push_back({plan_.annotations[i].begin_ns, Kind::kMark, i});
    }
    for (std::size_t i = 0; i < plan_.kernels.size(); ++i) {
      events_.push_back({plan_.kernels[i].begin_ns, Kind::kKernel, i});
    }
    std::stable_sort(events_.begin(), events_.end(),
                     [](const Event& a, const Event& b) { return a.when_ns < b.when_ns; });
  }

  void put_event(JsonText& json, const Event& event) const {
    switch (event.kind) {
      case Kind::kLaunch: return put_launch(json, event.index);
      case Kind::kMark: return put_mark(json, plan_.annotations[event.index]);
      case Kind::kKernel: return put_kernel(json, plan_.kernels[event.index]);
    }
  }

  // Returns the number of oldest events to omit.
  std::size_t first_that_fits(JsonText& json, std::size_t fixed) {
    const std::string_view tail = "\n]}\n";
    put_left_out(json, events_.size(), shared_.base_ns);
    const std::uint64_t least = fixed + json.take().size() + kDigits + tail.size();
    TESSERA_CHECK(least <= options_.max_nbytes, "the Chrome trace of rank ", rank_.rank,
                  ": the size limit must be at least ", least, " bytes, got ", options_.max_nbytes, "; increase it");
    std::uint64_t left = options_.max_nbytes - least;
    std::size_t first = events_.size();
    while (first > 0) {
      put_event(json, events_[first - 1]);
      const std::size_t nbytes = json.take().size();
      if (nbytes > left) break;
      left -= nbytes;
      --first;
    }
    return first;
  }

  void put_header(JsonText& json) const {
    json.open('{').line().field("schemaVersion", 1);
    json.line().key("deviceProperties").open('[').close(']');
    json.line().key("distributedInfo").open('{');
    json.field("backend", rank_.groups.empty() ? std::string() : rank_.groups.front().backend);
    json.field("rank", rank_.rank).field("world_size", evidence_.world_size);
    json.field("pg_count", rank_.groups.size()).key("pg_config").open('[');
    for (const Group& group : rank_.groups) {
      json.open('{').field("pg_name", group_number(group)).field("pg_desc", group.name);
      json.field("backend_config", group.backend).field("pg_size", group.ranks.size()).key("ranks").open('[');
      for (const int member : group.ranks) json.value(member);
      json.close(']').close('}');
    }
    json.close(']').close('}');
    json.line().field("displayTimeUnit", "ms");
    json.line().field("baseTimeNanoseconds", shared_.base_ns);
    json.line().field("traceName", fmt::format("trace_rank_{}.json", rank_.rank));
    json.line().key("tessera").open('{').field("source", evidence_.source).field("file", rank_.file);
    json.field("host", rank_.host).field("state", to_string(rank_.state)).field("reason", rank_.reason);
    json.field("records_lost", rank_.lost).close('}');
    json.line().key("traceEvents").open('[');
  }

  std::string group_number(const Group& group) const {
    const auto found = shared_.groups.find({group.name, group.ranks});
    return std::to_string(found == shared_.groups.end() ? -1 : found->second);
  }

  // Writes the common beginning of events; the caller closes it.
  static JsonText& event(JsonText& json, std::string_view phase, std::string_view category, std::string_view name,
                         std::uint64_t process, std::uint64_t thread) {
    json.line().open('{').field("ph", phase);
    if (!category.empty()) json.field("cat", category);
    return json.field("name", name).field("pid", process).field("tid", thread);
  }
  JsonText& at(JsonText& json, std::int64_t moment_ns) const {
    return json.key("ts").microseconds(moment_ns - shared_.base_ns);
  }

  template <class Value>
  static void put_metadata(JsonText& json, std::string_view name, std::uint64_t process, std::uint64_t thread,
                           std::string_view key, const Value& value) {
    event(json, "M", "", name, process, thread).key("ts").microseconds(0);
    json.key("args").open('{').field(key, value).close('}').close('}');
  }

  void put_names(JsonText& json) const {
    put_metadata(json, "process_name", plan_.process, 0, "name", fmt::format("rank {}", rank_.rank));
    put_metadata(json, "process_labels", plan_.process, 0, "labels",
                 fmt::format("{} {}", rank_.host, to_string(rank_.state)));
    put_metadata(json, "process_sort_index", plan_.process, 0, "sort_index", 2 * rank_.rank);
    for (std::size_t i = 0; i < plan_.devices.size(); ++i) {
      put_metadata(json, "process_name", plan_.first_device + i, 0, "name",
                   fmt::format("rank {}, {}", rank_.rank, plan_.devices[i]));
      put_metadata(json, "process_sort_index", plan_.first_device + i, 0, "sort_index", 2 * rank_.rank + 1);
    }
    for (const ChromeRow& row : plan_.rows) {
      put_metadata(json, "thread_name", plan_.first_device + row.device, row.number, "name",
                   fmt::format("stream {}{}", row.stream, row.lane == 0 ? "" : fmt::format(", beside {}", row.lane)));
      put_metadata(json, "thread_sort_index", plan_.first_device + row.device, row.number, "sort_index", row.number);
    }
    for (const auto& [row, name] : plan_.threads) {
      put_metadata(json, "thread_name", plan_.process, row, "name", name);
    }
  }

  // Writes the state of the rank, its memory, and the last launches.
  void put_state(JsonText& json) const {
    if (rank_.state == RankState::kFailed || rank_.state == RankState::kDied || rank_.state == RankState::kStopped) {
      event(json, "i", "state", fmt::format("rank {} {}", rank_.rank, to_string(rank_.state)), plan_.process, 0);
      at(json, plan_.until_ns).field("s", "p").key("args").open('{').field("reason", rank_.reason);
      json.field("signal", rank_.signal).close('}').close('}');
    }
    for (const DeviceMemory& memory : rank_.memory) {
      event(json, "C", "memory", "memory of " + memory.device, plan_.process, 0);
      at(json, plan_.until_ns).key("args").open('{').field("live_nbytes", memory.live_nbytes);
      json.field("mapped_nbytes", memory.mapped_nbytes).close('}').close('}');
      if (memory.refused_nbytes == 0) continue;
      event(json, "i", "cpu_instant_event", "[OutOfMemory]", plan_.process, 0);
      at(json, plan_.until_ns).field("s", "p").key("args").open('{').field("Bytes", memory.refused_nbytes);
      json.field("Device", memory.device).close('}').close('}');
    }
    for (const LastKernel& last : rank_.launches) {
      if (last.when_ns <= 0 || last.when_ns < options_.since_ns) continue;
      const auto row = std::find_if(plan_.rows.begin(), plan_.rows.end(), [&](const ChromeRow& each) {
        return plan_.devices[each.device] == last.device && each.stream == last.stream && each.lane == 0;
      });
      if (row == plan_.rows.end()) continue;
      event(json, "i", "last_launch", "launched last: " + last.name, plan_.first_device + row->device, row->number);
      at(json, last.when_ns).field("s", "t").close('}');
    }
  }

  void put_mark(JsonText& json, const ChromeAnnotation& annotation) const {
    event(json, "X", "user_annotation", annotation.text, plan_.process, annotation.thread);
    at(json, annotation.begin_ns).key("dur").microseconds(annotation.end_ns - annotation.begin_ns).close('}');
  }

  void put_kernel(JsonText& json, const ChromeKernel& kernel) const {
    const ChromeRow& row = plan_.rows[kernel.row];
    event(json, "X", "kernel", *kernel.name, plan_.first_device + row.device, row.number);
    at(json, kernel.begin_ns).key("dur").microseconds(kernel.end_ns - kernel.begin_ns);
    json.key("args").open('{').field("stream", row.stream).close('}').close('}');
  }

  void put_launch(JsonText& json, std::size_t index) const {
    const ChromeLaunch& each = plan_.launches[index];
    const CollectiveCall& launch = *each.launch;
    const std::size_t number = index + 1;  // connects the slices of a launch and their flow
    const std::uint64_t thread = launch.thread;
    if (each.is_asked_drawn) {
      event(json, "X", "cpu_op", "record_param_comms", plan_.process, thread);
      at(json, launch.asked_ns).key("dur").microseconds(each.asked_for_ns).key("args").open('{');
      json.field("External id", number).field("correlation", number);
      put_arguments(json, each);
      json.close('}').close('}');
    }
    if (each.is_asked_drawn && each.is_run_drawn) put_flow(json, "s", number, plan_.process, thread, launch.asked_ns);
    if (each.is_run_drawn) {
      put_run(json, each, number);
    } else {
      put_queued(json, each, number);
    }
  }

  void put_run(JsonText& json, const ChromeLaunch& each, std::size_t number) const {
    const CollectiveCall& launch = *each.launch;
    const ChromeRow& row = plan_.rows[each.row];
    const std::uint64_t device = plan_.first_device + row.device;
    event(json, "X", "kernel", detail::kernel_name(*each.group, launch), device, row.number);
    at(json, each.begin_ns).key("dur").microseconds(each.end_ns - each.begin_ns).key("args").open('{');
    json.field("External id", number).field("correlation", number).field("stream", launch.stream);
    if (launch.asked_ns > 0 && launch.begun_ns >= launch.asked_ns && launch.replay == 0) {
      json.key("queued").microseconds(launch.begun_ns - launch.asked_ns);
    }
    put_arguments(json, each);
    json.close('}').close('}');
    const auto slice = [&](std::string_view name, std::int64_t begin, std::int64_t end) {
      event(json, "X", "gpu_user_annotation", name, device, row.number);
      at(json, begin).key("dur").microseconds(end - begin).close('}');
    };
    if (launch.met_ns >= each.begin_ns && launch.met_ns <= each.end_ns) {
      slice("wait for others", each.begin_ns, launch.met_ns);
      slice("move bytes", launch.met_ns, each.end_ns);
    } else if (launch.stage == Stage::kBegun) {
      slice("wait for others", each.begin_ns, each.end_ns);
    }
    if (each.is_asked_drawn) put_flow(json, "f", number, device, row.number, each.begin_ns);
  }

  // Enqueued and never started: such launches overlap, which only events of this kind may.
  void put_queued(JsonText& json, const ChromeLaunch& each, std::size_t number) const {
    for (const auto& [phase, moment] : {std::pair{"b", each.when_ns}, {"e", std::max(each.when_ns, plan_.until_ns)}}) {
      event(json, phase, "queued", detail::profiler_collective(*each.launch) + ", not begun", plan_.process,
            each.launch->thread);
      at(json, moment).field("id", number).close('}');
    }
  }

  void put_flow(JsonText& json, std::string_view phase, std::size_t number, std::uint64_t process, std::uint64_t thread,
                std::int64_t moment_ns) const {
    event(json, phase, "ac2g", "ac2g", process, thread);
    at(json, moment_ns).field("id", number);
    if (phase == "f") json.field("bp", "e");
    json.close('}');
  }

  void put_arguments(JsonText& json, const ChromeLaunch& each) const {
    const CollectiveCall& launch = *each.launch;
    const Group& group = *each.group;
    const RecordedOperation& first = launch.operations.front();
    json.field("Collective name", detail::profiler_collective(launch));
    if (const auto elements = detail::elements_of(group, launch)) {
      json.field("In msg nelems", elements->in).field("Out msg nelems", elements->out);
      json.field("Group size", group.ranks.size()).field("dtype", elements->dtype);
    } else {
      json.field("Group size", group.ranks.size()).field("dtype", detail::torch_dtype(first.dtype));
    }
    // The record holds a digest of uneven sizes, not the sizes: write them like a truncated list.
    const char* split = first.parts != 0 && first.kind != "permute" ? "[...]" : "[]";
    json.field("In split size", split).field("Out split size", split);
    json.field("Process Group Name", std::to_string(each.group_number)).field("Process Group Description", group.name);
    json.field("Process Group Ranks", lists_.at(&group)).field("Rank", rank_.rank);
    if (launch.is_message()) {
      const int peer = world_rank(group, first.peer);
      const bool is_send = first.kind == "send";
      json.field("Src Rank", is_send ? rank_.rank : peer).field("Dst Rank", is_send ? peer : rank_.rank);
    }
    if (first.root >= 0) json.field("Root Rank", world_rank(group, first.root));
    json.field("Seq", launch.collective_number).field("task", launch.task).field("state", word_of(launch.stage));
    if (!launch.failure.empty()) json.field("failure", launch.failure);
    if (!launch.label.empty()) json.field("label", launch.label);
    if (launch.replay != 0) json.field("replay", launch.replay).field("node", launch.node);
    json.key("operations").open('[');
    for (std::size_t i = 0; i < std::min(launch.operations.size(), kNamed); ++i) {
      json.value(detail::text_of(launch.operations[i]));
    }
    if (launch.operations.size() > kNamed) json.value(fmt::format("and {} more", launch.operations.size() - kNamed));
    json.close(']');
  }

  void put_left_out(JsonText& json, std::size_t count, std::int64_t last_ns) const {
    event(json, "M", "", "tessera_left_out", plan_.process, 0).key("ts").microseconds(0);
    json.key("args").open('{').field("events", count).field("of", events_.size());
    json.key("up_to").microseconds(last_ns - shared_.base_ns).field("max_nbytes", options_.max_nbytes);
    json.field("why", "the oldest launches, kernels and annotations did not fit the file").close('}').close('}');
  }

  const Evidence& evidence_;
  const Rank& rank_;
  const detail::ChromeShared& shared_;
  ChromeOptions options_;
  ChromePlan plan_;
  std::vector<Event> events_;
  std::unordered_map<const Group*, std::string> lists_;  // members as text
};

}  // namespace

ChromeTrace write_chrome_trace(std::ostream& out, const Evidence& evidence, std::size_t index,
                               const ChromeOptions& options) {
  TESSERA_CHECK(index < evidence.ranks.size(), "Chrome trace: rank must be in [0, ", evidence.ranks.size(), "), got ",
                index);
  const detail::ChromeShared shared = detail::chrome_shared(evidence, options.since_ns);
  return TraceWriter(evidence, evidence.ranks[index], shared, options).write(out);
}

std::vector<ChromeTrace> write_chrome_traces(const Evidence& evidence, const std::string& directory,
                                             const ChromeOptions& options) {
  const detail::ChromeShared shared = detail::chrome_shared(evidence, options.since_ns);
  std::vector<ChromeTrace> traces;
  for (const Rank& rank : evidence.ranks) {
    if (rank.state == RankState::kMissing) continue;
    const std::string path = (std::filesystem::path(directory) / fmt::format("trace_rank_{}.json", rank.rank)).string();
    AtomicFile file(path, options.file_kind);
    ChromeTrace trace = TraceWriter(evidence, rank, shared, options).write(file.stream());
    file.commit();
    trace.path = path;
    traces.push_back(std::move(trace));
  }
  return traces;
}

}  // namespace tessera::analysis
