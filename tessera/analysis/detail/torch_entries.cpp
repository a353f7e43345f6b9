#include "tessera/analysis/detail/torch_entries.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "tessera/analysis/detail/torch_names.h"
#include "tessera/base/error.h"

namespace tessera::analysis::detail {
namespace {

using tessera::detail::concat;

std::int64_t integer_at(const PickleValue& in, std::string_view key, std::int64_t fallback = 0) {
  const PickleValue* found = in.find(key);
  return found != nullptr ? found->integer().value_or(fallback) : fallback;
}
std::string text_at(const PickleValue& in, std::string_view key) {
  const PickleValue* found = in.find(key);
  const std::string* text = found != nullptr ? found->text() : nullptr;
  return text != nullptr ? *text : std::string();
}

// Returns the elements of all tensors of a list of sizes; nothing if it is not such a list.
std::optional<std::int64_t> elements_at(const PickleValue& entry, std::string_view key) {
  const PickleValue* found = entry.find(key);
  const PickleList* tensors = found != nullptr ? found->list() : nullptr;
  if (tensors == nullptr) return std::nullopt;
  std::int64_t all = 0;
  for (const PickleValue& tensor : *tensors) {
    if (tensor.list() == nullptr) return std::nullopt;
    std::int64_t elements = 1;
    for (const PickleValue& size : *tensor.list()) {
      const std::int64_t length = size.integer().value_or(-1);
      if (length < 0 || __builtin_mul_overflow(elements, length, &elements)) return std::nullopt;
    }
    if (__builtin_add_overflow(all, elements, &all)) return std::nullopt;
  }
  return all;
}

// Returns a count that must be equal on all ranks: of the complete tensor, or of one shard. Counts of an all_to_all may
// differ between ranks, and the dump does not state which is the case.
std::int64_t count_of(const std::string& kind, const PickleValue& entry) {
  const bool is_of_output = kind == "reduce_scatter" || kind == "scatter" || kind == "recv";
  if (kind == "all_to_all" || kind == "barrier") return 0;
  return elements_at(entry, is_of_output ? "output_sizes" : "input_sizes").value_or(0);
}

std::string first_text(const PickleValue& entry, std::string_view key) {
  const PickleValue* found = entry.find(key);
  const PickleList* list = found != nullptr ? found->list() : nullptr;
  const std::string* text = list != nullptr && !list->empty() ? list->front().text() : nullptr;
  return text != nullptr ? *text : std::string();
}

RecordedOperation operation_of(const PickleValue& entry, const ProfilingName& name) {
  RecordedOperation operation{.kind = operation_of_torch(name.operation), .peer = name.peer};
  operation.count = count_of(operation.kind, entry);
  operation.dtype = dtype_of_torch(first_text(entry, "input_dtypes"));
  if (operation.dtype.empty()) operation.dtype = dtype_of_torch(first_text(entry, "output_dtypes"));
  if (operation.kind == "barrier") operation.dtype.clear();
  const PickleValue* own = entry.find(kOwnKey);
  if (own == nullptr) return operation;
  if (const std::string kind = text_at(*own, "kind"); !kind.empty()) operation.kind = kind;
  operation.dtype = text_at(*own, "dtype");
  operation.count = std::max<std::int64_t>(integer_at(*own, "count"), 0);
  operation.reduction = text_at(*own, "reduction");
  const std::int64_t root = integer_at(*own, "root", -1);
  operation.root = root >= 0 && root <= std::numeric_limits<int>::max() ? static_cast<int>(root) : -1;
  operation.parts = static_cast<std::uint32_t>(integer_at(*own, "parts"));
  return operation;
}

CollectiveCall launch_of(const PickleValue& entry, const RecordedOperation& operation) {
  CollectiveCall launch{.operations = {operation},
                        .asked_ns = integer_at(entry, "time_created_ns"),
                        .begun_ns = integer_at(entry, "time_discovered_started_ns"),
                        .ended_ns = integer_at(entry, "time_discovered_completed_ns")};
  const std::string state = text_at(entry, "state");
  launch.stage = state == "completed" ? Stage::kDone : state == "started" ? Stage::kBegun : Stage::kAsked;
  if (launch.stage != Stage::kDone && integer_at(entry, "retired") != 0) {
    launch.stage = Stage::kFailed;
    launch.failure = "timeout";
  }
  if (const PickleValue* frames = entry.find("frames"); frames != nullptr && frames->list() != nullptr) {
    if (!frames->list()->empty()) {
      const PickleValue& frame = frames->list()->front();
      const std::string file = text_at(frame, "filename");
      launch.label = text_at(frame, "name");
      if (!file.empty()) launch.label += concat(" (", file, ":", integer_at(frame, "line"), ")");
    }
  }
  const PickleValue* own = entry.find(kOwnKey);
  if (own == nullptr) return launch;
  launch.task = static_cast<std::uint32_t>(integer_at(*own, "task"));
  launch.sequence = static_cast<std::uint64_t>(integer_at(*own, "sequence"));
  launch.asked_ns = integer_at(*own, "asked_ns");
  launch.met_ns = integer_at(*own, "met_ns");
  launch.ended_ns = integer_at(*own, "ended_ns");
  if (launch.stage == Stage::kFailed) launch.failure = text_at(*own, "failure");
  launch.device = text_at(*own, "device");
  launch.stream = static_cast<std::uint32_t>(integer_at(*own, "stream"));
  launch.thread = static_cast<std::uint32_t>(integer_at(*own, "thread"));
  launch.replay = static_cast<std::uint64_t>(integer_at(*own, "replay"));
  launch.node = static_cast<std::uint32_t>(integer_at(*own, "node"));
  launch.is_whole = integer_at(*own, "is_whole", 1) != 0;
  if (launch.met_ns != 0 && launch.stage == Stage::kBegun) launch.stage = Stage::kMet;
  return launch;
}

class DumpReader {
 public:
  DumpReader(const PickleValue& dump, std::uint64_t nbytes, std::string path)
      : dump_(dump), path_(std::move(path)), work_left_(max_work(nbytes)) {}

  Rank read(int number, std::vector<std::string>& problems) {
    check_version();
    read_groups();
    const PickleValue* entries = dump_.find("entries");
    if (entries != nullptr && entries->list() != nullptr) {
      for (const PickleValue& entry : *entries->list()) add_entry(entry);
    }
    if (senseless_ > 0) problems.push_back(concat(path_, ": ", senseless_, " entries are invalid; ignored"));
    Rank rank{.rank = number, .file = path_};
    rank.lost = first_record_ > 0 ? static_cast<std::uint64_t>(first_record_) : 0;
    for (auto& [name, group] : groups_) {
      finish_group(group);
      rank.groups.push_back(std::move(group.group));
    }
    take_own(rank);
    return rank;
  }

 private:
  struct Building {
    Group group = {};
    std::map<std::pair<int, std::string>, std::uint64_t> messages = {};  // by peer and direction: the number so far
    std::pair<bool, std::int64_t> last = {false, -1};  // last entry: point-to-point or not, and its number
  };

  // A small file can refer to one large value many times. The work over all entries is therefore bounded by the size of
  // the file.
  static std::uint64_t max_work(std::uint64_t nbytes) {
    constexpr std::uint64_t kMax = std::uint64_t{1} << 32;
    return std::min(kMax, (std::uint64_t{1} << 20) + 256 * std::min(nbytes, kMax));
  }
  void charge(std::uint64_t work) {
    TESSERA_CHECK_AS(IoError, work <= work_left_, "pickle ", path_,
                     ": must not repeat large values; not a flight recorder dump");
    work_left_ -= work;
  }
  // Charges the work of reading a value: its text is copied, its keys are searched.
  void charge(const PickleValue& value, int depth) {
    constexpr std::uint64_t kCopies = 16;
    constexpr std::uint64_t kLooks = 32;
    charge(1);
    if (const std::string* text = value.text()) charge(kCopies * text->size());
    if (depth == 0) return;
    if (const PickleList* list = value.list()) {
      charge(list->size());
      for (const PickleValue& each : *list) charge(each, depth - 1);
    }
    if (const PickleDict* dict = value.dict()) {
      charge(kLooks * dict->size());
      for (const auto& [key, each] : *dict) charge(each, depth - 1);
    }
  }
  // Only the first frame is read.
  void charge_entry(const PickleValue& entry) {
    const PickleDict* dict = entry.dict();
    if (dict == nullptr) return;
    charge(32 * dict->size());
    for (const auto& [key, value] : *dict) {
      const std::string* name = key.text();
      if (name == nullptr || *name != "frames" || value.list() == nullptr) {
        charge(value, 2);
      } else if (!value.list()->empty()) {
        charge(value.list()->front(), 1);
      }
    }
  }

  void check_version() const {
    TESSERA_CHECK_AS(IoError, dump_.dict() != nullptr, "pickle ", path_,
                     ": must be a dict; not a flight recorder dump");
    const std::string version = text_at(dump_, "version");
    TESSERA_CHECK_AS(IoError, !version.empty() && dump_.find("pg_config") != nullptr, "pickle ", path_,
                     ": must have version and pg_config; not a flight recorder dump");
    TESSERA_CHECK_AS(IoError, version.starts_with("2."), "pickle ", path_, ": version must be 2.x, got ", version);
  }

  // A group has the name that PyTorch uses, with its description if that adds information.
  void read_groups() {
    const PickleDict* groups = dump_.find("pg_config")->dict();
    if (groups == nullptr) return;
    for (const auto& [key, config] : *groups) {
      const std::string* name = key.text();
      if (name == nullptr) continue;
      charge(config, 1);
      const std::string description = text_at(config, "desc");
      const bool says_more = !description.empty() && description != *name && description != "undefined";
      Building& building = groups_[*name];
      building.group.name = says_more ? concat(*name, " (", description, ")") : *name;
      building.group.ranks = ranks_of_torch(text_at(config, "ranks"));
    }
  }

  Building* group_of(const PickleValue& entry) {
    const PickleValue* pair = entry.find("process_group");
    const PickleList* names = pair != nullptr ? pair->list() : nullptr;
    const std::string* name = names != nullptr && !names->empty() ? names->front().text() : nullptr;
    if (name == nullptr) return nullptr;
    const auto found = groups_.find(*name);
    return found != groups_.end() ? &found->second : nullptr;
  }

  void add_entry(const PickleValue& entry) {
    charge_entry(entry);
    Building* building = group_of(entry);
    const ProfilingName name = parse_profiling_name(text_at(entry, "profiling_name"));
    if (building == nullptr || name.operation.empty()) {
      ++senseless_;
      return;
    }
    const std::int64_t record = integer_at(entry, "record_id");
    first_record_ = first_record_ < 0 ? record : std::min(first_record_, record);
    Group& group = building->group;
    group.backend = name.backend;
    const bool is_message = integer_at(entry, "is_p2p") != 0;
    const std::pair<bool, std::int64_t> place = {is_message,
                                                 integer_at(entry, is_message ? "p2p_seq_id" : "collective_seq_id")};
    const bool is_part = place == building->last && !group.launches.empty();
    building->last = place;
    if (is_part && name.operation == "coalesced") return;  // the end of coalesced operations
    const RecordedOperation operation = operation_of(entry, name);
    CollectiveCall launch = launch_of(entry, operation);
    if (is_part) {
      group.launches.back().operations.push_back(operation);
      count_message(*building, operation);
      return;
    }
    const std::uint64_t number = count_message(*building, operation);
    launch.collective_number =
        is_message ? number : static_cast<std::uint64_t>(std::max<std::int64_t>(place.second, 0));
    if (const PickleValue* own = entry.find(kOwnKey))
      launch.collective_number = static_cast<std::uint64_t>(integer_at(*own, "collective_number"));
    has_timing_ |= launch.begun_ns != 0 || text_at(entry, "state") == "started";
    group.launches.push_back(std::move(launch));
  }

  // Returns the number of a point-to-point operation among those of its direction with its peer.
  static std::uint64_t count_message(Building& building, const RecordedOperation& operation) {
    return operation.peer < 0 ? 0 : ++building.messages[{operation.peer, operation.kind}];
  }

  void finish_group(Building& building) const {
    Group& group = building.group;
    const bool is_ours = dump_.find(kOwnKey) != nullptr;
    bool has_begun = false;
    for (CollectiveCall& launch : group.launches) {
      // Older entries may be lost, and PyTorch does not number point-to-point operations by peer.
      if (!is_ours && launch.is_message() && first_record_ > 0) launch.collective_number = 0;
      if (!is_ours && !has_timing_ && !has_begun && launch.stage == Stage::kAsked) launch.stage = Stage::kBegun;
      has_begun |= launch.stage == Stage::kBegun;
      ++group.asked;
      group.begun += launch.stage != Stage::kAsked ? 1 : 0;
      group.ended += launch.has_ended() ? 1 : 0;
    }
  }

  // Reads the state of the rank, which only Tessera writes.
  void take_own(Rank& rank) const {
    const PickleValue* own = dump_.find(kOwnKey);
    if (own == nullptr) return;
    const std::int64_t state = integer_at(*own, "state", -1);
    if (state >= 0 && state <= static_cast<std::int64_t>(RankState::kUnknown))
      rank.state = static_cast<RankState>(state);
    rank.reason = text_at(*own, "reason");
    const std::int64_t signal = integer_at(*own, "signal");
    rank.signal = signal > 0 && signal < 128 ? static_cast<int>(signal) : 0;
    rank.host = text_at(*own, "host");
    rank.pid = static_cast<std::uint64_t>(integer_at(*own, "pid"));
    rank.last_ns = integer_at(*own, "last_ns");
    rank.lost = static_cast<std::uint64_t>(integer_at(*own, "lost"));
  }

  const PickleValue& dump_;
  std::string path_;
  std::uint64_t work_left_;
  std::map<std::string, Building> groups_;
  std::size_t senseless_ = 0;
  std::int64_t first_record_ = -1;
  bool has_timing_ = false;
};

}  // namespace

Rank read_torch_rank(const PickleValue& dump, std::uint64_t nbytes, int rank, const std::string& path,
                     std::vector<std::string>& problems) {
  return DumpReader(dump, nbytes, path).read(rank, problems);
}

bool settle_group(Group& group, int rank, int world_size) {
  if (group.ranks.empty() && group.launches.empty()) return false;
  if (group.ranks.empty()) {
    group.ranks.resize(static_cast<std::size_t>(world_size));
    std::iota(group.ranks.begin(), group.ranks.end(), 0);
  }
  const auto place = std::find(group.ranks.begin(), group.ranks.end(), rank);
  if (place == group.ranks.end()) return false;
  group.rank = static_cast<int>(place - group.ranks.begin());
  const auto size = static_cast<int>(group.ranks.size());
  std::erase_if(group.launches, [&](const CollectiveCall& launch) {
    return std::any_of(launch.operations.begin(), launch.operations.end(), [&](const RecordedOperation& operation) {
      return operation.peer >= size || operation.root >= size;
    });
  });
  return true;
}

}  // namespace tessera::analysis::detail
