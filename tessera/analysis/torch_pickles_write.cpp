// Writes the evidence of each rank in the format of the PyTorch flight recorder, version 2.10. Its analyzer demands the
// same version on all ranks; the group of every entry in pg_config, with the same description on all ranks; known names
// of operations after "nccl:"; and an entry "nccl:coalesced" after several operations of one launch. Data without a key
// in PyTorch is under a Tessera key, at the end of dumps and entries, which PyTorch ignores.
#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "tessera/analysis/detail/torch_entries.h"
#include "tessera/analysis/detail/torch_names.h"
#include "tessera/analysis/torch_pickles.h"
#include "tessera/base/error.h"
#include "tessera/base/pickle.h"
#include "tessera/base/version.h"

namespace tessera::analysis {
namespace {

// A launch and its position: entries are in the order of time, over all groups.
struct Placed {
  const CollectiveCall* launch;
  const Group* group;
  std::size_t group_number;
  std::int64_t collective;  // collective_seq_id
  std::int64_t message;     // p2p_seq_id
};

// Operations of a group before its first known launch; unset if unknown.
struct Before {
  std::optional<std::int64_t> collectives = {};
  std::optional<std::int64_t> messages = {};
};

// Counts the records that the ring lost from the first numbered collective: of `task` launches up to it,
// `collective_number` are collectives.
Before count_before(const Group& group, bool has_lost) {
  if (!has_lost) return {0, 0};
  const bool has_replays =
      std::ranges::any_of(group.launches, [](const CollectiveCall& each) { return each.replay != 0; });
  std::int64_t collectives = 0;
  std::int64_t messages = 0;
  for (const CollectiveCall& launch : group.launches) {
    if (launch.is_message()) {
      ++messages;
      continue;
    }
    ++collectives;
    if (launch.collective_number == 0) continue;
    const auto collective_number = static_cast<std::int64_t>(launch.collective_number);
    const std::int64_t messages_before = static_cast<std::int64_t>(launch.task) - collective_number - messages;
    Before before{.collectives = std::max<std::int64_t>(collective_number - collectives, 0)};
    if (!has_replays && launch.task != 0 && messages_before >= 0) before.messages = messages_before;
    return before;
  }
  return {};
}

// Omits launches whose number was lost with earlier records. Point-to-point operations are then numbered by their
// launch, like all operations of the group.
std::vector<Placed> placed_launches(const Rank& rank) {
  std::vector<Placed> placed;
  for (std::size_t i = 0; i < rank.groups.size(); ++i) {
    const Group& group = rank.groups[i];
    const bool has_lost = rank.lost > 0 || (!group.launches.empty() && group.launches.front().task > 1);
    auto [collective, message] = count_before(group, has_lost);
    for (const CollectiveCall& launch : group.launches) {
      if (launch.is_message()) {
        if (message) ++*message;
      } else if (launch.collective_number != 0) {
        collective = static_cast<std::int64_t>(launch.collective_number);
      } else if (collective) {
        ++*collective;
      } else {
        continue;
      }
      placed.push_back({&launch, &group, i, collective.value_or(0), message.value_or(launch.task)});
    }
  }
  const auto when = [](const Placed& each) {
    return each.launch->asked_ns != 0 ? each.launch->asked_ns : each.launch->begun_ns;
  };
  std::stable_sort(placed.begin(), placed.end(), [&](const Placed& a, const Placed& b) { return when(a) < when(b); });
  return placed;
}

// Returns the input and output sizes of a rank, as PyTorch operations have them. The analyzer of PyTorch knows only
// even sizes: uneven sizes are 0, and the count of this rank is under the Tessera key.
std::pair<std::int64_t, std::int64_t> sizes_of(const RecordedOperation& operation, const Group& group) {
  const auto size = static_cast<std::int64_t>(group.ranks.size());
  const std::int64_t count = operation.count;
  std::int64_t all = 0;
  if (__builtin_mul_overflow(count, size, &all)) all = count;
  const std::string kind = detail::torch_operation(operation.kind);
  if (operation.parts != 0 && operation.kind != "permute") return {0, 0};
  if (kind == "_all_gather_base" || kind == "gather") return {count, all};
  if (kind == "_reduce_scatter_base" || kind == "scatter") return {all, count};
  if (kind == "all_to_all") return {all, all};
  return {count, count};
}

class DumpWriter {
 public:
  DumpWriter(PickleWriter& out, const Rank& rank) : out_(out), rank_(rank) {}

  void write() {
    const std::vector<Placed> placed = placed_launches(rank_);
    out_.begin_dict();
    out_.entry("version", "2.10");
    out_.entry("comm_lib_version", version());
    write_groups();
    write_status(placed);
    out_.value("entries");
    out_.begin_list();
    for (const Placed& each : placed) write_launch(each);
    out_.end_list();
    write_own_rank();
    out_.end_dict();
  }

 private:
  void write_groups() {
    out_.value("pg_config");
    out_.begin_dict();
    for (const Group& group : rank_.groups) {
      out_.value(group.name);
      out_.begin_dict();
      out_.entry("name", group.name);
      out_.entry("desc", group.name);
      out_.entry("ranks", detail::torch_ranks(group.ranks));
      out_.end_dict();
    }
    out_.end_dict();
  }

  void write_status(const std::vector<Placed>& placed) {
    struct Status {
      std::int64_t enqueued = -1, started = -1, completed = -1;
    };
    std::map<std::size_t, Status> statuses;
    for (std::size_t i = 0; i < rank_.groups.size(); ++i) statuses[i] = {};
    for (const Placed& each : placed) {
      if (each.launch->is_message()) continue;
      Status& status = statuses[each.group_number];
      status.enqueued = std::max(status.enqueued, each.collective);
      if (each.launch->stage != Stage::kAsked) status.started = std::max(status.started, each.collective);
      if (each.launch->stage == Stage::kDone) status.completed = std::max(status.completed, each.collective);
    }
    out_.value("pg_status");
    out_.begin_dict();
    for (const auto& [number, status] : statuses) {
      out_.value(std::to_string(number));
      out_.begin_dict();
      out_.entry("last_enqueued_collective", status.enqueued);
      out_.entry("last_started_collective", status.started);
      out_.entry("last_completed_collective", status.completed);
      out_.end_dict();
    }
    out_.end_dict();
  }

  void write_launch(const Placed& placed) {
    const std::vector<RecordedOperation>& operations = placed.launch->operations;
    for (const RecordedOperation& operation : operations) write_entry(placed, operation, true);
    if (operations.size() > 1) write_entry(placed, {.kind = "coalesced"}, false);
  }

  void write_entry(const Placed& placed, const RecordedOperation& operation, bool has_own) {
    const CollectiveCall& launch = *placed.launch;
    out_.begin_dict();
    if (!launch.label.empty()) write_frames(launch.label);
    out_.entry("record_id", records_++);
    out_.entry("pg_id", placed.group_number);
    out_.value("process_group");
    out_.begin_tuple();
    out_.value(placed.group->name);
    out_.value(placed.group->name);
    out_.end_tuple();
    out_.entry("thread_name", "");
    out_.entry("thread_id", std::to_string(launch.thread));
    out_.entry("collective_seq_id", placed.collective);
    out_.entry("p2p_seq_id", placed.message);
    out_.entry("op_id", ++operations_);
    out_.entry("profiling_name", detail::profiling_name(operation.kind, placed.group->rank, operation.peer));
    out_.entry("time_created_ns", launch.asked_ns != 0 ? launch.asked_ns : launch.begun_ns);
    if (launch.stage == Stage::kDone && launch.begun_ns != 0 && launch.ended_ns != 0)
      out_.entry("duration_ms", static_cast<double>(launch.ended_ns - launch.begun_ns) / 1e6);
    write_sizes(placed, operation);
    const bool has_begun = launch.stage != Stage::kAsked && (launch.stage != Stage::kFailed || launch.begun_ns != 0);
    out_.entry("state", launch.stage == Stage::kDone ? "completed" : has_begun ? "started" : "scheduled");
    write_time("time_discovered_started_ns", has_begun ? launch.begun_ns : 0);
    write_time("time_discovered_completed_ns", launch.stage == Stage::kDone ? launch.ended_ns : 0);
    out_.entry("retired", launch.has_ended());
    out_.entry("timeout_ms", 0);
    out_.entry("is_p2p", launch.is_message());
    if (has_own) write_own(launch, operation);
    out_.end_dict();
  }

  void write_frames(const std::string& label) {
    out_.value("frames");
    out_.begin_list();
    out_.begin_dict();
    out_.entry("name", label);
    out_.entry("filename", "");
    out_.entry("line", 0);
    out_.end_dict();
    out_.end_list();
  }
  void write_time(std::string_view key, std::int64_t time_ns) {
    out_.value(key);
    if (time_ns != 0) {
      out_.value(time_ns);
    } else {
      out_.none();
    }
  }
  void write_sizes(const Placed& placed, const RecordedOperation& operation) {
    const auto [in, out] = sizes_of(operation, *placed.group);
    const bool has_sizes = operation.kind != "coalesced";
    const std::string dtype = detail::torch_dtype(operation.dtype.empty() ? "u8" : operation.dtype);
    for (const auto& [side, count] : {std::pair{"input", in}, std::pair{"output", out}}) {
      out_.value(std::string(side) + "_sizes");
      out_.begin_list();
      if (has_sizes) {
        out_.begin_list();
        out_.value(count);
        out_.end_list();
      }
      out_.end_list();
      out_.value(std::string(side) + "_dtypes");
      out_.begin_list();
      if (has_sizes) out_.value(dtype);
      out_.end_list();
    }
  }

  void write_own(const CollectiveCall& launch, const RecordedOperation& operation) {
    out_.value(detail::kOwnKey);
    out_.begin_dict();
    out_.entry("kind", operation.kind);
    out_.entry("dtype", operation.dtype);
    out_.entry("count", operation.count);
    out_.entry("reduction", operation.reduction);
    out_.entry("root", operation.root);
    out_.entry("parts", operation.parts);
    out_.entry("task", launch.task);
    out_.entry("sequence", launch.sequence);
    out_.entry("collective_number", launch.collective_number);
    out_.entry("asked_ns", launch.asked_ns);
    out_.entry("met_ns", launch.met_ns);
    out_.entry("ended_ns", launch.ended_ns);
    out_.entry("failure", launch.failure);
    out_.entry("device", launch.device);
    out_.entry("stream", launch.stream);
    out_.entry("thread", launch.thread);
    out_.entry("replay", launch.replay);
    out_.entry("node", launch.node);
    out_.entry("is_whole", launch.is_whole);
    out_.end_dict();
  }
  void write_own_rank() {
    out_.value(detail::kOwnKey);
    out_.begin_dict();
    out_.entry("state", static_cast<int>(rank_.state));
    out_.entry("reason", rank_.reason);
    out_.entry("signal", rank_.signal);
    out_.entry("host", rank_.host);
    out_.entry("pid", rank_.pid);
    out_.entry("last_ns", rank_.last_ns);
    out_.entry("lost", rank_.lost);
    out_.end_dict();
  }

  PickleWriter& out_;
  const Rank& rank_;
  std::int64_t records_ = 0;
  std::int64_t operations_ = 0;
};

}  // namespace

std::vector<std::string> write_torch_pickles(const Evidence& evidence, const std::string& directory,
                                             const std::string& prefix, FileKind kind) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  TESSERA_CHECK_AS(IoError, !error, "directory ", directory, " cannot be created: ", error.message());
  std::vector<std::string> files;
  for (const Rank& rank : evidence.ranks) {
    if (rank.state == RankState::kMissing && rank.groups.empty()) continue;
    files.push_back(directory + "/" + prefix + std::to_string(rank.rank));
    write_pickle_file(
        files.back(), [&](PickleWriter& out) { DumpWriter(out, rank).write(); }, kind);
  }
  return files;
}

}  // namespace tessera::analysis
